"""Global, flat, scratch, buffer and scalar memory instructions against numpy."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from tests.hipsim.device import HipError
from tests.hipsim.memory_case import FILL, LANES, LDS_BYTES, run, together

SIZE = 8192
LOADS = {
    "load_ubyte": (1, np.uint8),
    "load_sbyte": (1, np.int8),
    "load_ushort": (2, np.uint16),
    "load_sshort": (2, np.int16),
    "load_dword": (4, None),
    "load_dwordx2": (8, None),
    "load_dwordx3": (12, None),
    "load_dwordx4": (16, None),
}
HALF_LOADS = {
    "load_ubyte_d16": (np.uint8, 0),
    "load_ubyte_d16_hi": (np.uint8, 16),
    "load_sbyte_d16": (np.int8, 0),
    "load_sbyte_d16_hi": (np.int8, 16),
    "load_short_d16": (np.uint16, 0),
    "load_short_d16_hi": (np.uint16, 16),
}
STORES = {
    "store_byte": (1, 0),
    "store_byte_d16_hi": (1, 2),
    "store_short": (2, 0),
    "store_short_d16_hi": (2, 2),
    "store_dword": (4, 0),
    "store_dwordx2": (8, 0),
    "store_dwordx3": (12, 0),
    "store_dwordx4": (16, 0),
}
EXEC = 0xF0F0_1234_5678_9ABC
MASK = (
    f"s_mov_b32 exec_lo, {EXEC & 0xFFFFFFFF:#x}\n s_mov_b32 exec_hi, {EXEC >> 32:#x}\n"
)
LIVE = np.array([(EXEC >> lane) & 1 for lane in range(LANES)], bool)
# A buffer descriptor of s[8:9] and SIZE bytes in s[12:15].
RAW = f"""
  s_mov_b32 s12, s8
  s_mov_b32 s13, s9
  s_mov_b32 s14, {SIZE}
  s_mov_b32 s15, 0x00027000
"""


def draw(seed: int):
    rng = np.random.default_rng(seed)
    memory = rng.integers(0, 256, SIZE, np.uint8)
    registers = rng.integers(0, 1 << 32, (LANES, 12), np.uint32)
    return rng, memory, registers


def offsets(rng, size: int) -> np.ndarray:
    """Byte offsets of 64 different elements, aligned to dwords or halves."""
    step = max(size, 4) if size >= 4 else size
    return (rng.permutation(SIZE // 2 // step)[:LANES] * step).astype(np.uint32)


def registers_of(dwords: int, first: int) -> str:
    return f"v{first}" if dwords == 1 else f"v[{first}:{first + dwords - 1}]"


def form(kind: str, name: str, data: str, offset: int) -> tuple[str, bool]:
    """An instruction's listing, and whether lanes hold 64-bit addresses."""
    store = "store" in name
    if kind == "global64":
        operands = f"v[4:5], {data}, off" if store else f"{data}, v[4:5], off"
        return f"global_{name} {operands} offset:{offset}", True
    if kind == "global":
        operands = f"v4, {data}, s[8:9]" if store else f"{data}, v4, s[8:9]"
        return f"global_{name} {operands} offset:{offset}", False
    if kind == "flat":
        operands = f"v[4:5], {data}" if store else f"{data}, v[4:5]"
        return f"flat_{name} {operands} offset:{offset}", True
    return f"{RAW} buffer_{name} {data}, v4, s[12:15], 0 offen offset:{offset}", False


def set_addresses(at: np.ndarray):
    def change(records, address):
        full = at.astype(np.uint64) + np.uint64(address)
        records[:, :2] = full.view(np.uint32).reshape(LANES, 2)

    return change


KINDS = ["global", "global64", "flat", "buffer"]


def run_at(listing, wide, at, registers, memory, **more):
    registers = registers.copy()
    registers[:, 0] = at
    change = set_addresses(at) if wide else None
    return run(listing, registers, memory, addresses=change, **more)


def load_case(kind, name, masked):
    size, _ = LOADS[name]
    listing, wide = form(kind, name, registers_of(max(1, size // 4), 16), 128)
    return (MASK if masked else "") + listing, wide


def store_case(kind, name, masked):
    size, _ = STORES[name]
    listing, wide = form(kind, name, registers_of(max(1, size // 4), 8), 64)
    return (MASK if masked else "") + listing, wide


together(load_case(*c)[0] for c in product(KINDS, LOADS, [False, True]))
together(store_case(*c)[0] for c in product(KINDS, STORES, [False, True]))
together(form(*c, "v16", 0)[0] for c in product(KINDS, HALF_LOADS))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", LOADS)
@pytest.mark.parametrize("masked", [False, True])
def test_loads(kind, name, masked):
    size, dtype = LOADS[name]
    rng, memory, registers = draw(1)
    at = offsets(rng, size)
    dwords = max(1, size // 4)
    listing, wide = load_case(kind, name, masked)
    got = run_at(listing, wide, at, registers, memory).registers
    for lane in range(LANES):
        raw = memory[at[lane] + 128 : at[lane] + 128 + size]
        want = np.full(4, FILL, np.uint32)
        if masked and not LIVE[lane]:
            pass
        elif dtype is not None:
            want[0] = np.uint32(int(raw.view(dtype)[0]) & 0xFFFFFFFF)
        else:
            want[:dwords] = raw.view(np.uint32)
        np.testing.assert_array_equal(got[lane], want)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HALF_LOADS)
def test_loads_of_halves(kind, name):
    dtype, shift = HALF_LOADS[name]
    rng, memory, registers = draw(2)
    at = offsets(rng, 2)
    listing, wide = form(kind, name, "v16", 0)
    got = run_at(listing, wide, at, registers, memory).registers[:, 0]
    size = np.dtype(dtype).itemsize
    for lane in range(LANES):
        value = int(memory[at[lane] : at[lane] + size].view(dtype)[0]) & 0xFFFF
        assert got[lane] == value << shift


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("masked", [False, True])
def test_stores(kind, name, masked):
    size, skip = STORES[name]
    rng, memory, registers = draw(3)
    at = offsets(rng, size)
    listing, wide = store_case(kind, name, masked)
    result = run_at(listing, wide, at, registers, memory)
    want = memory.copy()
    for lane in range(LANES):
        if masked and not LIVE[lane]:
            continue
        raw = registers[lane, 4:8].view(np.uint8)[skip : skip + size]
        want[at[lane] + 64 : at[lane] + 64 + size] = raw
    np.testing.assert_array_equal(result.memory, want)


@pytest.mark.parametrize("name", LOADS)
def test_scratch(name):
    size, dtype = LOADS[name]
    _, _, registers = draw(4)
    dwords = max(1, size // 4)
    store = name.replace("load_u", "store_").replace("load_s", "store_")
    store = store.replace("load", "store")
    registers[:, 0] = np.arange(LANES) % 8 * 16
    listing = f"""
      scratch_store_dwordx4 v4, v[8:11], off offset:16
      s_waitcnt vmcnt(0)
      s_movk_i32 s20, 0
      scratch_{store} off, {registers_of(dwords, 12)}, off offset:4
      s_waitcnt vmcnt(0)
      scratch_{name} {registers_of(dwords, 16)}, off, off offset:4
    """.replace("      s_movk_i32 s20, 0\n", "")
    got = run(listing, registers, scratch=256).registers
    for lane in range(LANES):
        raw = registers[lane, 8:12].view(np.uint8)[:size]
        if dtype is not None:
            assert got[lane, 0] == np.uint32(int(raw.view(dtype)[0]) & 0xFFFFFFFF)
        else:
            np.testing.assert_array_equal(got[lane, :dwords], raw.view(np.uint32))


def test_scratch_is_each_lanes_own_and_bounded():
    _, _, registers = draw(5)
    registers[:, 0] = np.arange(LANES) % 16 * 4
    listing = """
      s_mov_b32 s20, 64
      scratch_store_dword v4, v8, off offset:64
      s_waitcnt vmcnt(0)
      scratch_load_dword v16, v4, off offset:64
    """
    got = run(listing, registers, scratch=128).registers
    np.testing.assert_array_equal(got[:, 0], registers[:, 4])
    registers[9, 0] = 64
    with pytest.raises(HipError, match="lane 9.*scratch address 0x80.*128") as error:
        run(listing, registers, scratch=128)
    assert error.value.check == "bounds"


def test_flat_addresses_of_lds_and_scratch():
    _, memory, registers = draw(6)
    lds = np.random.default_rng(6).integers(0, 256, LDS_BYTES, np.uint8)

    def addresses(records, address):
        for lane in range(LANES):
            where = (1 << 48) + 4 * lane if lane % 2 else address + 8 * lane
            records[lane, :2] = where & 0xFFFFFFFF, where >> 32

    result = run(
        "flat_load_dword v16, v[4:5]",
        registers,
        memory,
        lds=lds,
        addresses=addresses,
    )
    want = np.where(
        np.arange(LANES) % 2 == 1,
        lds[: 4 * LANES].view(np.uint32),
        memory[: 8 * LANES].view(np.uint32)[::2],
    )
    np.testing.assert_array_equal(result.registers[:, 0], want)


def _inc(old, a):
    return 0 if old >= a else old + 1


def _dec(old, a):
    return a if old == 0 or old > a else old - 1


ATOMICS = {
    "swap": lambda old, a: a,
    "add": lambda old, a: old + a,
    "sub": lambda old, a: old - a,
    "smin": min,
    "umin": min,
    "smax": max,
    "umax": max,
    "and": lambda old, a: old & a,
    "or": lambda old, a: old | a,
    "xor": lambda old, a: old ^ a,
    "inc": _inc,
    "dec": _dec,
}


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def atomic_listing(kind, name, data, returns):
    if kind == "buffer":
        text = f"{RAW} buffer_atomic_{name} {data}, v4, s[12:15], 0 offen"
        return text + (" sc0" if returns else ""), False
    to = (registers_of(2 if "x2" in name or "f64" in name else 1, 16) + ", ") * returns
    sc0 = " sc0" if returns else ""
    if kind == "flat":
        return f"flat_atomic_{name} {to}v[4:5], {data}{sc0}", True
    return f"global_atomic_{name} {to}v4, {data}, s[8:9]{sc0}", False


def integer_atomic(name, kind, bits, returns):
    full = name + ("_x2" if bits == 64 else "")
    listing, wide = atomic_listing(kind, full, registers_of(bits // 32, 8), returns)
    if kind == "buffer" and returns:
        listing += "\n s_waitcnt vmcnt(0)\n v_mov_b32 v16, v8\n v_mov_b32 v17, v9"
    return listing, wide


together(
    integer_atomic(*c)[0]
    for c in product(ATOMICS, ["global", "flat", "buffer"], [32, 64], [False, True])
)


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("kind", ["global", "flat", "buffer"])
@pytest.mark.parametrize("name", ATOMICS)
def test_integer_atomics(name, kind, bits, returns):
    rng, memory, registers = draw(7)
    size = bits // 8
    at = rng.integers(0, 6, LANES).astype(np.uint32) * size
    listing, wide = integer_atomic(name, kind, bits, returns)
    result = run_at(listing, wide, at, registers, memory)
    want = memory.copy()
    for lane in range(LANES):
        old = int.from_bytes(want[at[lane] : at[lane] + size].tobytes(), "little")
        a = int.from_bytes(registers[lane, 4 : 4 + size // 4].tobytes(), "little")
        x, y = (
            (signed(old, bits), signed(a, bits)) if name[0:2] in ("sm",) else (old, a)
        )
        new = ATOMICS[name](x, y) & ((1 << bits) - 1)
        want[at[lane] : at[lane] + size] = np.frombuffer(
            new.to_bytes(size, "little"), np.uint8
        )
        if returns:
            got = int.from_bytes(
                result.registers[lane, : size // 4].tobytes(), "little"
            )
            assert got == old
    np.testing.assert_array_equal(result.memory, want)


@pytest.mark.parametrize("bits", [32, 64])
def test_compare_and_swap(bits):
    _, memory, registers = draw(8)
    size = bits // 8
    dwords = size // 4
    at = np.arange(LANES, dtype=np.uint32) * size
    old = memory[: size * LANES].view(np.uint32).reshape(LANES, dwords)
    registers[::2, 4 + dwords : 4 + 2 * dwords] = old[::2]
    name = "cmpswap" + ("_x2" if bits == 64 else "")
    listing, wide = atomic_listing("global", name, registers_of(2 * dwords, 8), True)
    result = run_at(listing, wide, at, registers, memory)
    np.testing.assert_array_equal(result.registers[:, :dwords], old)
    want = old.copy()
    want[::2] = registers[::2, 4 : 4 + dwords]
    np.testing.assert_array_equal(
        result.memory[: size * LANES], want.view(np.uint8).reshape(-1)
    )


FLOATS = {
    "add_f32": np.float32,
    "add_f64": np.float64,
    "min_f64": np.float64,
    "max_f64": np.float64,
    "pk_add_f16": np.float16,
    "pk_add_bf16": ml_dtypes.bfloat16,
}


def float_atomic(kind, name):
    size = 8 if "f64" in name else 4
    return atomic_listing(kind, name, registers_of(size // 4, 8), False)


together(float_atomic(*c)[0] for c in product(["global", "flat", "buffer"], FLOATS))


@pytest.mark.parametrize("kind", ["global", "flat", "buffer"])
@pytest.mark.parametrize("name", FLOATS)
def test_float_atomics(kind, name):
    dtype = np.dtype(FLOATS[name])
    rng = np.random.default_rng(9)
    size = 8 if "f64" in name else 4
    values = rng.standard_normal((LANES, size // dtype.itemsize)).astype(dtype)
    registers = np.zeros((LANES, 12), np.uint32)
    registers[:, 4 : 4 + size // 4] = values.view(np.uint32).reshape(LANES, -1)
    listing, wide = float_atomic(kind, name)
    at = np.zeros(LANES, np.uint32)
    result = run_at(listing, wide, at, registers, np.zeros(SIZE, np.uint8))
    want = np.zeros(values.shape[1], dtype)
    for value in values:
        if "add" in name:
            wider = np.float64 if dtype == np.float64 else np.float32
            want = (want.astype(wider) + value.astype(wider)).astype(dtype)
        else:
            want = (np.minimum if "min" in name else np.maximum)(want, value)
    np.testing.assert_array_equal(result.memory[:size].view(dtype), want)


# ---- Buffer range checks ----


def test_raw_buffer_loads_past_the_end_give_zero():
    """Per dword; the descriptor ends before the memory does."""
    _, memory, registers = draw(10)
    registers[:, 0] = np.arange(LANES) * 4
    end = 4 * 40 + 2
    listing = RAW.replace(str(SIZE), str(end))
    got = run(
        listing + "buffer_load_dwordx4 v[16:19], v4, s[12:15], 0 offen",
        registers,
        memory,
    ).registers
    for lane in range(LANES):
        for d in range(4):
            where = 4 * (lane + d)
            want = memory[where : where + 4].view(np.uint32)[0] if where < end else 0
            assert got[lane, d] == want, (lane, d)


def test_raw_buffer_stores_past_the_end_are_dropped():
    _, memory, registers = draw(11)
    registers[:, 0] = np.arange(LANES) * 16
    end = 16 * 20 + 8
    listing = RAW.replace(str(SIZE), str(end))
    result = run(
        listing + "buffer_store_dwordx4 v[8:11], v4, s[12:15], 0 offen",
        registers,
        memory,
    )
    want = memory.copy()
    want[:end] = registers[:, 4:8].copy().view(np.uint8).reshape(-1)[:end]
    np.testing.assert_array_equal(result.memory, want)


def test_the_scalar_offset_takes_part_in_the_range_check():
    _, memory, registers = draw(12)
    registers[:, 0] = np.arange(LANES) * 4
    listing = RAW.replace(str(SIZE), "128") + "s_movk_i32 s20, 64\n"
    listing = listing.replace("s_movk_i32", "s_mov_b32")
    got = run(
        listing + "buffer_load_dword v16, v4, s[12:15], s20 offen", registers, memory
    ).registers[:, 0]
    want = memory[64 : 64 + 4 * LANES].view(np.uint32).copy()
    want[16:] = 0
    np.testing.assert_array_equal(got, want)


def structured(stride: int, records: int, swizzle: bool = False) -> str:
    high = stride << 16 | int(swizzle) << 31
    return f"""
      s_mov_b32 s12, s8
      s_mov_b32 s13, s9
      s_mov_b32 s14, {records}
      s_mov_b32 s15, 0x00027000
      s_or_b32 s13, s13, {high:#x}
    """


def test_structured_buffers_check_the_index():
    _, memory, registers = draw(13)
    registers[:, 0] = np.arange(LANES)
    registers[:, 1] = 4
    got = run(
        structured(12, 30) + "buffer_load_dword v16, v[4:5], s[12:15], 0 idxen offen",
        registers,
        memory,
    ).registers[:, 0]
    for lane in range(LANES):
        where = 12 * lane + 4
        want = memory[where : where + 4].view(np.uint32)[0] if lane < 30 else 0
        assert got[lane] == want


def test_swizzled_buffers():
    """Blocks of 8 records; within a block, dword d of record r is at 4 (8 d + r)."""
    _, memory, registers = draw(14)
    registers[:, 0] = np.arange(LANES)
    registers[:, 1] = np.arange(LANES) % 4 * 4
    got = run(
        structured(16, 64, True)
        + "buffer_load_dword v16, v[4:5], s[12:15], 0 idxen offen",
        registers,
        memory,
    ).registers[:, 0]
    for lane in range(LANES):
        where = lane // 8 * 8 * 16 + 4 * (8 * (lane % 4) + lane % 8)
        assert got[lane] == memory[where : where + 4].view(np.uint32)[0]


def test_formats():
    """Typed loads and stores of 8-bit normalised, half and float components."""
    _, memory, registers = draw(15)
    registers[:, 0] = np.arange(LANES) * 4
    formats = "dfmt:10, nfmt:0"
    got = run(
        f"{RAW} tbuffer_load_format_xyzw v[16:19], v4, s[12:15], {formats}, 0 offen",
        registers,
        memory,
    ).registers
    want = memory[: 4 * LANES].reshape(LANES, 4).astype(np.float32) / np.float32(255)
    np.testing.assert_array_equal(got.view(np.float32), want)
    registers[:, 0] = np.arange(LANES) * 8
    values = np.random.default_rng(15).standard_normal((LANES, 4)).astype(np.float32)
    registers[:, 4:8] = values.view(np.uint32)
    result = run(
        f"{RAW} tbuffer_store_format_xyzw v[8:11], v4, s[12:15], dfmt:12, nfmt:7, 0"
        " offen",
        registers,
        memory,
    )
    stored = result.memory[: 8 * LANES].view(np.float16).reshape(LANES, 4)
    np.testing.assert_array_equal(stored, values.astype(np.float16))


# ---- Direct loads to LDS ----


@pytest.mark.parametrize("kind", ["global", "buffer"])
@pytest.mark.parametrize(
    "name", ["ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx3", "dwordx4"]
)
@pytest.mark.parametrize("masked", [False, True])
def test_direct_loads(kind, name, masked):
    size, dtype = LOADS["load_" + name]
    rng, memory, registers = draw(16)
    registers[:, 0] = at = offsets(rng, size)
    lds = rng.integers(0, 256, LDS_BYTES, np.uint8)
    base = 512
    listing = f"s_mov_b32 m0, {base}\n s_nop 0\n" + (MASK if masked else "")
    if kind == "global":
        listing += f"global_load_lds_{name} v4, s[8:9]"
    else:
        listing += f"{RAW} buffer_load_{name} v4, s[12:15], 0 offen lds"
    got = run(listing, registers, memory, lds=lds).lds
    want = lds.copy()
    for lane in range(LANES):
        if masked and not LIVE[lane]:
            continue
        raw = memory[at[lane] : at[lane] + size]
        if dtype is not None:
            raw = np.array([raw.view(dtype)[0]]).astype(np.int32).view(np.uint8)
        where = base + lane * (16 if size > 4 else 4)
        want[where : where + len(raw)] = raw
    np.testing.assert_array_equal(got, want)


def test_direct_loads_past_the_end_write_zeros():
    _, memory, registers = draw(17)
    registers[:, 0] = np.arange(LANES) * 16
    lds = np.full(LDS_BYTES, 0xAB, np.uint8)
    listing = RAW.replace(str(SIZE), str(16 * 10 + 4)) + "s_mov_b32 m0, 0\n s_nop 0\n"
    got = run(
        listing + "buffer_load_dwordx4 v4, s[12:15], 0 offen lds",
        registers,
        memory,
        lds=lds,
    ).lds
    want = np.zeros(16 * LANES, np.uint8)
    want[:164] = memory[:164]
    np.testing.assert_array_equal(got[: 16 * LANES], want)


# ---- Scalar loads ----


@pytest.mark.parametrize("dwords", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("buffer", [False, True])
def test_scalar_loads(dwords, buffer):
    _, memory, registers = draw(18)
    suffix = f"x{dwords}" if dwords > 1 else ""
    to = f"s[24:{23 + dwords}]" if dwords > 1 else "s24"
    if buffer:
        load = (
            f"{RAW} s_mov_b32 s20, 64\n s_buffer_load_dword{suffix} {to}, s[12:15], s20"
        )
    else:
        load = f"s_load_dword{suffix} {to}, s[8:9], 0x40"
    moves = "".join(
        f"v_mov_b32 v{16 + i}, s{24 + d}\n"
        for i, d in enumerate([0, dwords // 2, dwords - 1])
    )
    got = run(f"{load}\n s_waitcnt lgkmcnt(0)\n {moves}", registers, memory).registers
    want = memory[64 : 64 + 4 * dwords].view(np.uint32)
    for i, d in enumerate([0, dwords // 2, dwords - 1]):
        assert (got[:, i] == want[d]).all()


def test_scalar_buffer_loads_past_the_end_give_zero():
    _, memory, registers = draw(19)
    listing = RAW.replace(str(SIZE), "72") + "s_mov_b32 s20, 64\n"
    listing += "s_buffer_load_dwordx4 s[24:27], s[12:15], s20\n s_waitcnt lgkmcnt(0)\n"
    moves = "".join(f"v_mov_b32 v{16 + d}, s{24 + d}\n" for d in range(4))
    got = run(listing + moves, registers, memory).registers[0]
    np.testing.assert_array_equal(got[:2], memory[64:72].view(np.uint32))
    assert (got[2:] == 0).all()


def test_time_runs_on():
    _, memory, registers = draw(20)
    listing = """
      s_memtime s[20:21]
      s_waitcnt lgkmcnt(0)
      s_nop 15
      s_memtime s[22:23]
      s_waitcnt lgkmcnt(0)
      v_mov_b32 v16, s20
      v_mov_b32 v17, s22
    """
    got = run(listing, registers, memory).registers[0]
    assert 64 <= got[1] - got[0] <= 128


# ---- Bounds and alignment ----


@pytest.mark.parametrize("kind", ["global", "global64", "flat", "buffer"])
@pytest.mark.parametrize("name", ["load_dword", "store_dword"])
def test_accesses_outside_buffers(kind, name):
    _, memory, registers = draw(21)
    at = np.zeros(LANES, np.uint32)
    listing, wide = form(kind, name, "v16" if "load" in name else "v8", 0)
    listing = listing.replace(f", {SIZE}\n", ", 0x100000\n")
    at[5] = SIZE - 4
    if "load" in name:
        run_at(listing, wide, at, registers, memory)
    at[5] = SIZE
    with pytest.raises(
        HipError, match="lane 5.*0 bytes past the end of.*8192"
    ) as error:
        run_at(listing, wide, at, registers, memory)
    assert error.value.check == "bounds"


def test_buffer_accesses_have_to_be_aligned():
    _, memory, registers = draw(22)
    at = np.full(LANES, 2, np.uint32)
    listing, _ = form("buffer", "load_dword", "v16", 0)
    with pytest.raises(HipError, match="not a multiple of 4"):
        run_at(listing, False, at, registers, memory)
    got = run_at(*form("global", "load_dword", "v16", 0), at, registers, memory)
    assert got.registers[0, 0] == memory[2:6].view(np.uint32)[0]
