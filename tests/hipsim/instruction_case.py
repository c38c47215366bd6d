"""Runs instructions on registers that hold chosen values.

Each instruction under test is a kernel of its own; all kernels of a chip lie in one
code object, so that the assembler runs once. Lane n of the launch starts with its
record of eight dwords in v[4:5], v[6:7], v[8:9] (three sources of up to 64 bits) and
v[10:11] (the old destination); a scalar instruction finds its wave's first record in
s[8:15].
"""

import functools
from dataclasses import dataclass

import numpy as np

from tests.hipsim import device
from tests.hipsim.assemble import Kernel, assemble

LANES = 64
WAVES = 12
MASK = 0x0F3C_5A96_FFFF_0001_8000 & 0xFFFF_FFFF_FFFF_FFFF

_PROLOGUE = """
  s_load_dwordx4 s[4:7], s[0:1], 0
  v_lshl_add_u32 v1, s2, 6, v0
  v_lshlrev_b32 v2, 5, v1
  s_lshl_b32 s3, s2, 11
  s_waitcnt lgkmcnt(0)
  s_add_u32 s16, s4, s3
  s_addc_u32 s17, s5, 0
  s_load_dwordx8 s[8:15], s[16:17], 0
  global_load_dwordx4 v[4:7], v2, s[4:5]
  global_load_dwordx4 v[8:11], v2, s[4:5] offset:16
  s_mov_b64 vcc, {mask:#x}
  s_mov_b64 s[28:29], {mask:#x}
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_mov_b64 s[24:25], s[14:15]
  s_mov_b64 s[26:27], exec
  s_cmp_lg_u32 s8, s8
"""
_EPILOGUE = """
  s_cselect_b32 s3, 1, 0
  s_mov_b64 s[20:21], exec
  s_mov_b64 exec, -1
  s_nop 7
  s_nop 7
  v_mov_b32 v12, s24
  v_mov_b32 v13, s25
  v_mov_b32 v14, vcc_lo
  v_mov_b32 v15, vcc_hi
  v_mov_b32 v16, s20
  v_mov_b32 v17, s21
  v_mov_b32 v18, s3
  v_mov_b32 v19, 0
  v_lshlrev_b32 v2, 6, v1
  global_store_dwordx4 v2, v[8:11], s[6:7]
  global_store_dwordx4 v2, v[12:15], s[6:7] offset:16
  global_store_dwordx4 v2, v[16:19], s[6:7] offset:32
  global_store_dwordx2 v2, v[4:5], s[6:7] offset:48
  s_endpgm
"""


@dataclass
class Registers:
    """Per lane v[10:11] and v[4:5]; per wave s[24:25], VCC, EXEC and SCC."""

    vector: np.ndarray
    source: np.ndarray
    scalar: np.ndarray
    vcc: np.ndarray
    exec: np.ndarray
    scc: np.ndarray


def pair(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Returns 64-bit numbers of their halves."""
    return low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)


def immediate(value: int, register: str) -> str:
    """Moves a 64-bit constant to an SGPR pair."""
    low, high = value & 0xFFFFFFFF, value >> 32
    names = {"vcc": ("vcc_lo", "vcc_hi"), "exec": ("exec_lo", "exec_hi")}
    first, second = names.get(register) or (
        f"s{register.strip('s[]').split(':')[0]}",
        f"s{register.strip('s[]').split(':')[1]}",
    )
    return f"  s_mov_b32 {first}, {low:#x}\n  s_mov_b32 {second}, {high:#x}\n"


class Listings:
    """Kernels of a chip, by listing."""

    def __init__(self, target: str):
        self.target = target
        self.numbers: dict[tuple[str, int], int] = {}
        self.module: device.Module | None = None

    def add(self, listing: str, mode: int = 0) -> None:
        """Adds a listing; bit 0 of ``mode``: denormals are flushed."""
        self.numbers.setdefault((listing, mode), len(self.numbers))

    def kernels(self) -> list[Kernel]:
        """Returns a kernel for each listing."""
        prologue = _PROLOGUE.replace(
            "  s_mov_b64 vcc, {mask:#x}\n", immediate(MASK, "vcc")
        ).replace("  s_mov_b64 s[28:29], {mask:#x}\n", immediate(MASK, "s[28:29]"))
        kernels = []
        for (listing, mode), number in self.numbers.items():
            kept = 0 if mode & 1 else 3
            denormals = (
                ("float_denorm_mode_32", kept),
                ("float_denorm_mode_16_64", kept),
            )
            kernels.append(
                Kernel(
                    f"{prologue}  s_nop 7\n  {listing}\n{_EPILOGUE}",
                    name=f"k{number}",
                    arguments=(8, 8),
                    vgprs=64,
                    agprs=16,
                    descriptor=denormals,
                )
            )
        return kernels

    def assemble(self) -> None:
        """Builds the code object."""
        with device.options(arch=self.target):
            self.module = device.Module(assemble(self.kernels(), self.target))

    @functools.cached_property
    def buffers(self) -> tuple[device.Array, device.Array]:
        """The arrays of every launch."""
        return (
            device.Array((WAVES * LANES, 8), np.uint32),
            device.Array((WAVES * LANES, 16), np.uint32, fill=0),
        )

    def run(self, listing: str, records: np.ndarray, mode: int = 0) -> Registers:
        """Runs a listing that was added, with 8 dwords of registers per lane."""
        assert self.module is not None
        sources, results = self.buffers
        with device.options(arch=self.target, checks="none"):
            sources.set(records)
            number = self.numbers[listing, mode]
            function = self.module.function(f"k{number}")
            device.launch(function, [sources, results], grid=WAVES)
            out = results.get()
        first = out[::LANES]
        return Registers(
            vector=out[:, 2:4],
            source=out[:, 12:14],
            scalar=pair(first[:, 4], first[:, 5]),
            vcc=pair(first[:, 6], first[:, 7]),
            exec=pair(first[:, 8], first[:, 9]),
            scc=first[:, 10],
        )


# ---- Values

_F32 = [0, 1 << 31, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000]
_F32 += [0x7F800001, 0xFFC12345, 1, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF]
_F32 += [0x3F000000, 0x40200000, 0xC0600000, 0x4F000000, 0xCF000000, 0x4F800000]
_F32 += [0x42FF0000, 0x3EFFFFFF, 0x4B000001]
_F16 = [0, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0x7C01, 1, 0x8001, 0x3FF]
_F16 += [0x400, 0x7BFF, 0x3800, 0x4100, 0xC300, 0x6400]
_I32 = [0, 1, 2, 0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 31, 32, 63, 0xFFFF, 0x8000, 255]
_F64 = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.3e-308]
_F64 += [1.7e308, 0.5, 2.5, -3.5, 2147483648.0, -2147483649.0, 4294967295.0, 1e-40]
_I64 = [0, 1, 2**64 - 1, 2**63, 2**63 - 1, 2**32, 2**32 - 1, 63, 64]


def _mix(rng, count, special, near, random):
    choice = rng.integers(0, 10, count)
    values = np.where(choice < 4, rng.choice(special, count), near)
    return np.where(choice == 9, random, values)


def draw(rng: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Bits of special and of random values of a type, as (count, 2) dwords."""
    random = rng.integers(0, 2**32, (count, 2), np.uint32)
    out = random.copy()
    if kind == "f":
        near = rng.normal(0, 8, count).astype(np.float32).view(np.uint32)
        out[:, 0] = _mix(rng, count, np.array(_F32, np.uint32), near, random[:, 0])
    elif kind in "hpsytqz":
        halves = []
        for half in range(2):
            near = rng.normal(0, 8, count).astype(np.float16).view(np.uint16)
            if kind in "yz":
                bits = rng.normal(0, 8, count).astype(np.float32).view(np.uint32)
                near = (bits >> 16).astype(np.uint16)
            special = [x >> 16 for x in _F32] if kind in "yz" else _F16
            noise = random[:, half].astype(np.uint16)
            halves.append(_mix(rng, count, np.array(special, np.uint16), near, noise))
        out[:, 0] = halves[0].astype(np.uint32) | halves[1].astype(np.uint32) << 16
    elif kind == "d":
        special = np.array(_F64).view(np.uint64)
        near = rng.normal(0, 8, count).view(np.uint64)
        noise = rng.integers(0, 2**64, count, np.uint64)
        out = _mix(rng, count, special, near, noise).view(np.uint32).reshape(count, 2)
    elif kind in "lj":
        noise = rng.integers(0, 2**64, count, np.uint64)
        near = rng.integers(0, 2**20, count, np.uint64)
        bits = _mix(rng, count, np.array(_I64, np.uint64), near, noise)
        out = bits.view(np.uint32).reshape(count, 2)
    elif kind == "g":
        for half in range(2):
            out[:, half] = draw(rng, "f", count)[:, 0]
    elif kind in "iu":
        near = rng.integers(0, 256, count, np.uint32)
        special = np.array(_I32, np.uint32)
        out[:, 0] = _mix(rng, count, special, near, random[:, 0])
    return np.ascontiguousarray(out)


_TYPES = {
    "f": np.float32,
    "h": np.float16,
    "d": np.float64,
    "i": np.int32,
    "u": np.uint32,
    "s": np.int16,
    "t": np.uint16,
    "l": np.uint64,
    "j": np.int64,
}


def typed(bits: np.ndarray, kind: str) -> np.ndarray:
    """Views (count, 2) dwords as values; two-element types as (count, 2)."""
    bits = np.ascontiguousarray(bits)
    if kind in "dlj":
        return bits.view(_TYPES[kind])[:, 0]
    if kind in "yz":
        words = bits.view(np.uint16)[:, :2].astype(np.uint32) << 16
        values = words.view(np.float32)
        return values[:, 0] if kind == "y" else values
    if kind == "p":
        return bits.view(np.float16)[:, :2]
    if kind == "q":
        return bits.view(np.uint16)[:, :2]
    if kind == "g":
        return bits.view(np.float32)
    return bits.view(_TYPES[kind])[:, 0]


def same(got: np.ndarray, want: np.ndarray, ulps: int = 0) -> np.ndarray:
    """Equal bits, or both NaN, or floats at most ``ulps`` apart."""
    want = want.astype(got.dtype)
    if got.dtype.kind != "f":
        return got == want
    integer = {2: np.int16, 4: np.int32, 8: np.int64}[got.dtype.itemsize]
    a, b = got.view(integer), want.view(integer)
    top = np.maximum(a, b) - np.minimum(a, b)
    near = ((a < 0) == (b < 0)) & (top >= 0) & (top <= ulps)
    return near | (np.isnan(got) & np.isnan(want))
