"""Which chip kernels run on, by JAX's backend and the environment."""

import types

import pytest

from jax_hipkittens import _targets
from jax_hipkittens._targets import Target


@pytest.fixture(autouse=True)
def forgotten():
    """What is read once is read anew by each test, and by the next module."""
    yield
    _targets.simulated.cache_clear()
    _targets._architecture.cache_clear()


@pytest.fixture
def choose(monkeypatch):
    """Sets the variable, and forgets what it was."""

    def chosen(name):
        _targets.simulated.cache_clear()
        monkeypatch.setenv(_targets.VARIABLE, name)

    return chosen


@pytest.fixture
def on_gpu(monkeypatch):
    """A backend that calls itself "gpu", of some platform and device."""

    def backend(version, architecture="gfx942:sramecc+:xnack-"):
        _targets._architecture.cache_clear()
        device = types.SimpleNamespace(compute_capability=architecture)
        monkeypatch.setattr(_targets.jax, "default_backend", lambda: "gpu")
        monkeypatch.setattr(_targets.jax, "devices", lambda: [device])
        found = types.SimpleNamespace(platform_version=version)
        monkeypatch.setattr(_targets, "get_backend", lambda platform: found)

    return backend


def test_the_host_is_the_target_of_the_cpu(choose):
    choose("")
    assert _targets.current() == Target("host") and _targets.current().is_host


@pytest.mark.parametrize("chip", _targets.GPUS)
def test_a_chip_is_simulated_on_the_cpu(choose, chip):
    choose(chip)
    assert _targets.current() == Target(chip, simulated=True)
    assert str(_targets.current()) == f"{chip} (simulated)"


def test_no_other_chip_is_simulated(choose):
    choose("gfx90a")
    with pytest.raises(
        ValueError, match=r"one of gfx950, gfx942, but.*'gfx90a'; unset"
    ):
        _targets.current()


def test_an_amd_gpu_by_its_name(on_gpu):
    on_gpu("PJRT C API\nrocm 70000")
    assert _targets.current() == Target("gfx942")


def test_an_amd_gpu_without_a_name_is_left_to_the_launch(on_gpu):
    on_gpu("rocm 70000", architecture="")
    _targets.require("gemm", ["gfx950"], _targets.current())


def test_another_gpu_is_named(on_gpu):
    on_gpu("cuda 13000")
    with pytest.raises(NotImplementedError, match="JAX's default backend here is gpu"):
        _targets.current()


@pytest.mark.parametrize("name", ["host", "gfx950"])
def test_a_target_with_kernels(name):
    _targets.require("gemm", ["gfx942", "gfx950"], Target(name))


@pytest.mark.parametrize(
    ("built", "message"),
    [
        (["gfx942", "gfx950"], "gemm on the host, gfx942, gfx950, but received gfx90a"),
        ([], "gemm on the host, but received gfx90a"),
    ],
)
def test_a_target_without_kernels(built, message):
    with pytest.raises(NotImplementedError, match=message):
        _targets.require("gemm", built, Target("gfx90a"))
