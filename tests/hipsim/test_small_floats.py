"""Conversions from and to floats of 8 and 4 bits against tables of their values."""

import functools

import numpy as np
import pytest

from tests.hipsim.instruction_case import LANES, WAVES, Listings, same
from tests.hipsim.test_matrix import small_values

COUNT = WAVES * LANES
BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
WIDE = {"f32": np.float32, "f16": np.float16, "bf16": np.float32}


def table(kind: str, target: str) -> np.ndarray:
    """All values of a format on a chip."""
    fnuz = target == "gfx942" and BITS[kind] == 8
    return small_values(f"{kind} fnuz" if fnuz else kind)


def encode(values: np.ndarray, kind: str, target: str) -> np.ndarray:
    """Nearest value, ties to the even pattern; nearer to the next one: overflow."""
    numbers = table(kind, target)
    half = len(numbers) // 2
    finite = np.flatnonzero(np.isfinite(numbers[:half]))
    grid = numbers[finite]
    out = []
    for x in values.astype(np.float64):
        sign = half if np.signbit(x) else 0
        if np.isnan(x):
            out.append(-1)
            continue
        step = grid[-1] - grid[-2]
        edge = grid[-1] + step / 2
        if abs(x) > edge or (abs(x) == edge and finite[-1] % 2):
            if BITS[kind] < 8:
                out.append(sign | int(finite[-1]))
            else:
                infinite = kind == "bf8" and target == "gfx950"
                out.append(sign | int(finite[-1]) + 1 if infinite else -1)
            continue
        distance = np.abs(grid - abs(x))
        near = np.flatnonzero(distance == distance.min())
        pick = near[0] if len(near) == 1 else near[near % 2 == 0][0]
        zero = target == "gfx942" and pick == 0 and BITS[kind] == 8
        out.append(0 if zero else sign | int(finite[pick]))
    return np.array(out)


def patterns_agree(
    got: np.ndarray, want: np.ndarray, kind: str, target: str
) -> np.ndarray:
    """Equal patterns; -1 wants a NaN, or of the smallest formats the largest number."""
    numbers = table(kind, target)
    largest = (len(numbers) // 2) - 1
    nan = np.isnan(numbers[got]) if BITS[kind] == 8 else (got & largest) == largest
    return np.where(want == -1, nan, got == want)


def numbers_drawn(rng) -> np.ndarray:
    """Numbers of all magnitudes that the formats have, and special ones."""
    x = rng.normal(0, 1, COUNT) * 2.0 ** rng.integers(-18, 19, COUNT)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        448,
        464,
        465,
        240,
        248,
        57344,
        61440,
    ]
    special += [6.0, 5.0, 0.25, 0.75, 7.5, 28, -1.75, 2.0**-9, 2.0**-10, 1.5 * 2**-10]
    return np.where(rng.integers(0, 3, COUNT) == 0, rng.choice(special, COUNT), x)


def as_bits(x: np.ndarray, wide: str) -> np.ndarray:
    """Bits of numbers in a wide type, and the numbers that they are."""
    with np.errstate(all="ignore"):
        if wide == "f16":
            half = x.astype(np.float16)
            return half.view(np.uint16).astype(np.uint32), half.astype(np.float64)
        bits = x.astype(np.float32).view(np.uint32)
        if wide == "bf16":
            bits = bits & np.uint32(0xFFFF0000)
            return bits >> np.uint32(16), bits.view(np.float32).astype(np.float64)
        return bits, bits.view(np.float32).astype(np.float64)


LISTINGS = {
    "gfx942": [
        f"v_cvt_pk_{k}_f32 v10, v4, v6{s}"
        for k in ("fp8", "bf8")
        for s in ("", " op_sel:[0,0,1]")
    ]
    + [f"v_cvt_sr_{k}_f32 v10, v4, v8 op_sel:[0,0,1,1]" for k in ("fp8", "bf8")]
    + [f"v_cvt_f32_{k}_sdwa v10, v4 src0_sel:BYTE_2" for k in ("fp8", "bf8")]
    + [f"v_cvt_f32_{k} v10, v4" for k in ("fp8", "bf8")]
    + [f"v_cvt_pk_f32_{k}_sdwa v[10:11], v4 src0_sel:WORD_1" for k in ("fp8", "bf8")]
}
SCALED = [
    f"v_cvt_scalef32_pk_{kind}_{wide} v10, "
    f"{'v4, v6, v8' if wide == 'f32' else 'v4, v8'}{select}"
    for kind, select in (("fp8", " op_sel:{}"), ("bf8", ""), ("fp4", ""))
    for wide in WIDE
]
SCALED = [
    text.format("[0,0,0,1]" if "_f32" in text.split()[0] else "[0,0,1]")
    for text in SCALED
]
FROM = [
    f"v_cvt_scalef32_pk_{wide}_{kind} {'v[10:11]' if wide == 'f32' else 'v10'}, v4, v8"
    for kind in ("fp8", "bf8", "fp4")
    for wide in WIDE
]
LISTINGS["gfx950"] = LISTINGS["gfx942"] + SCALED + FROM


@functools.cache
def listings(target: str) -> Listings:
    """All listings of a chip, assembled."""
    built = Listings(target)
    for text in LISTINGS[target]:
        built.add(text)
    built.assemble()
    return built


def name_parts(text: str) -> tuple[str, str]:
    """Small and wide type that a listing names."""
    name = text.split()[0]
    small = next(k for k in BITS if f"_{k}" in name)
    wide = "bf16" if "bf16" in name else "f16" if "_f16" in name else "f32"
    return small, wide


def check_from(text: str, target: str) -> None:
    """Small to wide."""
    rng = np.random.default_rng(5)
    small, wide = name_parts(text)
    records = rng.integers(0, 2**32, (COUNT, 8), np.uint32)
    exponent = rng.integers(120, 135, COUNT).astype(np.uint32)
    records[:, 4] = exponent << np.uint32(23) | np.uint32(0x123)
    scaled = "scale" in text
    factor = 2.0 ** (exponent - 127.0) if scaled else np.ones(COUNT)
    shift = 16 if "BYTE_2" in text or "WORD_1" in text else 0
    count = 2 if "pk_" in text else 1
    out = listings(target).run(text, records).vector
    for v in range(count):
        at = np.uint32(shift + BITS[small] * v)
        pattern = records[:, 0] >> at & np.uint32((1 << BITS[small]) - 1)
        want = table(small, target)[pattern] * factor
        if wide == "f32":
            got = np.ascontiguousarray(out[:, v]).view(np.float32)
        else:
            bits = (out[:, 0] >> np.uint32(16 * v) & np.uint32(0xFFFF)).astype(
                np.uint32
            )
            if wide == "f16":
                got = bits.astype(np.uint16).view(np.float16)
            else:
                got = (bits << np.uint32(16)).view(np.float32)
        with np.errstate(over="ignore"):
            assert same(got, want).all(), (text, v)


def check_pair(text: str, target: str) -> None:
    """Two wide numbers to a pair of small ones, the rest of the register kept."""
    rng = np.random.default_rng(6)
    small, wide = name_parts(text)
    records = rng.integers(0, 2**32, (COUNT, 8), np.uint32)
    exponent = rng.integers(124, 131, COUNT).astype(np.uint32)
    records[:, 4] = exponent << np.uint32(23)
    factor = 2.0 ** (exponent - 127.0) if "scale" in text else np.ones(COUNT)
    bits = [as_bits(numbers_drawn(rng), wide) for _ in range(2)]
    if wide == "f32":
        records[:, 0], records[:, 2] = bits[0][0], bits[1][0]
    else:
        records[:, 0] = bits[0][0] | bits[1][0] << np.uint32(16)
    out = listings(target).run(text, records).vector[:, 0]
    width = BITS[small]
    start = 16 if "1]" in text else 0
    for v in range(2):
        got = out >> np.uint32(start + width * v) & np.uint32((1 << width) - 1)
        want = encode(bits[v][1] / factor, small, target)
        assert patterns_agree(got, want, small, target).all(), (text, v)
    mask = np.uint32(((1 << 2 * width) - 1) << start)
    assert ((out ^ records[:, 6]) & ~mask == 0).all(), text


def check_stochastic(text: str, target: str) -> None:
    """One number, rounded to either neighbour; without random bits, toward zero."""
    rng = np.random.default_rng(7)
    small, _ = name_parts(text)
    records = rng.integers(0, 2**32, (COUNT, 8), np.uint32)
    x = rng.normal(0, 4, COUNT).astype(np.float32)
    records[:, 0] = x.view(np.uint32)
    out = listings(target).run(text, records).vector[:, 0]
    numbers = table(small, target)
    got = numbers[out >> np.uint32(24)]
    grid = np.unique(numbers[np.isfinite(numbers)])
    place = np.searchsorted(grid, x.astype(np.float64))
    low, high = grid[place - 1], grid[place]
    assert ((got == low) | (got == high)).all(), text
    assert ((out ^ records[:, 6]) & np.uint32(0xFFFFFF) == 0).all(), text
    records[:, 4] = 0
    out = listings(target).run(text, records).vector[:, 0]
    got = numbers[out >> np.uint32(24)]
    assert (got == np.where(x < 0, high, low)).all(), text


@pytest.mark.parametrize(
    ("text", "target"),
    [(text, target) for target, all_ in LISTINGS.items() for text in all_],
)
def test_conversion(text, target):
    name = text.split()[0]
    if "_sr_" in name:
        check_stochastic(text, target)
    elif name.endswith(("_f32", "_f16", "_bf16")):
        check_pair(text, target)
    else:
        check_from(text, target)
