"""The simulated device's library through ctypes, for its own tests.

The library is that of the installed package; the environment variable
HIPSIM_LIBRARY names another one.
"""

import contextlib
import ctypes
import functools
import importlib.util
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

SUCCESS, INVALID_VALUE, ILLEGAL_ADDRESS, TIME_OUT, LAUNCH_FAILURE = 0, 1, 700, 702, 719
HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3


def library_path() -> Path:
    """Returns where the library lies."""
    if os.environ.get("HIPSIM_LIBRARY"):
        return Path(os.environ["HIPSIM_LIBRARY"])
    spec = importlib.util.find_spec("jax_hipkittens")
    assert spec is not None and spec.submodule_search_locations
    for folder in spec.submodule_search_locations:
        path = Path(folder) / "libhk_hipsim.so"
        if path.exists():
            return path
    raise FileNotFoundError("libhk_hipsim.so is not in the package: install it first.")


@functools.cache
def library() -> ctypes.CDLL:
    """Loads the library and declares what returns no error code."""
    lib = ctypes.CDLL(str(library_path()))
    for name in [
        "hipGetErrorName",
        "hipGetErrorString",
        "hipsim_last_report",
        "hipsim_last_check",
        "hipsim_statistics",
        "hipsim_removable_instructions",
    ]:
        getattr(lib, name).restype = ctypes.c_char_p
    return lib


class HipError(RuntimeError):
    """A HIP call that failed: its name, its code and, of a launch, the report."""

    def __init__(self, call: str, code: int):
        self.code = code
        self.check = library().hipsim_last_check().decode()
        self.report = library().hipsim_last_report().decode()
        super().__init__(f"{call}: {library().hipGetErrorName(code)!r}: {self.report}")


def call(name: str, *arguments) -> None:
    """Calls an entry point; raises HipError unless it succeeds."""
    code = getattr(library(), name)(*arguments)
    if code != SUCCESS:
        raise HipError(name, code)


def set_option(name: str, value: object) -> None:
    """Sets a control of hipsim.h."""
    assert library().hipsim_set_option(name.encode(), str(value).encode()) == 0, (
        name,
        value,
    )


DEFAULTS = {
    "arch": "gfx950",
    "devices": 1,
    "seed": 0,
    "quantum": 64,
    "threads": 0,
    "limit": 20_000_000,
    "checks": "all",
    "buffers": "arguments",
    "alignment": "natural",
    "skip": "none",
    "report": "quiet",
}


@contextlib.contextmanager
def options(**values: object) -> Iterator[None]:
    """Sets controls for a while."""
    set_option("report", "quiet")
    for name, value in values.items():
        set_option(name, value)
    try:
        yield
    finally:
        for name in values:
            set_option(name, DEFAULTS[name])


class Array:
    """Device memory with a numpy array's shape and type."""

    def __init__(self, shape: int | Sequence[int], dtype, fill: object = None):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.bytes = int(np.prod(shape)) * self.dtype.itemsize
        pointer = ctypes.c_void_p()
        call("hipMalloc", ctypes.byref(pointer), ctypes.c_size_t(self.bytes))
        self.address = pointer.value or 0
        if fill is not None:
            self.set(np.full(shape, fill, self.dtype))

    @classmethod
    def of(cls, values) -> "Array":
        """Returns device memory that holds the values."""
        values = np.ascontiguousarray(values)
        array = cls(values.shape, values.dtype)
        array.set(values)
        return array

    def set(self, values: np.ndarray) -> None:
        """Copies the values to the device."""
        values = np.ascontiguousarray(values, self.dtype)
        call(
            "hipMemcpy",
            ctypes.c_void_p(self.address),
            ctypes.c_void_p(values.ctypes.data),
            ctypes.c_size_t(values.nbytes),
            HOST_TO_DEVICE,
        )

    def get(self) -> np.ndarray:
        """Copies the values to the host."""
        values = np.empty(self.shape, self.dtype)
        call(
            "hipMemcpy",
            ctypes.c_void_p(values.ctypes.data),
            ctypes.c_void_p(self.address),
            ctypes.c_size_t(values.nbytes),
            DEVICE_TO_HOST,
        )
        return values

    def free(self) -> None:
        """Frees the memory."""
        if self.address:
            call("hipFree", ctypes.c_void_p(self.address))
            self.address = 0

    def __del__(self) -> None:
        try:
            self.free()
        except Exception:  # At the interpreter's end, the module's names are gone.
            pass


class Module:
    """A loaded code object."""

    def __init__(self, image: bytes):
        self.handle = ctypes.c_void_p()
        call("hipModuleLoadData", ctypes.byref(self.handle), image)

    def function(self, name: str = "kernel") -> ctypes.c_void_p:
        """Returns a kernel's handle."""
        function = ctypes.c_void_p()
        call("hipModuleGetFunction", ctypes.byref(function), self.handle, name.encode())
        return function

    def unload(self) -> None:
        """Unloads the code object."""
        call("hipModuleUnload", self.handle)


def triple(size: int | Sequence[int]) -> list[ctypes.c_uint]:
    """Returns three sizes, 1 where none is given."""
    sizes = [size] if isinstance(size, int) else list(size)
    return [ctypes.c_uint(n) for n in [*sizes, 1, 1, 1][:3]]


def launch(
    function: ctypes.c_void_p,
    arguments: Sequence[object],
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 64,
    lds: int = 0,
) -> None:
    """Launches with the pointers of hipModuleLaunchKernel's kernelParams.

    Arguments are arrays, or ctypes values, or numpy scalars.
    """
    values = [
        ctypes.c_uint64(argument.address)
        if isinstance(argument, Array)
        else np.atleast_1d(argument).ctypes
        if isinstance(argument, np.generic)
        else argument
        for argument in arguments
    ]
    pointers = [
        value.data if hasattr(value, "data") else ctypes.addressof(value)  # type: ignore
        for value in values
    ]
    params = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
    call(
        "hipModuleLaunchKernel",
        function,
        *triple(grid),
        *triple(block),
        ctypes.c_uint(lds),
        None,
        params,
        None,
    )


def statistics() -> dict:
    """Returns the last launch's statistics."""
    return json.loads(library().hipsim_statistics())
