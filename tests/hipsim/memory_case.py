"""Runs one memory instruction on 64 lanes with chosen registers and memory.

The kernel loads each lane's registers from a record of 16 dwords, runs a listing, and
stores the result registers v16 to v19. LDS is filled before and read after.
"""

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tests.hipsim import device
from tests.hipsim.assemble import Kernel, assemble

LANES = 64
LDS_BYTES = 4096
FILL = 0x5EED5EED  # what v16 to v19 hold before the listing

_PROLOGUE = """
  v_lshlrev_b32 v1, 6, v0
  v_mov_b32 v0, v1
  s_load_dwordx8 s[4:11], s[0:1], 0
  s_waitcnt lgkmcnt(0)
  global_load_dwordx4 v[4:7], v0, s[4:5]
  global_load_dwordx4 v[8:11], v0, s[4:5] offset:16
  global_load_dwordx4 v[12:15], v0, s[4:5] offset:32
  v_mov_b32 v16, {fill}
  v_mov_b32 v17, {fill}
  v_mov_b32 v18, {fill}
  v_mov_b32 v19, {fill}
"""
_FILL_LDS = (
    "".join(
        f"""
  global_load_dwordx4 v[{20 + 4 * i}:{23 + 4 * i}], v0, s[10:11] offset:{16 * i}"""
        for i in range(4)
    )
    + """
  s_waitcnt vmcnt(0)"""
    + "".join(
        f"""
  ds_write_b128 v0, v[{20 + 4 * i}:{23 + 4 * i}] offset:{16 * i}"""
        for i in range(4)
    )
)
_EPILOGUE = """
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_mov_b64 exec, -1
  global_store_dwordx4 v0, v[16:19], s[6:7]
"""
_READ_LDS = (
    "".join(
        f"""
  ds_read_b128 v[{20 + 4 * i}:{23 + 4 * i}], v0 offset:{16 * i}"""
        for i in range(4)
    )
    + """
  s_waitcnt lgkmcnt(0)"""
    + "".join(
        f"""
  global_store_dwordx4 v0, v[{20 + 4 * i}:{23 + 4 * i}], s[10:11] offset:{16 * i}"""
        for i in range(4)
    )
)


@dataclass
class Result:
    """What the lanes' registers v16 to v19, the buffer and the LDS hold at the end."""

    registers: np.ndarray
    memory: np.ndarray
    lds: np.ndarray


@dataclass(frozen=True)
class Case:
    """What a kernel is made from."""

    listing: str
    lds: bool = False
    target: str = "gfx950"
    scratch: int = 0

    def kernel(self, name: str) -> Kernel:
        """Returns the kernel around the listing."""
        body = _PROLOGUE.format(fill=FILL) + (_FILL_LDS if self.lds else "")
        body += "\n  s_waitcnt vmcnt(0) lgkmcnt(0)\n" + self.listing + _EPILOGUE
        body += (_READ_LDS if self.lds else "") + "\n  s_endpgm\n"
        return Kernel(
            body,
            name=name,
            arguments=(8, 8, 8, 8),
            lds=LDS_BYTES if self.lds else 0,
            scratch=self.scratch,
        )


_together: dict[Case, list[Case]] = {}
_functions: dict[Case, ctypes.c_void_p] = {}


def together(listings: Iterable[str], **more) -> None:
    """Has listings assembled in one go, when the first of them is run."""
    cases = [Case(listing, **more) for listing in dict.fromkeys(listings)]
    _together.update({case: cases for case in cases})


def _function(case: Case) -> ctypes.c_void_p:
    if case not in _functions:
        cases = _together.get(case, [case])
        kernels = [each.kernel(f"kernel_{i}") for i, each in enumerate(cases)]
        module = device.Module(assemble(kernels, case.target))
        for i, each in enumerate(cases):
            _functions[each] = module.function(f"kernel_{i}")
    return _functions[case]


def run(
    listing: str,
    registers: np.ndarray | None = None,
    memory: np.ndarray | None = None,
    lds: np.ndarray | None = None,
    target: str = "gfx950",
    scratch: int = 0,
    addresses=None,
) -> Result:
    """Runs a listing.

    ``registers`` holds what v4 to v15 of each lane start with. s[8:9] is the address of
    ``memory`` (bytes). ``addresses``, called with it, may change the registers.
    """
    records = np.zeros((LANES, 16), np.uint32)
    if registers is not None:
        records[:, : registers.shape[1]] = registers
    memory = np.zeros(64, np.uint8) if memory is None else memory
    with device.options(arch=target):
        buffer = device.Array.of(memory)
        if addresses is not None:
            addresses(records, buffer.address)
        inputs = device.Array.of(records)
        outputs = device.Array((LANES, 16), np.uint32, fill=0)
        image = np.zeros(LDS_BYTES, np.uint8) if lds is None else lds
        lds_array = device.Array.of(image)
        function = _function(Case(listing, lds is not None, target, scratch))
        device.launch(function, [inputs, outputs, buffer, lds_array])
        return Result(outputs.get()[:, :4], buffer.get(), lds_array.get())
