import subprocess
import sys

import pytest

from jax_hipkittens import __main__ as command
from jax_hipkittens import _ffi, doctor


def test_report(capsys):
    assert command.main(["doctor"]) == 0
    text = capsys.readouterr().out
    used = _ffi.require().host_isa()
    assert f"host: yes, with {used}" in text
    assert f"{used}: yes" in text
    assert "gfx950: kernels of gemm" in text and "gfx942: kernels of gemm" in text
    assert "on a GPU: " in text and "simulated: " in text
    assert "matmul on HK agrees with XLA" in text
    assert f"{doctor.threads()} threads" in text


def test_every_isa_of_the_build_is_described():
    assert set(_ffi.require().host_isas()) <= set(doctor.HOST_ISAS)


def test_without_the_extension(monkeypatch):
    problem = "the extension module cannot be loaded (gone)"
    monkeypatch.setattr(_ffi, "_status", _ffi.Status(None, problem))
    text = doctor.report()
    assert f"host: no; {problem}" in text
    assert f"ops run on XLA alone: matmul: {problem}" in text


def test_an_older_jaxlib(monkeypatch):
    status = _ffi.Status(None, "built for XLA FFI 0.9", (0, 9), (0, 3))
    monkeypatch.setattr(_ffi, "_status", status)
    assert "kernels built for 0.9, this jaxlib has 0.3" in doctor.report()


@pytest.mark.parametrize(
    "variable, value, words",
    [
        ("JAX_HIPKITTENS_HOST_ISA", "plain", "with plain (set by"),
        ("JAX_HIPKITTENS_HOST_ISA", "sse9", "sse9"),
        ("JAX_HIPKITTENS_SIMULATE", "gfx90a", "one of gfx950, gfx942, but received"),
        ("JAX_HIPKITTENS_SIMULATE", "gfx950", "by JAX_HIPKITTENS_SIMULATE=gfx950"),
    ],
)
def test_chosen_by_a_variable(variable, value, words):
    done = subprocess.run(
        [sys.executable, "-m", "jax_hipkittens", "doctor"],
        env={**doctor.os.environ, variable: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_a_simulated_device_that_fails():
    done = subprocess.run(
        [sys.executable, "-m", "jax_hipkittens", "doctor"],
        env={
            **doctor.os.environ,
            "JAX_HIPKITTENS_SIMULATE": "gfx950",
            "HIPSIM_DEVICES": "0",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ops fail: " in done.stdout and "hipErrorNoDevice" in done.stdout
