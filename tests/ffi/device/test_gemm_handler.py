"""The handler for AMD GPUs, called as XLA does, with the simulated device as HIP."""

import os
import shutil
import subprocess
from pathlib import Path

import jax
import pytest

from jax_hipkittens.bench import static

ROOT = Path(__file__).parents[3]
SOURCES = ("gemm", "call", "gpu_call", "runtime/device", "runtime/driver")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """gemm_handler, beside the package's code objects."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler to build the test with")
    folder = tmp_path_factory.mktemp("handler")
    (folder / "device").symlink_to(static.device_folder())
    sources = [ROOT / "tests/ffi/device/gemm_handler.cc"]
    sources += [ROOT / f"ffi/{name}.cc" for name in SOURCES]
    command = [compiler, "-std=c++20", "-O1", "-Wno-psabi", f"-I{ROOT / 'include'}"]
    command += [f"-I{ROOT}", "-isystem", jax.ffi.include_dir(), *map(str, sources)]
    command += ["-o", str(folder / "gemm_handler"), "-pthread", "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder / "gemm_handler"


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_the_handler_as_xla_calls_it(program, chip):
    library = static.device_folder().parent / "libhk_hipsim.so"
    environment = {"JAX_HIPKITTENS_HIP_LIBRARY": str(library), "HIPSIM_ARCH": chip}
    ran = subprocess.run(
        [program], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "0 failed checks" in ran.stdout
