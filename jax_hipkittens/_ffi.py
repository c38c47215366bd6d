"""The bridge to the extension module: the only module that touches ``jax.ffi``.

The extension is loaded and its handlers are registered at the first use, not at
import. A handler built on newer FFI headers than the running jaxlib's would stop
JAX's whole CPU backend, so the two API versions are compared before anything is
registered; if they do not fit, :func:`require` says so and nothing is registered.
"""

import importlib
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

from jax_hipkittens import _targets

_EXTENSION = "jax_hipkittens._hk"
_PREFIX = "jax_hipkittens_"
_VERSION_HEADER = Path("xla", "ffi", "api", "c_api.h")

_INT64 = range(-(2**63), 2**63)


class Status(NamedTuple):
    """Whether HK kernels can be called, and if not, why.

    Exactly one of ``extension`` and ``problem`` is set. ``handler_version`` and
    ``runtime_version`` are the (major, minor) FFI versions of the extension's headers
    and of the running jaxlib, where they could be read.
    """

    extension: ModuleType | None
    problem: str | None
    handler_version: tuple[int, int] | None = None
    runtime_version: tuple[int, int] | None = None


_lock = threading.Lock()
_status: Status | None = None


def status() -> Status:
    """Loads and registers the extension once, and says how that went."""
    global _status
    with _lock:
        if _status is None:
            _status = _load()
        return _status


def require() -> ModuleType:
    """The extension module, its handlers registered.

    Raises:
      NotImplementedError: HK kernels cannot be called in this process; says why.
      ValueError: ``JAX_HIPKITTENS_HOST_ISA`` names no instruction set of this CPU, or
        ``JAX_HIPKITTENS_SIMULATE`` no chip.
    """
    found = status()
    if found.extension is None:
        raise NotImplementedError(found.problem)
    found.extension.host_isa()
    _targets.current()
    return found.extension


def require_family(family: str) -> _targets.Target:
    """The chip that kernels of ``family`` would run on here.

    Raises:
      NotImplementedError: there are none for it; or as :func:`require`.
      ValueError: as :func:`require`.
    """
    extension = require()
    target = _targets.current()
    _targets.require(family, extension.architectures(family), target)
    return target


def result(like: jax.Array, shape: Sequence[int], dtype: Any) -> Any:
    """Declares a result of :func:`call`, typed after the operand ``like``.

    What ``like`` carries besides shape and dtype (the mesh axes over which it varies
    inside ``shard_map``) carries over to the result.
    """
    return jax.typeof(like).update(
        shape=tuple(shape), dtype=np.dtype(dtype), weak_type=False
    )


def full_name(target: str) -> str:
    """The name by which XLA knows the handler ``target``."""
    return _PREFIX + target


def call(
    target: str,
    results: Sequence[Any],
    *operands: jax.Array,
    **attributes: bool | int | float,
) -> tuple[jax.Array, ...]:
    """Calls the FFI target ``jax_hipkittens_<target>``.

    Args:
      target: name of the handler without its prefix.
      results: one :func:`result` each.
      operands: arrays, row-major.
      attributes: static numbers. bool and int are passed as 64-bit integers and
        float as 32-bit, whatever Python or numpy type they have.

    Returns:
      One array for each of ``results``.
    """
    require()
    function = jax.ffi.ffi_call(full_name(target), tuple(results))
    return tuple(function(*operands, **_normalised(attributes)))


def _normalised(attributes: dict[str, Any]) -> dict[str, Any]:
    """Gives each attribute its one C type.

    JAX caches compiled calls by Python equality of the attributes, where 1 == 1.0 ==
    True: a value that reached two calls in different types would be decoded in the
    first one's type by both.
    """
    return {name: _attribute(name, value) for name, value in attributes.items()}


def _attribute(name: str, value: Any) -> np.int64 | np.float32:
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        if int(value) not in _INT64:
            raise ValueError(f"attribute {name}={value} does not fit in 64 bits")
        return np.int64(value)
    if isinstance(value, (float, np.floating)):
        # -0.0 and 0.0 are equal, so they would share one cache entry as well.
        return np.float32(value) + np.float32(0.0)
    raise TypeError(f"attribute {name} must be a number, not {type(value).__name__}")


def _load() -> Status:
    try:
        extension = importlib.import_module(_EXTENSION)
    except ImportError as error:
        return Status(
            None,
            f"the extension module {_EXTENSION} cannot be loaded ({error}); where a "
            "source checkout in the current folder hides the installed package, start "
            "Python in another folder",
            None,
            _runtime_version(),
        )
    built = tuple(extension.ffi_api_version())
    runtime = _runtime_version()
    problem = _version_problem(built, runtime)
    if problem is not None:
        return Status(None, problem, built, runtime)
    for name, handler in _cpu_handlers(extension).items():
        jax.ffi.register_ffi_target(name, handler, platform="cpu")
    for name, handler in extension.hip_handlers().items():
        jax.ffi.register_ffi_target(name, handler, platform="ROCM")
    return Status(extension, None, built, runtime)


def _cpu_handlers(extension: ModuleType) -> dict[str, Any]:
    """The host's, or those of a simulated chip in their places where it has kernels."""
    handlers = dict(extension.handlers())
    chip = _targets.simulated()
    if chip is not None:
        handlers |= extension.simulated_handlers(chip)
    return handlers


def _version_problem(
    built: tuple[int, int], runtime: tuple[int, int] | None
) -> str | None:
    """Why a handler of version ``built`` must not be registered, or None."""
    if runtime is None:
        return (
            "the XLA FFI version of this jaxlib cannot be read from "
            f"{Path(jax.ffi.include_dir(), _VERSION_HEADER)}, so HK kernels are not "
            "registered"
        )
    if built[0] == runtime[0] and built[1] <= runtime[1]:
        return None
    return (
        f"HK kernels were built for XLA FFI {built[0]}.{built[1]}, and this jaxlib has "
        f"XLA FFI {runtime[0]}.{runtime[1]}, so they are not registered; install a "
        "jaxlib at least as new as the one they were built with, or rebuild them"
    )


def _runtime_version() -> tuple[int, int] | None:
    """The FFI version of the running jaxlib, from the macros in its header."""
    try:
        text = Path(jax.ffi.include_dir(), _VERSION_HEADER).read_text("utf-8")
    except OSError:
        return None
    numbers = [
        re.search(rf"^#define XLA_FFI_API_{part} (\d+)", text, re.MULTILINE)
        for part in ("MAJOR", "MINOR")
    ]
    if numbers[0] is None or numbers[1] is None:
        return None
    return int(numbers[0][1]), int(numbers[1][1])
