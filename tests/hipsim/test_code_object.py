"""Loading code objects: damaged files are refused, and never crash the process."""

import ctypes

import numpy as np
import pytest

from tests.hipsim.assemble import Kernel, assemble
from tests.hipsim.device import Array, HipError, Module, launch, library, options

LISTING = """
  s_load_dwordx2 s[4:5], s[0:1], 0
  s_waitcnt lgkmcnt(0)
  s_endpgm
"""
TABLE = """
  .section .data.rel.ro,"aw",@progbits
  .globl pointers
  .p2align 3
  .type pointers,@object
  pointers:
  .quad pointers
  .quad kernel
  .size pointers, 16
"""


def image() -> bytes:
    return assemble(Kernel(LISTING, lds=64), extra=TABLE)


def load_file(path, content: bytes) -> int:
    path.write_bytes(content)
    handle = ctypes.c_void_p()
    code = library().hipModuleLoad(ctypes.byref(handle), str(path).encode())
    if code == 0:
        function = ctypes.c_void_p()
        found = library().hipModuleGetFunction(
            ctypes.byref(function), handle, b"kernel"
        )
        assert found in (0, 500)
        library().hipModuleUnload(handle)
    return code


def test_truncated_files(tmp_path):
    whole = image()
    path = tmp_path / "kernel.co"
    assert load_file(path, whole) == 0
    with options():
        for size in [*range(0, 256), *range(256, len(whole), 37), len(whole) - 1]:
            assert load_file(path, whole[:size]) == 200, size


def test_flipped_bytes(tmp_path):
    """Whatever a byte is changed to, the file loads or is refused with a sentence."""
    whole = image()
    path = tmp_path / "kernel.co"
    rng = np.random.default_rng(0)
    codes = set()
    with options():
        for _ in range(1000):
            damaged = bytearray(whole)
            for at in rng.integers(0, len(whole), rng.integers(1, 4)):
                damaged[at] = rng.integers(0, 256)
            codes.add(load_file(path, bytes(damaged)))
    assert codes <= {0, 200, 209}
    assert {0, 200} <= codes


def test_files_that_are_none(tmp_path):
    path = tmp_path / "kernel.co"
    handle = ctypes.c_void_p()
    missing = str(tmp_path / "missing").encode()
    assert library().hipModuleLoad(ctypes.byref(handle), missing) == 301
    with options():
        assert load_file(path, b"") == 200
        assert load_file(path, b"not a code object" * 10) == 200
        with pytest.raises(HipError, match="neither an ELF file nor") as error:
            Module(b"not a code object" * 10)
    assert error.value.code == 200


def test_another_chips_code():
    with options(), pytest.raises(HipError, match="for gfx942, the device is gfx950"):
        Module(assemble(Kernel(LISTING), "gfx942"))
    with options(arch="gfx942"):
        Module(assemble(Kernel(LISTING), "gfx942"))
        with pytest.raises(HipError) as error:
            Module(image())
        assert error.value.code == 209


def test_relocated_pointers():
    module = Module(image())
    pointer, size = ctypes.c_void_p(), ctypes.c_size_t()
    library().hipModuleGetGlobal(
        ctypes.byref(pointer), ctypes.byref(size), module.handle, b"pointers"
    )
    assert size.value == 16
    values = (ctypes.c_uint64 * 2).from_address(pointer.value or 0)
    assert values[0] == pointer.value
    assert values[1] != 0 and values[1] % 256 == 0


def bundle(entries: list[tuple[str, bytes]]) -> bytes:
    header = b"__CLANG_OFFLOAD_BUNDLE__" + len(entries).to_bytes(8, "little")
    size = len(header) + sum(24 + len(name) for name, _ in entries)
    body = b""
    for name, content in entries:
        fields = (size + len(body), len(content), len(name))
        header += b"".join(n.to_bytes(8, "little") for n in fields) + name.encode()
        body += content
    return header + body


def test_offload_bundles():
    triple = "hipv4-amdgcn-amd-amdhsa--"
    both = bundle(
        [
            ("host-x86_64-unknown-linux--", b""),
            (triple + "gfx942:sramecc+", assemble(Kernel(LISTING), "gfx942")),
            (triple + "gfx950", image()),
        ]
    )
    for arch in ("gfx942", "gfx950"):
        with options(arch=arch):
            launch(Module(both).function(), [Array(1, np.uint32)])
    with options(), pytest.raises(HipError, match="no entry for gfx950") as error:
        Module(bundle([(triple + "gfx90a", image())]))
    assert error.value.code == 209
    with options(), pytest.raises(HipError) as error:
        Module(bundle([(triple + "gfx950", image()[:700])]))
    assert error.value.code == 200
