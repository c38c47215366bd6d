"""LDS instructions against numpy."""

from itertools import product

import numpy as np
import pytest

from tests.hipsim import memory_case
from tests.hipsim.device import HipError
from tests.hipsim.memory_case import FILL, LANES, LDS_BYTES, run, together

EXEC = 0x0123_4567_89AB_CDEF
MASKED = f"s_mov_b64 s[20:21], exec\n s_mov_b32 exec_lo, {EXEC & 0xFFFFFFFF:#x}\n" + (
    f" s_mov_b32 exec_hi, {EXEC >> 32:#x}\n"
)
LIVE = np.array([(EXEC >> lane) & 1 for lane in range(LANES)], bool)


def draw(seed: int):
    """Random LDS, and random data registers."""
    rng = np.random.default_rng(seed)
    lds = rng.integers(0, 256, LDS_BYTES, np.uint8)
    registers = rng.integers(0, 1 << 32, (LANES, 12), np.uint32)
    return rng, lds, registers


def places(rng, size: int, align: int, spread: int = LDS_BYTES // 2) -> np.ndarray:
    """Addresses of 64 different elements."""
    slots = spread // max(size, align)
    return (rng.permutation(slots)[:LANES] * max(size, align)).astype(np.uint32)


READS = {
    "ds_read_u8": (1, np.uint8),
    "ds_read_i8": (1, np.int8),
    "ds_read_u16": (2, np.uint16),
    "ds_read_i16": (2, np.int16),
    "ds_read_b32": (4, None),
    "ds_read_b64": (8, None),
    "ds_read_b96": (12, None),
    "ds_read_b128": (16, None),
}


def read_case(name, masked):
    dwords = max(1, READS[name][0] // 4)
    to = "v16" if dwords == 1 else f"v[16:{15 + dwords}]"
    return f"{MASKED if masked else ''} {name} {to}, v4 offset:32"


together((read_case(*c) for c in product(READS, [False, True])), lds=True)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", READS)
def test_reads(name, masked):
    size, dtype = READS[name]
    rng, lds, registers = draw(1)
    registers[:, 0] = at = places(rng, size, 4 if size == 12 else size, LDS_BYTES - 64)
    dwords = max(1, size // 4)
    got = run(read_case(name, masked), registers, lds=lds).registers
    want = np.full((LANES, 4), FILL, np.uint32)
    for lane in range(LANES):
        if masked and not LIVE[lane]:
            continue
        raw = lds[at[lane] + 32 : at[lane] + 32 + size]
        if dtype is not None:
            want[lane, 0] = np.uint32(int(raw.view(dtype)[0]) & 0xFFFFFFFF)
        else:
            want[lane, :dwords] = raw.view(np.uint32)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("sign, size", [("u", 8), ("i", 8), ("u", 16)])
@pytest.mark.parametrize("hi", ["", "_hi"])
def test_reads_of_halves(size, sign, hi):
    rng, lds, registers = draw(2)
    registers[:, 0] = at = places(rng, 2, 2)
    got = run(f"ds_read_{sign}{size}_d16{hi} v16, v4", registers, lds=lds).registers
    for lane in range(LANES):
        dtype = np.dtype(f"{sign}{size // 8}")
        value = int(lds[at[lane] : at[lane] + size // 8].view(dtype)[0]) & 0xFFFF
        assert got[lane, 0] == (value << 16 if hi else value)


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("st64", ["", "st64"])
def test_pair_reads_and_writes(size, st64):
    rng, lds, registers = draw(3)
    stride = size * (64 if st64 else 1)
    first, second = (1, 3) if st64 else (5, 200)
    registers[:, 0] = at = np.arange(LANES, dtype=np.uint32) * size * 2 % 512
    dwords = size // 4
    name = f"ds_read2{st64}_b{8 * size}"
    result = run(
        f"{name} v[16:{15 + 2 * dwords}], v4 offset0:{first} offset1:{second}",
        registers,
        lds=lds,
    )
    for lane in range(LANES):
        want = [
            lds[at[lane] + k * stride :][:size].view(np.uint32) for k in (first, second)
        ]
        np.testing.assert_array_equal(
            result.registers[lane, : 2 * dwords], np.concatenate(want)
        )
    registers[:, 0] = at = np.arange(LANES, dtype=np.uint32) * size
    data = (
        [f"v[8:{7 + dwords}]", f"v[12:{11 + dwords}]"] if dwords > 1 else ["v8", "v12"]
    )
    first, second = (0, 3) if st64 else (0, 64)
    listing = f"ds_write2{st64}_b{8 * size} v4, {data[0]}, {data[1]}"
    result = run(f"{listing} offset0:{first} offset1:{second}", registers, lds=lds)
    want = lds.copy()
    for lane in range(LANES):
        for k, column in ((first, 4), (second, 8)):
            where = at[lane] + k * stride
            want[where : where + size] = registers[lane, column : column + dwords].view(
                np.uint8
            )
    np.testing.assert_array_equal(result.lds, want)


WRITES = {
    "ds_write_b8": (1, 0),
    "ds_write_b16": (2, 0),
    "ds_write_b8_d16_hi": (1, 2),
    "ds_write_b16_d16_hi": (2, 2),
    "ds_write_b32": (4, 0),
    "ds_write_b64": (8, 0),
    "ds_write_b96": (12, 0),
    "ds_write_b128": (16, 0),
}


def write_case(name, masked):
    dwords = max(1, WRITES[name][0] // 4)
    data = "v8" if dwords == 1 else f"v[8:{7 + dwords}]"
    return f"{MASKED if masked else ''} {name} v4, {data} offset:64"


together((write_case(*c) for c in product(WRITES, [False, True])), lds=True)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes(name, masked):
    size, skip = WRITES[name]
    rng, lds, registers = draw(4)
    registers[:, 0] = at = places(rng, size, 4 if size == 12 else size)
    result = run(write_case(name, masked), registers, lds=lds)
    want = lds.copy()
    for lane in range(LANES):
        if masked and not LIVE[lane]:
            continue
        raw = registers[lane, 4:8].view(np.uint8)[skip : skip + size]
        want[at[lane] + 64 : at[lane] + 64 + size] = raw
    np.testing.assert_array_equal(result.lds, want)


def _inc(old, a):
    return 0 if old >= a else old + 1


def _dec(old, a):
    return a if old == 0 or old > a else old - 1


INTEGERS = {
    "add": ("u", lambda old, a: old + a),
    "sub": ("u", lambda old, a: old - a),
    "rsub": ("u", lambda old, a: a - old),
    "inc": ("u", _inc),
    "dec": ("u", _dec),
    "min_i": ("i", min),
    "max_i": ("i", max),
    "min_u": ("u", min),
    "max_u": ("u", max),
    "and": ("b", lambda old, a: old & a),
    "or": ("b", lambda old, a: old | a),
    "xor": ("b", lambda old, a: old ^ a),
    "wrxchg": ("b", lambda old, a: a),
}


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def atomic_listing(name, bits, returns, data=("v[8:9]",)):
    to = ("v[16:17], " if bits == 64 else "v16, ") if returns else ""
    operands = [d if bits == 64 else f"v{d[2:].split(':')[0]}" for d in data]
    return f"{name} {to}v4, {', '.join(operands)}"


def atomic_case(name, bits, returns, apply, data=("v[8:9]",)):
    """Runs an LDS atomic on a few places that lanes share; compares with numpy."""
    rng, lds, registers = draw(bits)
    size = bits // 8
    registers[:, 0] = at = rng.integers(0, 6, LANES).astype(np.uint32) * size
    listing = atomic_listing(name, bits, returns, data)
    result = run(listing, registers, lds=lds)
    want = lds.copy()
    for lane in range(LANES):
        raw = want[at[lane] : at[lane] + size]
        old = int.from_bytes(raw.tobytes(), "little")
        values = [
            int.from_bytes(registers[lane, c : c + size // 4].tobytes(), "little")
            for c in (4, 8)
        ]
        new = apply(old, *values[: len(data)])
        want[at[lane] : at[lane] + size] = np.frombuffer(
            (new & ((1 << bits) - 1)).to_bytes(size, "little"), np.uint8
        )
        if returns:
            got = int.from_bytes(
                result.registers[lane, : size // 4].tobytes(), "little"
            )
            assert got == old
    np.testing.assert_array_equal(result.lds, want)


def integer_name(op, bits, returns):
    stem = op.split("_")[0]
    return f"ds_{stem}_{'rtn_' if returns else ''}{INTEGERS[op][0]}{bits}"


INTEGER_CASES = [
    (op, bits, returns)
    for op, bits, returns in product(INTEGERS, [32, 64], [False, True])
    if op != "wrxchg" or returns  # Exchanges always return.
]
together((atomic_listing(integer_name(*c), *c[1:]) for c in INTEGER_CASES), lds=True)


@pytest.mark.parametrize("op, bits, returns", INTEGER_CASES)
def test_integer_atomics(op, bits, returns):
    kind, apply = INTEGERS[op]
    if kind == "i":
        compare = apply

        def apply(old, a):
            return compare(signed(old, bits), signed(a, bits))

    atomic_case(integer_name(op, bits, returns), bits, returns, apply)


@pytest.mark.parametrize("bits", [32, 64])
def test_compare_store_and_masked_or(bits):
    for rtn in ("", "rtn_"):
        atomic_case(
            f"ds_cmpst_{rtn}b{bits}",
            bits,
            bool(rtn),
            lambda old, a, b: b if old == a else old,
            data=("v[8:9]", "v[12:13]"),
        )
        atomic_case(
            f"ds_mskor_{rtn}b{bits}",
            bits,
            bool(rtn),
            lambda old, a, b: (old & ~a) | b,
            data=("v[8:9]", "v[12:13]"),
        )


def test_wrap():
    atomic_case(
        "ds_wrap_rtn_b32",
        32,
        True,
        lambda old, a, b: old - a if old >= a else old + b,
        data=("v[8:9]", "v[12:13]"),
    )


@pytest.mark.parametrize("name", ["add", "min", "max"])
@pytest.mark.parametrize("bits", [32, 64])
def test_float_atomics(name, bits):
    dtype = np.float32 if bits == 32 else np.float64
    rng = np.random.default_rng(5)
    values = rng.standard_normal(LANES).astype(dtype)
    lds = np.zeros(LDS_BYTES, np.uint8)
    lds[: bits // 8] = np.array([0.25], dtype).view(np.uint8)
    registers = np.zeros((LANES, 12), np.uint32)
    registers[:, 4 : 4 + bits // 32] = values.view(np.uint32).reshape(LANES, -1)
    data = "v8" if bits == 32 else "v[8:9]"
    result = run(f"ds_{name}_f{bits} v4, {data}", registers, lds=lds)
    want = dtype(0.25)
    for value in values:
        want = {"add": want + value, "min": min(want, value), "max": max(want, value)}[
            name
        ]
    assert result.lds[: bits // 8].view(dtype)[0] == want


def test_packed_atomics():
    import ml_dtypes

    rng = np.random.default_rng(6)
    for name, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        values = rng.standard_normal((LANES, 2)).astype(dtype)
        registers = np.zeros((LANES, 12), np.uint32)
        registers[:, 4] = values.view(np.uint32)[:, 0]
        result = run(
            f"ds_pk_add_{name} v4, v8", registers, lds=np.zeros(LDS_BYTES, np.uint8)
        )
        want = np.zeros(2, dtype)
        for value in values:
            want = (want.astype(np.float32) + value.astype(np.float32)).astype(dtype)
        np.testing.assert_array_equal(result.lds[:4].view(dtype), want)


@pytest.mark.parametrize("bits", [16, 8, 4, 6])
def test_transposing_reads(bits):
    """16 lanes read a tile of elements; each lane gets a column of it."""
    rng, lds, registers = draw(7)
    size = 12 if bits == 6 else 8
    registers[:, 0] = at = rng.permutation(LANES).astype(np.uint32) * 16
    name = "ds_read_b96_tr_b6" if bits == 6 else f"ds_read_b64_tr_b{bits}"
    to = f"v[16:{15 + size // 4}]"
    got = run(f"{name} {to}, v4", registers, lds=lds).registers
    count = 8 * size // bits
    per_row = count if bits != 6 else 16

    def element(lane, index):
        value = int.from_bytes(lds[at[lane] : at[lane] + size].tobytes(), "little")
        return value >> (bits * index) & ((1 << bits) - 1)

    rows = 16 // per_row
    for lane in range(LANES):
        want = 0
        for n in range(count):
            source = (lane & ~15) + (lane // per_row) % rows + rows * n
            want |= element(source, lane % per_row) << (bits * n)
        value = int.from_bytes(got[lane, : size // 4].tobytes(), "little")
        assert value == want, lane


def test_transposing_read_of_16_bits_is_a_transposition():
    """Lane l of 16 reads row l's quarter; element n of lane l is row 4 n + l // 4."""
    tile = np.arange(64, dtype=np.uint16).reshape(16, 4)
    lds = np.zeros(LDS_BYTES, np.uint8)
    lds[:128] = tile.view(np.uint8).reshape(-1)
    registers = np.zeros((LANES, 12), np.uint32)
    registers[:, 0] = np.arange(LANES) % 16 * 8
    got = run("ds_read_b64_tr_b16 v[16:17], v4", registers, lds=lds).registers
    columns = got[:16, :2].copy().view(np.uint16)
    matrix = tile.reshape(4, 16)  # four rows of 16
    np.testing.assert_array_equal(columns, matrix.T)


def test_permutations():
    rng, _, registers = draw(8)
    registers[:, 0] = select = rng.integers(0, LANES, LANES).astype(np.uint32) * 4
    data = registers[:, 4]
    got = run("ds_bpermute_b32 v16, v4, v8", registers).registers[:, 0]
    np.testing.assert_array_equal(got, data[select // 4])
    got = run(f"{MASKED} ds_bpermute_b32 v16, v4, v8", registers).registers[:, 0]
    want = np.where(LIVE[select // 4], data[select // 4], 0)
    np.testing.assert_array_equal(got, np.where(LIVE, want, FILL))
    got = run("ds_permute_b32 v16, v4, v8", registers).registers[:, 0]
    want = np.zeros(LANES, np.uint32)
    want[select // 4] = data
    np.testing.assert_array_equal(got, want)


def test_swizzle():
    _, _, registers = draw(9)
    data = registers[:, 0]
    lane = np.arange(LANES)

    def swizzled(pattern):
        return run(f"ds_swizzle_b32 v16, v4 offset:{pattern}", registers).registers[
            :, 0
        ]

    np.testing.assert_array_equal(
        swizzled(0x80 << 8 | 0b00_01_10_11), data[lane & ~3 | 3 - lane % 4]
    )
    mask, with_or, flip = 0b11011, 0b00100, 0b10001
    want = (lane & 32) | (((lane & 31 & mask) | with_or) ^ flip)
    np.testing.assert_array_equal(
        swizzled(flip << 10 | with_or << 5 | mask), data[want]
    )


def test_add_tid():
    _, lds, registers = draw(10)
    listing = "s_mov_b32 m0, 0x100\n s_nop 0\n ds_read_addtid_b32 v16 offset:16"
    got = run(listing, registers, lds=lds).registers[:, 0]
    np.testing.assert_array_equal(got, lds[272 : 272 + 256].view(np.uint32))
    listing = "s_mov_b32 m0, 0x100\n s_nop 0\n ds_write_addtid_b32 v8 offset:16"
    want = lds.copy()
    want[272 : 272 + 256] = registers[:, 4].copy().view(np.uint8)
    np.testing.assert_array_equal(run(listing, registers, lds=lds).lds, want)


def test_exchanges_of_pairs():
    _, lds, registers = draw(11)
    registers[:, 0] = np.arange(LANES) * 8
    result = run(
        "ds_wrxchg2_rtn_b32 v[16:17], v4, v8, v12 offset1:1", registers, lds=lds
    )
    old = lds[: 8 * LANES].view(np.uint32).reshape(LANES, 2)
    np.testing.assert_array_equal(result.registers[:, :2], old)
    want = lds.copy()
    want[: 8 * LANES] = registers[:, [4, 8]].copy().view(np.uint8).reshape(-1)
    np.testing.assert_array_equal(result.lds, want)


@pytest.mark.parametrize("name", ["ds_read_b32 v16, v4", "ds_write_b32 v4, v8"])
def test_out_of_bounds_and_misaligned(name):
    registers = np.zeros((LANES, 12), np.uint32)
    lds = np.zeros(LDS_BYTES, np.uint8)
    registers[:, 0] = LDS_BYTES - 4
    if "write" not in name:
        run(name, registers, lds=lds)
    registers[7, 0] = LDS_BYTES
    with pytest.raises(HipError, match="lane 7.*outside the workgroup's 4096") as error:
        run(name, registers, lds=lds)
    assert error.value.check == "bounds"
    registers[7, 0] = 2
    with pytest.raises(HipError, match="lane 7.*not a multiple of 4") as error:
        run(name, registers, lds=lds)
    assert error.value.check == "alignment"


def test_pairs_of_dwords_may_be_aligned_to_dwords_where_that_is_asked_for():
    registers = np.full((LANES, 12), 4, np.uint32)
    lds = np.arange(LDS_BYTES).astype(np.uint8)
    with pytest.raises(HipError, match="not a multiple of 8"):
        run("ds_read_b64 v[16:17], v4", registers, lds=lds)
    with memory_case.device.options(alignment="dword"):
        got = run("ds_read_b64 v[16:17], v4", registers, lds=lds).registers
    np.testing.assert_array_equal(got[0, :2], lds[4:12].view(np.uint32))
