"""Every GEMM kernel against float64, on the simulated device with all its checks."""

import pathlib
import shutil
import subprocess

import pytest

from jax_hipkittens.bench import static

ROOT = pathlib.Path(__file__).parents[3]
# Schedule and tile, and how many random cases and up to which size: what a workgroup of
# 256 x 256 takes to simulate is 16 times what one of 64 x 64 does.
KERNELS = [
    ("gfx950", "planned", 60, 520),
    ("gfx942", "planned", 60, 520),
    ("gfx950", "pingpong_256", 24, 300),
    ("gfx950", "direct_128", 40, 300),
    ("gfx950", "direct_64", 60, 300),
    ("gfx950", "staged_128", 30, 192),
    ("gfx950", "staged_64", 60, 192),
    ("gfx942", "staged_256", 20, 300),
    ("gfx942", "staged_128", 40, 192),
    ("gfx942", "staged_64", 60, 192),
]


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """The program gemm_simulated, linked with the package's simulated device."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler to build the test with")
    package = static.device_folder().parent
    program = tmp_path_factory.mktemp("gemm") / "gemm_simulated"
    command = [compiler, "-std=c++20", "-O2", f"-I{ROOT / 'include'}"]
    command += [str(ROOT / "tests/ffi/device/gemm_simulated.cc"), "-o", str(program)]
    command += [f"-L{package}", "-lhk_hipsim", f"-Wl,-rpath,{package}", "-pthread"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return program


def run(runner, target, *words):
    code_object = static.device_folder() / f"gemm.{target}.co"
    if not code_object.exists():
        pytest.skip(f"the package was built without {target}")
    command = [str(runner), str(code_object), target, *words]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("target, kernel, cases, size", KERNELS)
def test_products_are_right(runner, target, kernel, cases, size):
    said = run(runner, target, kernel, str(cases), "1", str(size))
    assert f"{kernel}: {cases} cases" in said


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_offsets_pass_4_gib(runner, target):
    assert "far: largest error" in run(runner, target, "far")
