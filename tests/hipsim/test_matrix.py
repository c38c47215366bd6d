"""Matrix instructions against numpy, by the layouts of AMD's instruction set guides."""

import dataclasses
import re

import numpy as np
import pytest

from tests.hipsim import device
from tests.hipsim.assemble import Kernel, assemble

LANES = 64
A, B, C = 0, 16, 32  # first registers of A, B and C; D is v[64:], scales v96 and v97

# (exponent bits, mantissa bits, bias, what is special)
FORMATS = {
    "fp8": (4, 3, 7, "all ones is NaN"),
    "bf8": (5, 2, 15, "ieee"),
    "fp8 fnuz": (4, 3, 8, "minus zero is NaN"),
    "bf8 fnuz": (5, 2, 16, "minus zero is NaN"),
    "fp6": (2, 3, 1, ""),
    "bf6": (3, 2, 3, ""),
    "fp4": (2, 1, 1, ""),
}


def small_values(name: str) -> np.ndarray:
    """All numbers of a small format, by bits."""
    e_bits, m_bits, bias, special = FORMATS[name]
    values = []
    for bits in range(1 << (1 + e_bits + m_bits)):
        sign = -1.0 if bits >> (e_bits + m_bits) else 1.0
        exponent, mantissa = (
            bits >> m_bits & ((1 << e_bits) - 1),
            bits & ((1 << m_bits) - 1),
        )
        if exponent:
            value = (1 + mantissa / (1 << m_bits)) * 2.0 ** (exponent - bias)
        else:
            value = mantissa / (1 << m_bits) * 2.0 ** (1 - bias)
        top = exponent == (1 << e_bits) - 1
        if special == "ieee" and top:
            value = np.nan if mantissa else np.inf
        if special == "all ones is NaN" and top and mantissa == (1 << m_bits) - 1:
            value = np.nan
        if special == "minus zero is NaN" and bits == 1 << (e_bits + m_bits):
            value = np.nan
        values.append(sign * value)
    return np.array(values)


@dataclasses.dataclass
class Shape:
    """What an instruction multiplies: blocks of dim x k and k x dim."""

    dim: int
    k: int
    blocks: int
    a: str
    b: str
    result: str
    sparse: bool = False

    @property
    def groups(self) -> int:
        return LANES // (self.dim * self.blocks)


def shape_of(name: str) -> Shape:
    """Reads v_mfma_f32_32x32x4_2b_f16 and the like."""
    match = re.fullmatch(
        r"v_(s?mfmac?)_(?:scale_)?(f32|f64|i32)_(\d+)x\d+x(\d+)_(?:(\d+)b_)?(\w+)", name
    )
    assert match, name
    kinds = match[6].split("_")
    return Shape(
        int(match[3]),
        int(match[4]),
        int(match[5] or 1),
        kinds[0],
        kinds[-1],
        match[2],
        match[1] == "smfmac",
    )


BITS = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8}
BITS |= {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}


def draw(rng, kind: str, shape: tuple[int, ...], fnuz: bool):
    """Random elements whose products add up exactly: bits and values."""
    if kind in ("fp8", "bf8", "fp6", "bf6", "fp4"):
        table = small_values(f"{kind} fnuz" if fnuz and kind[2] == "8" else kind)
        finite = np.where(np.isfinite(table), table, 1000)
        usable = np.flatnonzero((np.abs(finite) <= 4) & (finite * 4 % 1 == 0))
        bits = rng.choice(usable, shape)
        return bits.astype(np.uint64), table[bits]
    values = rng.integers(-4, 5, shape).astype(np.float64)
    if kind == "i8":
        values = rng.integers(-128, 128, shape).astype(np.float64)
        return (values.astype(np.int64) & 255).astype(np.uint64), values
    if kind == "f64":
        return values.view(np.uint64), values
    if kind in ("f32", "xf32"):
        return values.astype(np.float32).view(np.uint32).astype(np.uint64), values
    if kind == "bf16":
        bits = values.astype(np.float32).view(np.uint32) >> 16
        return bits.astype(np.uint64), values
    return values.astype(np.float16).view(np.uint16).astype(np.uint64), values


def pack(
    registers: np.ndarray, lane: int, first: int, bits: int, element: int, value: int
):
    """Puts an element of a lane into its registers."""
    at = element * bits
    for part in range(0, bits, 32):
        word, shift = first + (at + part) // 32, (at + part) % 32
        piece = value >> part & ((1 << min(bits, 32)) - 1)
        registers[lane, word] |= np.uint32(piece << shift & 0xFFFFFFFF)
        if shift + min(bits, 32) > 32:
            registers[lane, word + 1] |= np.uint32(piece >> (32 - shift))


def place_input(registers, first, bits_of, shape: Shape, k_total: int, kind: str):
    """Spreads [blocks][dim][k] over the lanes of A or B."""
    bits = BITS[kind]
    each = k_total // shape.groups
    runs = (
        kind in ("fp8", "bf8")
        and shape.k in (128, 64)
        and each == 32
        and not shape.sparse
    )
    for block in range(shape.blocks):
        for row in range(shape.dim):
            for group in range(shape.groups):
                lane = row + shape.dim * (block + shape.blocks * group)
                for e in range(each):
                    k = group * each + e
                    if runs:
                        k = 16 * shape.groups * (e // 16) + 16 * group + e % 16
                    pack(registers, lane, first, bits, e, int(bits_of[block, row, k]))


def place_output(shape: Shape):
    """(register, lane) of D[block][i][j], as the guides' formula has it."""
    high = 1 if shape.result == "f64" else 4
    beside = -(-LANES * high // (shape.dim * shape.dim))
    spread = LANES // beside // shape.dim
    for block in range(shape.blocks):
        for i in range(shape.dim):
            for j in range(shape.dim):
                item = i % high + high * (i // (high * spread))
                item += high * (shape.dim // (high * spread)) * (block // beside)
                lane = j + shape.dim * (i // high % spread + spread * (block % beside))
                yield (block, i, j), item, lane


def run(name: str, registers: np.ndarray, operands: str, target: str) -> np.ndarray:
    """Runs one instruction on v0 to v97; returns v64 to v95."""
    loads = "".join(
        f"  global_load_dwordx4 v[{r}:{r + 3}], v100, s[4:5] offset:{4 * r}\n"
        for r in range(0, 96, 4)
    )
    stores = "".join(
        f"  global_store_dwordx4 v101, v[{64 + r}:{67 + r}], s[6:7] offset:{4 * r}\n"
        for r in range(0, 32, 4)
    )
    body = f"""
  s_load_dwordx4 s[4:7], s[0:1], 0
  v_lshlrev_b32 v100, 9, v0
  v_lshlrev_b32 v101, 7, v0
  s_waitcnt lgkmcnt(0)
{loads}
  global_load_dwordx2 v[96:97], v100, s[4:5] offset:384
  s_waitcnt vmcnt(0)
  s_nop 7
  {name} {operands}
  s_nop 15
  s_nop 15
{stores}
  s_endpgm
"""
    with device.options(arch=target):
        code = assemble(Kernel(body, arguments=(8, 8)), target)
        sources = device.Array.of(registers)
        out = device.Array((LANES, 32), np.uint32, fill=0)
        module = device.Module(code)
        device.launch(module.function(), [sources, out])
        result = out.get()
        module.unload()
    return result


def span(first: int, count: int) -> str:
    """v[0:3]."""
    return f"v[{first}:{first + count - 1}]" if count > 1 else f"v{first}"


def numbers(bits: np.ndarray, result: str) -> np.ndarray:
    """Values of the result registers."""
    kind = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[result]
    return np.ascontiguousarray(bits).view(kind)


BOTH = """v_mfma_f32_32x32x1_2b_f32 v_mfma_f32_16x16x1_4b_f32 v_mfma_f32_4x4x1_16b_f32
v_mfma_f32_32x32x2_f32 v_mfma_f32_16x16x4_f32 v_mfma_f32_32x32x4_2b_f16
v_mfma_f32_16x16x4_4b_f16 v_mfma_f32_4x4x4_16b_f16 v_mfma_f32_32x32x8_f16
v_mfma_f32_16x16x16_f16 v_mfma_f32_32x32x4_2b_bf16 v_mfma_f32_16x16x4_4b_bf16
v_mfma_f32_4x4x4_16b_bf16 v_mfma_f32_32x32x8_bf16 v_mfma_f32_16x16x16_bf16
v_mfma_i32_32x32x4_2b_i8 v_mfma_i32_16x16x4_4b_i8 v_mfma_i32_4x4x4_16b_i8
v_mfma_i32_32x32x16_i8 v_mfma_i32_16x16x32_i8 v_mfma_f64_16x16x4_f64
v_mfma_f64_4x4x4_4b_f64 v_smfmac_f32_16x16x32_f16 v_smfmac_f32_32x32x16_f16
v_smfmac_f32_16x16x32_bf16 v_smfmac_f32_32x32x16_bf16 v_smfmac_i32_16x16x64_i8
v_smfmac_i32_32x32x32_i8""".split()
BOTH += [
    f"v_mfma_f32_{size}_{a}_{b}"
    for size in ("16x16x32", "32x32x16")
    for a in ("fp8", "bf8")
    for b in ("fp8", "bf8")
]
BOTH += [
    f"v_smfmac_f32_{size}_{a}_{b}"
    for size in ("16x16x64", "32x32x32")
    for a in ("fp8", "bf8")
    for b in ("fp8", "bf8")
]
ONLY_942 = ["v_mfma_f32_16x16x8_xf32", "v_mfma_f32_32x32x4_xf32"]
ONLY_950 = """v_mfma_f32_16x16x32_bf16 v_mfma_f32_32x32x16_bf16 v_mfma_f32_16x16x32_f16
v_mfma_f32_32x32x16_f16 v_mfma_i32_16x16x64_i8 v_mfma_i32_32x32x32_i8
v_smfmac_f32_16x16x64_bf16 v_smfmac_f32_32x32x32_bf16 v_smfmac_f32_16x16x64_f16
v_smfmac_f32_32x32x32_f16 v_smfmac_i32_16x16x128_i8 v_smfmac_i32_32x32x64_i8
v_smfmac_f32_16x16x128_fp8_bf8 v_smfmac_f32_32x32x64_bf8_fp8""".split()
CASES = [(name, target) for name in BOTH for target in ("gfx942", "gfx950")]
CASES += [(name, "gfx942") for name in ONLY_942] + [
    (name, "gfx950") for name in ONLY_950
]


def accumulators(rng, shape: Shape, registers, first):
    """Random C: integers, spread as D is."""
    c = rng.integers(-50, 50, (shape.blocks, shape.dim, shape.dim)).astype(np.float64)
    kind = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[shape.result]
    dwords = 2 if shape.result == "f64" else 1
    for (block, i, j), item, lane in place_output(shape):
        bits = np.array([c[block, i, j]]).astype(kind).view(np.uint32)
        registers[lane, first + dwords * item : first + dwords * (item + 1)] = bits
    return c


def gathered(out: np.ndarray, shape: Shape) -> np.ndarray:
    """D[block][i][j] of the registers."""
    values = numbers(out, shape.result)
    d = np.zeros((shape.blocks, shape.dim, shape.dim))
    for at, item, lane in place_output(shape):
        d[at] = values[lane, item]
    return d


@pytest.mark.parametrize(("name", "target"), CASES)
def test_product(name, target):
    shape = shape_of(name)
    rng = np.random.default_rng(1)
    fnuz = target == "gfx942"
    registers = np.zeros((LANES, 128), np.uint32)
    k_a = shape.k // 2 if shape.sparse else shape.k
    a_bits, a = draw(rng, shape.a, (shape.blocks, shape.dim, k_a), fnuz)
    b_bits, b = draw(rng, shape.b, (shape.blocks, shape.dim, shape.k), fnuz)
    place_input(registers, A, a_bits, shape, k_a, shape.a)
    place_input(registers, B, b_bits, shape, shape.k, shape.b)
    c = accumulators(rng, shape, registers, 64 if shape.sparse else C)
    if shape.sparse:
        a = sparse(rng, shape, registers, a)
    dwords_a = k_a // shape.groups * BITS[shape.a] // 32
    dwords_b = shape.k // shape.groups * BITS[shape.b] // 32
    count = (
        shape.dim
        * shape.dim
        * shape.blocks
        * (2 if shape.result == "f64" else 1)
        // LANES
    )
    last = "v96" if shape.sparse else span(C, count)
    operands = f"{span(64, count)}, {span(A, dwords_a)}, {span(B, dwords_b)}, {last}"
    out = run(name, registers, operands, target)
    want = np.einsum("bik,bjk->bij", a, b) + c
    np.testing.assert_array_equal(gathered(out, shape), want)


def sparse(rng, shape: Shape, registers, a) -> np.ndarray:
    """Places two of every four k by the index register; returns A in full."""
    full = np.zeros((1, shape.dim, shape.k))
    kept = shape.k // 2 // shape.groups
    for row in range(shape.dim):
        for group in range(shape.groups):
            index = 0
            for four in range(kept // 2):
                first, second = sorted(rng.choice(4, 2, replace=False))
                base = 2 * kept * group + 4 * four
                full[0, row, base + first] = a[0, row, group * kept + 2 * four]
                full[0, row, base + second] = a[0, row, group * kept + 2 * four + 1]
                index |= int(first) << 4 * four | int(second) << 4 * four + 2
            registers[row + shape.dim * group, 96] = index
    return full


SMALL = ["fp8", "bf8", "fp6", "bf6", "fp4"]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("dim", [16, 32])
@pytest.mark.parametrize("b_kind", SMALL)
@pytest.mark.parametrize("a_kind", SMALL)
def test_f8f6f4(a_kind, b_kind, dim, scaled):
    k = 128 if dim == 16 else 64
    shape = Shape(dim, k, 1, a_kind, b_kind, "f32")
    rng = np.random.default_rng(2)
    registers = np.zeros((LANES, 128), np.uint32)
    a_bits, a = draw(rng, a_kind, (1, dim, k), False)
    b_bits, b = draw(rng, b_kind, (1, dim, k), False)
    place_input(registers, A, a_bits, shape, k, a_kind)
    place_input(registers, B, b_bits, shape, k, b_kind)
    c = accumulators(rng, shape, registers, C)
    scales = []
    for register, byte in ((96, 2), (97, 1)):
        exponents = rng.integers(124, 131, (dim, k // 32))
        for row in range(dim):
            for part in range(k // 32):
                word = rng.integers(0, 2**32) & ~(255 << 8 * byte)
                word |= int(exponents[row, part]) << 8 * byte
                registers[row + dim * part, register] = word
        scales.append(np.repeat(2.0 ** (exponents - 127.0), 32, axis=1)[None])
    dwords = [32 * BITS[kind] // 32 for kind in (a_kind, b_kind)]
    count = dim * dim // LANES
    size = f"{dim}x{dim}x{k}"
    operands = f"{span(64, count)}, {span(A, dwords[0])}, {span(B, dwords[1])}"
    operands += f", {span(C, count)}"
    if scaled:
        # A takes byte 2: op_sel_hi 1, op_sel 0; B takes byte 1.
        operands += ", v96, v97 op_sel:[0,1,0] op_sel_hi:[1,0,0]"
        a, b = a * scales[0], b * scales[1]
    operands += f" cbsz:{SMALL.index(a_kind)} blgp:{SMALL.index(b_kind)}"
    name = f"v_mfma_{'scale_' if scaled else ''}f32_{size}_f8f6f4"
    out = run(name, registers, operands, "gfx950")
    want = (np.einsum("bik,bjk->bij", a, b) + c).astype(np.float32)
    np.testing.assert_allclose(gathered(out, shape), want, rtol=1e-6, atol=1e-4)


def test_broadcasts_of_blocks():
    """cbsz and abid give one block of A to several; blgp moves lanes of B."""
    name, shape = "v_mfma_f32_4x4x4_16b_f16", shape_of("v_mfma_f32_4x4x4_16b_f16")
    rng = np.random.default_rng(3)
    registers = np.zeros((LANES, 128), np.uint32)
    a_bits, a = draw(rng, "f16", (16, 4, 4), False)
    b_bits, b = draw(rng, "f16", (16, 4, 4), False)
    place_input(registers, A, a_bits, shape, 4, "f16")
    place_input(registers, B, b_bits, shape, 4, "f16")
    c = accumulators(rng, shape, registers, C)
    operands = "v[64:67], v[0:1], v[16:17], v[32:35]"
    out = run(name, registers, f"{operands} cbsz:2 abid:3", "gfx950")
    blocks = [4 * (n // 4) + 3 for n in range(16)]
    want = np.einsum("bik,bjk->bij", a[blocks], b) + c
    np.testing.assert_array_equal(gathered(out, shape), want)
    for blgp, source in {
        1: lambda n: n % 8,
        2: lambda n: 8 + n % 8,
        3: lambda n: (n + 4) % 16,
        4: lambda n: n % 4,
        7: lambda n: 12 + n % 4,
    }.items():
        out = run(name, registers, f"{operands} blgp:{blgp}", "gfx950")
        moved = b[[source(n) for n in range(16)]]
        want = np.einsum("bik,bjk->bij", a, moved) + c
        np.testing.assert_array_equal(gathered(out, shape), want)


def test_undefined_elements_spread_along_rows_and_columns():
    """Storing a result of an element never written stops the launch."""
    registers = np.zeros((LANES, 128), np.uint32)
    with pytest.raises(device.HipError):
        run(
            "v_mfma_f32_16x16x16_f16",
            registers,
            "v[64:67], v[110:111], v[16:17], 0",
            "gfx950",
        )
