"""Says what this machine can run, and why not more: ``... doctor``."""

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

import jax_hipkittens as hk
from jax_hipkittens import _ffi, _targets

# Every instruction set that the host's kernels are written for, best first.
HOST_ISAS = {
    "avx512_bf16": "x86-64 with AVX-512 and its bf16 dot products",
    "avx512": "x86-64 with AVX-512 (F, BW, DQ, VL)",
    "avx2": "x86-64 with AVX2, FMA and F16C",
    "neon": "AArch64",
    "plain": "any CPU",
}
_ISA_VARIABLE = "JAX_HIPKITTENS_HOST_ISA"
_FAMILIES = ("attention", "gemm", "norm", "rotary")


def threads() -> int:
    """How many threads XLA's pool has: one per CPU that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """What the CPU calls itself."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def report() -> str:
    """The whole text."""
    sections = {
        "jax_hipkittens": _versions(),
        "Machine": _machine(),
        "Targets": _chips(),
        "Check": _check(),
    }
    lines = []
    for title, section in sections.items():
        lines += [title, *(f"  {line}" for line in section)]
    return "\n".join(lines)


def _status() -> _ffi.Status:
    """That of the kernels; a variable with a wrong value is a problem as any other."""
    try:
        return _ffi.status()
    except ValueError as error:
        return _ffi.Status(None, str(error))


def _versions() -> Iterator[str]:
    yield f"version {hk.__version__}, Python {platform.python_version()}"
    yield ", ".join(
        f"{name} {_version(name)}" for name in ("jax", "jaxlib", "flax", "numpy")
    )
    status = _status()
    built, runtime = map(_dotted, (status.handler_version, status.runtime_version))
    yield f"XLA FFI: kernels built for {built}, this jaxlib has {runtime}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _dotted(version: tuple[int, int] | None) -> str:
    return "unknown" if version is None else f"{version[0]}.{version[1]}"


def _machine() -> Iterator[str]:
    yield f"{cpu_name()}, {platform.machine()}, {threads()} threads"
    yield f"JAX's default backend: {jax.default_backend()}, {jax.device_count()} device"


def _chips() -> Iterator[str]:
    status = _status()
    if status.extension is None:
        yield f"host: no; {status.problem}"
    else:
        yield from _host(status.extension)
        yield from _gpus(status.extension)


def _host(extension: object) -> Iterator[str]:
    here = extension.host_isas()  # type: ignore[attr-defined]
    try:
        used = extension.host_isa()  # type: ignore[attr-defined]
    except ValueError as error:
        yield f"host: no; {error}"
    else:
        chosen = f"set by {_ISA_VARIABLE}" if os.environ.get(_ISA_VARIABLE) else "best"
        yield f"host: yes, with {used} ({chosen})"
    for name, needs in HOST_ISAS.items():
        verdict = "yes" if name in here else f"no; needs {needs}"
        yield f"  {name}: {verdict}"


def _gpus(extension: Any) -> Iterator[str]:
    """What there are kernels for, and what stands in the way of running them."""
    for chip in _targets.GPUS:
        built = [name for name in _FAMILIES if chip in extension.architectures(name)]
        have = f"kernels of {', '.join(built)}" if built else "no kernels in this build"
        yield f"{chip}: {have}"
    yield f"  on a GPU: {extension.hip_problem() or 'the HIP library is here'}"
    simulator = Path(extension.package_folder(), "libhk_hipsim.so")
    if not simulator.exists():
        yield f"  simulated: no; this build lacks {simulator.name}"
        return
    chosen = os.environ.get(_targets.VARIABLE)
    state = f"by {_targets.VARIABLE}={chosen}" if chosen else f"set {_targets.VARIABLE}"
    yield f"  simulated: {state}"


def _check() -> Iterator[str]:
    """Runs one small op on HK and on XLA: a product, which every chip has."""
    a = np.linspace(-3, 5, 64, dtype=np.float32).reshape(2, 32)
    b = np.linspace(-1, 1, 96, dtype=np.float32).reshape(32, 3)
    expected = np.asarray(hk.matmul(a, b, implementation="xla"))
    try:
        actual = np.asarray(hk.matmul(a, b, implementation="hk"))
    except NotImplementedError as error:
        yield f"ops run on XLA alone: {error}"
        return
    except (ValueError, jax.errors.JaxRuntimeError) as error:
        yield f"ops fail: {error}"
        return
    error_size = float(np.abs(actual - expected).max())
    # What two sums of the same terms in f32 may differ by, in different orders.
    terms = (np.abs(a) @ np.abs(b)).max()
    bound = 2 * a.shape[1] * np.finfo(np.float32).eps * terms
    verdict = "agrees with" if error_size <= bound else "DIFFERS from"
    yield f"matmul on HK {verdict} XLA (largest difference {error_size:.1e})"
