"""Every scalar and vector instruction against a model in numpy.

The models are written from the definitions in AMD's instruction set guides.
"""

import functools

import numpy as np
import pytest

from tests.hipsim.instruction_case import (
    LANES,
    MASK,
    WAVES,
    Listings,
    draw,
    pair,
    same,
    typed,
)

COUNT = WAVES * LANES
LANE = np.arange(COUNT) % LANES
BIT = np.array([MASK >> int(lane) & 1 for lane in LANE], bool)
TARGETS = ["gfx942", "gfx950"]
f32, f16, f64 = np.float32, np.float16, np.float64
u32, i32, u64, i64 = np.uint32, np.int32, np.uint64, np.int64

# ---- Models: name -> (destination and source types, function, tolerance in ulps)

MODELS: dict[str, tuple[str, object, int]] = {}


def add(spec: str, names: str, function, ulps: int = 0) -> None:
    """Adds a model under the names of its instructions."""
    for name in names.split():
        MODELS[name] = (spec, function, ulps)


def wide(*values):
    """f64 copies."""
    return [np.asarray(x, f64) for x in values]


def fma(a, b, c):
    """a * b + c, rounded by the type it is stored in."""
    a, b, c = (np.asarray(x, np.longdouble) for x in (a, b, c))
    return a * b + c


def minimum(a, b):
    """The smaller number; -0 is below +0 and NaN loses."""
    zero = (a == 0) & (b == 0)
    least = np.where(zero & np.signbit(a), a, np.where(zero, b, np.fmin(a, b)))
    return least


def maximum(a, b):
    """The larger number."""
    return -minimum(-a, -b)


def median(a, b, c):
    """The middle number; with a NaN, the least."""
    bad = np.isnan(a) | np.isnan(b) | np.isnan(c)
    top = maximum(maximum(a, b), c)
    rest = np.where(top == b, maximum(a, c), maximum(a, b))
    rest = np.where(top == a, maximum(b, c), rest)
    return np.where(bad, minimum(minimum(a, b), c), rest)


def nanmin(a, b):
    """The smaller number; NaN wins."""
    return np.where(np.isnan(a) | np.isnan(b), np.nan, minimum(a, b))


def nanmax(a, b):
    """The larger number; NaN wins."""
    return np.where(np.isnan(a) | np.isnan(b), np.nan, maximum(a, b))


def to_int(x, dtype):
    """Truncates and saturates; NaN gives 0."""
    info = np.iinfo(dtype)
    x = np.where(np.isnan(x), 0, np.trunc(x.astype(f64)))
    big = x >= float(info.max)
    return np.where(
        big, info.max, np.maximum(np.where(big, 0, x), info.min).astype(i64)
    )


def no_denormals(function):
    """f32 denormals of a transcendental's source and result are zero."""

    def flushed(x):
        tiny = np.finfo(f32).tiny
        x = np.where(np.abs(x) < tiny, np.copysign(0, x), x).astype(f64)
        y = np.asarray(function(x), f64)
        return np.where(np.abs(y) < tiny, np.copysign(0, y), y)

    return flushed


def turn(function):
    """sin or cos of turns."""

    def model(x):
        x = x.astype(f64)
        inside = np.where(np.abs(x) > 256, 0, x - np.floor(x))
        return np.where(np.isfinite(x), function(2 * np.pi * inside), np.nan)

    return model


def frexp_exponent(x):
    """Exponent of a fraction in [0.5, 1); 0 for zero, infinity and NaN."""
    finite = np.isfinite(x)
    return np.where(finite, np.frexp(np.where(finite, x, 0))[1], 0)


def frexp_mantissa(x):
    """The fraction in [0.5, 1)."""
    finite = np.isfinite(x)
    return np.where(finite, np.frexp(np.where(finite, x, 0))[0], x)


def fraction(x, limit):
    """x - floor(x), below 1."""
    return np.where(np.isinf(x), np.nan, np.minimum(x - np.floor(x), limit))


def scale(x, e):
    """x times two to the e."""
    e = np.clip(e.astype(i64), -5000, 5000)
    return np.ldexp(x.astype(np.longdouble), e.astype(i32))


for letter, t in (("f32", "f"), ("f16", "h"), ("f64", "d")):
    real = {"f": f32, "h": f16, "d": f64}[t]
    one = np.nextafter(real(1), real(0))
    add(f"{t} {t}{t}", f"v_add_{letter}", lambda a, b: np.add(*wide(a, b)))
    add(f"{t} {t}{t}", f"v_mul_{letter}", lambda a, b: np.multiply(*wide(a, b)))
    add(f"{t} {t}{t}", f"v_min_{letter}", minimum)
    add(f"{t} {t}{t}", f"v_max_{letter}", maximum)
    add(f"{t} {t}{t}{t}", f"v_fma_{letter}", fma, 1)
    add(f"{t} {t}", f"v_trunc_{letter}", np.trunc)
    add(f"{t} {t}", f"v_ceil_{letter}", np.ceil)
    add(f"{t} {t}", f"v_floor_{letter}", np.floor)
    add(f"{t} {t}", f"v_rndne_{letter}", np.rint)
    add(f"{t} {t}", f"v_fract_{letter}", functools.partial(fraction, limit=one))
    add(f"{t} {t}", f"v_frexp_mant_{letter}", frexp_mantissa)
for letter, t in (("f32", "f"), ("f16", "h")):
    add(f"{t} {t}{t}", f"v_sub_{letter}", lambda a, b: np.subtract(*wide(a, b)))
    add(f"{t} {t}{t}", f"v_subrev_{letter}", lambda a, b: np.subtract(*wide(b, a)))
    add(f"{t} {t}{t}{t}", f"v_min3_{letter}", lambda a, b, c: minimum(minimum(a, b), c))
    add(f"{t} {t}{t}{t}", f"v_max3_{letter}", lambda a, b, c: maximum(maximum(a, b), c))
    add(f"{t} {t}{t}{t}", f"v_med3_{letter}", median)
add("f fff", "v_minimum3_f32", lambda a, b, c: nanmin(nanmin(a, b), c))
add("f fff", "v_maximum3_f32", lambda a, b, c: nanmax(nanmax(a, b), c))
add("h hhh", "v_mad_f16 v_mad_legacy_f16 v_fma_legacy_f16", fma, 1)
add("h hh+", "v_mac_f16", fma, 1)
add("f ff+", "v_fmac_f32", fma, 1)
add("d dd+", "v_fmac_f64", fma, 1)
add("f ff", "v_mul_legacy_f32", lambda a, b: np.where((a == 0) | (b == 0), 0, a * b))
add("f fi", "v_ldexp_f32", scale)
add("d di", "v_ldexp_f64", scale)
add("h hs", "v_ldexp_f16", scale)
add("i f", "v_frexp_exp_i32_f32", frexp_exponent)
add("i d", "v_frexp_exp_i32_f64", frexp_exponent)
add("s h", "v_frexp_exp_i16_f16", frexp_exponent)
add("f f", "v_exp_f32 v_exp_legacy_f32", no_denormals(np.exp2), 1)
add("f f", "v_log_f32 v_log_legacy_f32", no_denormals(np.log2), 1)
add("f f", "v_rcp_f32 v_rcp_iflag_f32", no_denormals(lambda x: 1 / x), 1)
add("f f", "v_rsq_f32", no_denormals(lambda x: 1 / np.sqrt(x)), 1)
add("f f", "v_sqrt_f32", no_denormals(np.sqrt), 1)
add("f f", "v_sin_f32", no_denormals(turn(np.sin)), 2)
add("f f", "v_cos_f32", no_denormals(turn(np.cos)), 2)
add("h h", "v_exp_f16", lambda x: np.exp2(x.astype(f64)), 1)
add("h h", "v_log_f16", lambda x: np.log2(x.astype(f64)), 1)
add("h h", "v_rcp_f16", lambda x: 1 / x.astype(f64), 1)
add("h h", "v_rsq_f16", lambda x: 1 / np.sqrt(x.astype(f64)), 1)
add("h h", "v_sqrt_f16", lambda x: np.sqrt(x.astype(f64)), 1)
add("h h", "v_sin_f16", turn(np.sin), 2)
add("h h", "v_cos_f16", turn(np.cos), 2)
add("d d", "v_rcp_f64", lambda x: 1 / x, 1)
add("d d", "v_rsq_f64", lambda x: 1 / np.sqrt(x), 2)
add("d d", "v_sqrt_f64", np.sqrt, 1)

# ---- Conversions

add("f i", "v_cvt_f32_i32", lambda x: x.astype(f64))
add("f u", "v_cvt_f32_u32", lambda x: x.astype(f64))
add("i f", "v_cvt_i32_f32", lambda x: to_int(x, i32))
add("u f", "v_cvt_u32_f32", lambda x: to_int(x, u32))
add("i f", "v_cvt_rpi_i32_f32", lambda x: to_int(np.floor(x.astype(f64) + 0.5), i32))
add("i f", "v_cvt_flr_i32_f32", lambda x: to_int(np.floor(x), i32))
add(
    "f u", "v_cvt_off_f32_i4", lambda x: ((x & 15) - 16 * (x >> 3 & 1).astype(i64)) / 16
)
for byte in range(4):
    add(
        "f u",
        f"v_cvt_f32_ubyte{byte}",
        lambda x, byte=byte: (x >> u32(8 * byte) & 255).astype(f64),
    )
add("d i", "v_cvt_f64_i32", lambda x: x.astype(f64))
add("d u", "v_cvt_f64_u32", lambda x: x.astype(f64))
add("i d", "v_cvt_i32_f64", lambda x: to_int(x, i32))
add("u d", "v_cvt_u32_f64", lambda x: to_int(x, u32))
add("f d", "v_cvt_f32_f64", lambda x: x)
add("d f", "v_cvt_f64_f32", lambda x: x)
add("h f", "v_cvt_f16_f32", lambda x: x)
add("f h", "v_cvt_f32_f16", lambda x: x)
add("f y", "v_cvt_f32_bf16", lambda x: x)
add("h t", "v_cvt_f16_u16", lambda x: x.astype(f64))
add("h s", "v_cvt_f16_i16", lambda x: x.astype(f64))
add("t h", "v_cvt_u16_f16", lambda x: to_int(x, np.uint16))
add("s h", "v_cvt_i16_f16", lambda x: to_int(x, np.int16))


def normalized(x, low, factor):
    """round(clamp(x) * factor), NaN 0."""
    x = np.clip(np.where(np.isnan(x), 0, x.astype(f64)), low, 1)
    return np.rint(x * factor).astype(i64)


def two(function):
    """Packs two 16-bit results."""

    def model(a, b):
        low, high = (function(x).astype(i64) & 0xFFFF for x in (a, b))
        return (low | high << 16).astype(u32)

    return model


def bf16_bits(x):
    """Bits of bfloat16, rounded to nearest even."""
    bits = x.view(u32).astype(u64)
    rounded = (bits + 0x7FFF + (bits >> u64(16) & u64(1))) >> u64(16)
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(i64)


def toward_zero(x):
    """Bits of f16, rounded toward zero."""
    near = x.astype(f16)
    over = np.abs(near.astype(f64)) > np.abs(x.astype(f64))
    return np.where(over, np.nextafter(near, f16(0)), near).view(np.uint16).astype(i64)


def half(x):
    """Bits of f16."""
    return x.astype(f16).view(np.uint16).astype(i64)


add("s h", "v_cvt_norm_i16_f16", lambda x: normalized(x, -1, 32767))
add("t h", "v_cvt_norm_u16_f16", lambda x: normalized(x, 0, 65535))
for t in ("f", "h"):
    name = "f32" if t == "f" else "f16"
    add(
        f"u {t}{t}", f"v_cvt_pknorm_i16_{name}", two(lambda x: normalized(x, -1, 32767))
    )
    add(f"u {t}{t}", f"v_cvt_pknorm_u16_{name}", two(lambda x: normalized(x, 0, 65535)))
add("Y ff", "v_cvt_pk_bf16_f32", two(bf16_bits))
add("H ff", "v_cvt_pk_f16_f32", two(half))
add("H ff", "v_cvt_pkrtz_f16_f32", two(toward_zero))
add("u uu", "v_cvt_pk_u16_u32", two(lambda x: np.minimum(x, 65535)))
add("u ii", "v_cvt_pk_i16_i32", two(lambda x: np.clip(x, -32768, 32767)))


def put_byte(x, byte, old):
    """Replaces one byte by the number."""
    shift = (8 * (byte & 3)).astype(i64)
    value = np.clip(to_int(np.rint(x), i32), 0, 255)
    return (old.astype(i64) & ~(255 << shift)) | value << shift


add("u fuu", "v_cvt_pk_u8_f32", put_byte)
add("u fu+", "v_cvt_pkaccum_u8_f32", put_byte)

# ---- Bits and integers


def shifted(function):
    """Shift amounts count modulo the width."""
    return lambda a, b: function(b, (a % (8 * b.dtype.itemsize)).astype(b.dtype))


def bit_list(x):
    """(lanes, 32) bits."""
    return x[:, None] >> np.arange(32, dtype=u32) & 1


def first_one(x, reverse):
    """Place of the first set bit, or -1."""
    bits = bit_list(x)[:, ::-1] if reverse else bit_list(x)
    return np.where(x == 0, -1, np.argmax(bits, axis=1))


def permute(a, b, s):
    """v_perm_b32."""
    data = pair(b, a)
    result = np.zeros_like(a)
    for i in range(4):
        select = s >> u32(8 * i) & u32(255)
        plain = data >> (select % 8 * 8).astype(u64) & u64(255)
        sign = data >> (16 * (select % 4) + 15).astype(u64) & u64(1)
        byte = np.where(select < 8, plain, np.where(select < 12, 255 * sign, 0))
        result |= np.where(select > 12, 255, byte).astype(u32) << u32(8 * i)
    return result


def each_byte(function):
    """Applies a function to the bytes of the sources, as (4, lanes) integers."""

    def model(*sources):
        return function(
            *[
                np.stack([x >> u32(8 * i) & 255 for i in range(4)]).astype(i64)
                for x in sources
            ]
        )

    return model


def absolute_sum(a, b, masked=False):
    """Sum of absolute differences of bytes."""

    def total(x, y):
        return (np.abs(x - y) * (y != 0 if masked else 1)).sum(axis=0)

    return each_byte(total)(a, b)


def lerp(a, b, c):
    """Average of bytes, rounded up where c's byte is odd."""
    average = each_byte(lambda x, y, z: (x + y + z % 2) >> 1)(a, b, c)
    return sum(average[i] << 8 * i for i in range(4))


def lanes_below(high):
    """v_mbcnt."""

    def model(mask, base):
        below = np.array([(1 << int(lane)) - 1 >> (32 if high else 0) for lane in LANE])
        ones = bit_list(mask & (below & 0xFFFFFFFF).astype(u32)).sum(axis=1)
        return base.astype(i64) + ones

    return model


def signed24(x):
    """Bits 0 to 23 as a signed integer."""
    return ((x.astype(i64) & 0xFFFFFF) ^ 0x800000) - 0x800000


def bfe(x, offset, width):
    """A bit field of x."""
    offset, width = (v.astype(i64) & 31 for v in (offset, width))
    field = (x.astype(i64) >> offset) & ((1 << width) - 1)
    if x.dtype.kind == "i":
        top = np.where(width > 0, 1 << np.maximum(width - 1, 0), 0)
        field = (field ^ top) - top
    return field


def big(*values):
    """Exact integers."""
    return [x.astype(object) for x in values]


add("u u", "v_mov_b32 v_accvgpr_mov_b32", lambda x: x)
add("l l", "v_mov_b64", lambda x: x)
add("u u", "v_not_b32", lambda x: ~x)
add(
    "u u",
    "v_bfrev_b32",
    lambda x: (bit_list(x)[:, ::-1] << np.arange(32, dtype=u32)).sum(axis=1),
)
add("i u", "v_ffbh_u32", lambda x: first_one(x, True))
add("i u", "v_ffbl_b32", lambda x: first_one(x, False))
add("i i", "v_ffbh_i32", lambda x: first_one(np.where(x < 0, ~x, x).view(u32), True))
add("u uu", "v_and_b32", lambda a, b: a & b)
add("u uu", "v_or_b32", lambda a, b: a | b)
add("u uu", "v_xor_b32", lambda a, b: a ^ b)
add("u uu", "v_xnor_b32", lambda a, b: ~(a ^ b))
add("u uuu", "v_and_or_b32", lambda a, b, c: a & b | c)
add("u uuu", "v_or3_b32", lambda a, b, c: a | b | c)
add("u uu", "v_lshlrev_b32", shifted(np.left_shift))
add("u uu", "v_lshrrev_b32", shifted(np.right_shift))
add("i ui", "v_ashrrev_i32", shifted(np.right_shift))
add("l ul", "v_lshlrev_b64", shifted(np.left_shift))
add("l ul", "v_lshrrev_b64", shifted(np.right_shift))
add("j uj", "v_ashrrev_i64", shifted(np.right_shift))
add("t tt", "v_lshlrev_b16", shifted(np.left_shift))
add("t tt", "v_lshrrev_b16", shifted(np.right_shift))
add("s ts", "v_ashrrev_i16", shifted(np.right_shift))
add("u uuu", "v_lshl_or_b32", lambda a, b, c: a << b % u32(32) | c)
add(
    "u uu",
    "v_bfm_b32",
    lambda a, b: ((1 << (a & 31).astype(i64)) - 1) << (b & 31).astype(i64),
)
add("u uuu", "v_bfi_b32", lambda a, b, c: a & b | ~a & c)
add("u uuu", "v_bfe_u32", bfe)
add("i iuu", "v_bfe_i32", bfe)
add("u uuu", "v_alignbit_b32", lambda a, b, c: pair(b, a) >> (c % 32).astype(u64))
add("u uuu", "v_alignbyte_b32", lambda a, b, c: pair(b, a) >> (c % 4 * 8).astype(u64))
add("u uuu", "v_perm_b32", permute)
add("u uu", "v_bcnt_u32_b32", lambda a, b: bit_list(a).sum(axis=1) + b.astype(i64))
add("u uu", "v_mbcnt_lo_u32_b32", lanes_below(False))
add("u uu", "v_mbcnt_hi_u32_b32", lanes_below(True))
add("u tt", "v_pack_b32_f16", lambda a, b: a.astype(u32) | b.astype(u32) << u32(16))
add(
    "u u",
    "v_prng_b32",
    lambda x: (x << u32(1)) ^ np.where(x >> u32(31), 197, 0).astype(u32),
)
add(
    "u q",
    "v_sat_pk_u8_i16",
    lambda x: (np.clip(x.view(np.int16).astype(i64), 0, 255) << [0, 8]).sum(axis=1),
)
for name, low, high in (("i8", -128, 127), ("u8", 0, 255)):
    add(
        "t iiu",
        f"v_ashr_pk_{name}_i32",
        lambda a, b, c, low=low, high=high: sum(
            (np.clip(x.astype(i64) >> (c % 32), low, high) & 255) << shift
            for x, shift in ((a, 0), (b, 8))
        ),
    )

SATURATE = {"i": (-(2**31), 2**31 - 1), "u": (0, 2**32 - 1)}
SATURATE |= {"s": (-(2**15), 2**15 - 1), "t": (0, 2**16 - 1)}
for suffix, t in (("u32", "u"), ("u16", "t")):
    add(f"{t} {t}{t}", f"v_add_{suffix}", lambda a, b: np.add(*big(a, b)))
    add(f"{t} {t}{t}", f"v_sub_{suffix}", lambda a, b: np.subtract(*big(a, b)))
    add(f"{t} {t}{t}", f"v_subrev_{suffix}", lambda a, b: np.subtract(*big(b, a)))
for suffix, t in (("i32", "i"), ("i16", "s")):
    add(f"{t} {t}{t}", f"v_add_{suffix}", lambda a, b: np.add(*big(a, b)))
    add(f"{t} {t}{t}", f"v_sub_{suffix}", lambda a, b: np.subtract(*big(a, b)))
for suffix, t in (("u32", "u"), ("i32", "i"), ("u16", "t"), ("i16", "s")):
    add(f"{t} {t}{t}", f"v_min_{suffix}", np.minimum)
    add(f"{t} {t}{t}", f"v_max_{suffix}", np.maximum)
    add(f"{t} {t}{t}{t}", f"v_min3_{suffix}", lambda *x: np.min(x, axis=0))
    add(f"{t} {t}{t}{t}", f"v_max3_{suffix}", lambda *x: np.max(x, axis=0))
    add(
        f"{t} {t}{t}{t}", f"v_med3_{suffix}", lambda *x: np.sort(np.stack(x), axis=0)[1]
    )
add("u uuu", "v_add3_u32", lambda a, b, c: a + b + c)
add("u uuu", "v_lshl_add_u32", lambda a, b, c: (a << b % u32(32)) + c)
add("u uuu", "v_add_lshl_u32", lambda a, b, c: (a + b) << c % u32(32))
add("l lul", "v_lshl_add_u64", lambda a, b, c: (a << (b % 8).astype(u64)) + c)
add("u uuu", "v_xad_u32", lambda a, b, c: (a ^ b) + c)
add("u uuu", "v_sad_u8", lambda a, b, c: absolute_sum(a, b) + c.astype(object))
add("u uuu", "v_msad_u8", lambda a, b, c: absolute_sum(a, b, True) + c.astype(object))
add(
    "u uuu",
    "v_sad_hi_u8",
    lambda a, b, c: (absolute_sum(a, b) << 16) + c.astype(object),
)
add(
    "u uuu",
    "v_sad_u16",
    lambda a, b, c: (
        sum(
            np.abs((a >> u32(s) & 0xFFFF).astype(i64) - (b >> u32(s) & 0xFFFF))
            for s in (0, 16)
        )
        + c.astype(object)
    ),
)
add(
    "u uuu",
    "v_sad_u32",
    lambda a, b, c: np.abs(np.subtract(*big(a, b))) + c.astype(object),
)
add("u uuu", "v_lerp_u8", lerp)
add("u uu", "v_mul_lo_u32", lambda a, b: a * b)
add("u uu", "v_mul_hi_u32", lambda a, b: np.multiply(*big(a, b)) >> 32)
add("i ii", "v_mul_hi_i32", lambda a, b: np.multiply(*big(a, b)) >> 32)
add("i ii", "v_mul_i32_i24", lambda a, b: signed24(a) * signed24(b))
add("i ii", "v_mul_hi_i32_i24", lambda a, b: signed24(a) * signed24(b) >> 32)
add("u uu", "v_mul_u32_u24", lambda a, b: np.multiply(*big(a & 0xFFFFFF, b & 0xFFFFFF)))
add(
    "u uu",
    "v_mul_hi_u32_u24",
    lambda a, b: np.multiply(*big(a & 0xFFFFFF, b & 0xFFFFFF)) >> 32,
)
add("i iii", "v_mad_i32_i24", lambda a, b, c: signed24(a) * signed24(b) + c)
add(
    "u uuu",
    "v_mad_u32_u24",
    lambda a, b, c: np.multiply(*big(a & 0xFFFFFF, b & 0xFFFFFF)) + c.astype(object),
)


def multiply_add(a, b, c):
    """Exact a * b + c."""
    a, b, c = big(a, b, c)
    return a * b + c


add("u ttu", "v_mad_u32_u16", multiply_add)
add("i ssi", "v_mad_i32_i16", multiply_add)
add("t ttt", "v_mad_u16 v_mad_legacy_u16", multiply_add)
add("s sss", "v_mad_i16 v_mad_legacy_i16", multiply_add)
add("t tt", "v_mul_lo_u16", lambda a, b: np.multiply(*big(a, b)))

# ---- Packed and dot products


def halves(function, kind):
    """Applies a function to each half; clamped results saturate."""

    def model(*sources):
        columns = [np.stack([x[:, i] for i in (0, 1)]) for x in sources]
        return function(*[c.view(np.int16) if kind == "s" else c for c in columns]).T

    return model


PACKED16 = {
    "v_pk_fma_f16": ("ppp", fma, 1),
    "v_pk_add_f16": ("pp", lambda a, b: np.add(*wide(a, b)), 0),
    "v_pk_mul_f16": ("pp", lambda a, b: np.multiply(*wide(a, b)), 0),
    "v_pk_min_f16": ("pp", minimum, 0),
    "v_pk_max_f16": ("pp", maximum, 0),
    "v_pk_minimum3_f16": ("ppp", lambda a, b, c: nanmin(nanmin(a, b), c), 0),
    "v_pk_maximum3_f16": ("ppp", lambda a, b, c: nanmax(nanmax(a, b), c), 0),
    "v_pk_mad_i16": ("SSS", multiply_add, 0),
    "v_pk_mad_u16": ("qqq", multiply_add, 0),
    "v_pk_mul_lo_u16": ("qq", lambda a, b: np.multiply(*big(a, b)) & 0xFFFF, 0),
    "v_pk_add_i16": ("SS", lambda a, b: np.add(*big(a, b)), 0),
    "v_pk_sub_i16": ("SS", lambda a, b: np.subtract(*big(a, b)), 0),
    "v_pk_add_u16": ("qq", lambda a, b: np.add(*big(a, b)), 0),
    "v_pk_sub_u16": ("qq", lambda a, b: np.subtract(*big(a, b)), 0),
    "v_pk_lshlrev_b16": ("qq", shifted(np.left_shift), 0),
    "v_pk_lshrrev_b16": ("qq", shifted(np.right_shift), 0),
    "v_pk_ashrrev_i16": ("SS", lambda a, b: b >> (a & 15), 0),
    "v_pk_max_i16": ("SS", np.maximum, 0),
    "v_pk_min_i16": ("SS", np.minimum, 0),
    "v_pk_max_u16": ("qq", np.maximum, 0),
    "v_pk_min_u16": ("qq", np.minimum, 0),
    "v_pk_fma_f32": ("ggg", fma, 1),
    "v_pk_mul_f32": ("gg", lambda a, b: np.multiply(*wide(a, b)), 0),
    "v_pk_add_f32": ("gg", lambda a, b: np.add(*wide(a, b)), 0),
}


def fields(x, bits, signed):
    """(lanes, n) integers packed in a dword."""
    shifts = np.arange(0, 32, bits, dtype=u32)
    out = (x[:, None] >> shifts & ((1 << bits) - 1)).astype(i64)
    return np.where(out >> (bits - 1) & 1, out - (1 << bits), out) if signed else out


def dot(bits, signed):
    """Sum of products of packed integers."""
    return lambda a, b, c: (
        (fields(a, bits, signed) * fields(b, bits, signed)).sum(axis=1)
        + c.astype(object)
    )


for name, bits in (("2{}_{}32_{}16", 16), ("4{}_{}32_{}8", 8), ("8{}_{}32_{}4", 4)):
    add("i uui", "v_dot" + name.format("", "i", "i"), dot(bits, True))
    add("u uuu", "v_dot" + name.format("", "u", "u"), dot(bits, False))
    add("i uu+", "v_dot" + name.format("c", "i", "i"), dot(bits, True))


def real_dot(a, b, c):
    """Adds two products to a number, one after the other."""
    a, b = a.astype(f32), b.astype(f32)
    return (c + a[:, 0] * b[:, 0]) + a[:, 1] * b[:, 1]


def real_dot_last(a, b, c):
    """Adds a number to the sum of two products."""
    return (a[:, 0] * b[:, 0] + a[:, 1] * b[:, 1]) + c


add("f ppf", "v_dot2_f32_f16", real_dot)
add("f zzf", "v_dot2_f32_bf16", real_dot_last)
add("f pp+", "v_dot2c_f32_f16", real_dot)
add("f zz+", "v_dot2c_f32_bf16", real_dot)

# 16-bit results that leave the other half of the destination alone.
KEEP = set(
    "v_mad_f16 v_fma_f16 v_mad_u16 v_mad_i16 v_min3_f16 v_max3_f16 v_med3_f16 v_add_i16"
    " v_sub_i16 v_min3_u16 v_max3_u16 v_med3_u16 v_min3_i16 v_max3_i16 v_med3_i16"
    " v_div_fixup_f16 v_ashr_pk_i8_i32 v_ashr_pk_u8_i32".split()
)
ONLY_950 = set(
    "v_minimum3_f32 v_maximum3_f32 v_cvt_f32_bf16 v_cvt_pk_bf16_f32 v_cvt_pk_f16_f32"
    " v_prng_b32 v_ashr_pk_i8_i32 v_ashr_pk_u8_i32 v_pk_minimum3_f16 v_pk_maximum3_f16"
    " v_dot2_f32_bf16 v_dot2c_f32_bf16".split()
)
SHORT_ONLY = {"v_accvgpr_mov_b32"}

# ---- Cases: a listing and what it leaves


class Case:
    """One listing on one chip."""

    def __init__(self, name, listing, check, kinds="uuu", mode=0, targets=TARGETS):
        self.name, self.listing, self.check = name, listing, check
        self.kinds, self.mode, self.targets = kinds, mode, targets


CASES: list[Case] = []
WIDTH = dict.fromkeys("dljgm", 2)


def register(first: int, kind: str) -> str:
    """v4 or v[4:5]."""
    return f"v[{first}:{first + 1}]" if WIDTH.get(kind) else f"v{first}"


def saturated(values, kind):
    """Clamps exact integers to a type."""
    low, high = SATURATE[kind]
    return np.clip(values, low, high)


def stored(values, kind, old, keep=False, high=False, exec_mask=None):
    """What v[10:11] holds once a result is stored."""
    out = old.copy()
    with np.errstate(all="ignore"):
        if kind in "fhd":
            bits = np.asarray(values).astype({"f": f32, "h": f16, "d": f64}[kind])
            bits = bits.view({"f": u32, "h": np.uint16, "d": u64}[kind])
        else:
            size = 2**64 if kind in "lj" else 2**16 if kind in "st" else 2**32
            bits = np.array([int(v) % size for v in np.asarray(values)], u64)
    if kind in "hst":
        bits = bits.astype(u32)
        if high:
            out[:, 0] = (old[:, 0] & u32(0xFFFF)) | bits << u32(16)
        else:
            out[:, 0] = bits | (old[:, 0] & u32(0xFFFF0000) if keep else u32(0))
    elif kind in "dlj":
        out = bits.astype(u64).view(u32).reshape(-1, 2)
    else:
        out[:, 0] = bits.astype(u32)
    return out if exec_mask is None else np.where(exec_mask[:, None], out, old)


def agree(got, want, kind, ulps, old, high=False):
    """Compares v[10:11] as the type it holds."""
    if kind == "h":
        shift = u32(16 if high else 0)
        a, b = (
            (x[:, :1] >> shift & u32(0xFFFF)).astype(np.uint16) for x in (got, want)
        )
        rest = ~(u32(0xFFFF) << shift)
        ok = same(a.view(f16)[:, 0], b.view(f16)[:, 0], ulps)
        return ok & ((got[:, 0] ^ want[:, 0]) & rest == 0)
    if kind in "YH":
        a, b = (np.ascontiguousarray(x[:, 0]) for x in (got, want))
        nan = 0x7F80 if kind == "Y" else 0x7C00
        halves_of = lambda x: x.view(np.uint16).reshape(-1, 2)  # noqa: E731
        x, y = halves_of(a), halves_of(b)
        both = ((x & 0x7FFF) > nan) & ((y & 0x7FFF) > nan)
        return ((x == y) | both).all(axis=1)
    view = {"f": f32, "d": f64, "g": f32}.get(kind)
    if kind == "g":
        a, b = (np.ascontiguousarray(x).view(f32) for x in (got, want))
        return same(a[:, 0], b[:, 0], ulps) & same(a[:, 1], b[:, 1], ulps)
    if kind in "fd":
        n = WIDTH.get(kind, 1)
        a, b = (np.ascontiguousarray(x[:, :n]).view(view)[:, 0] for x in (got, want))
        return same(a, b, ulps)
    return (got == want).all(axis=1)


def change_sign(x, abs_, neg):
    """Applies modifiers to floats."""
    x = np.abs(x) if abs_ else x
    return -x if neg else x


def clamp(x):
    """To [0, 1]; NaN gives 0."""
    x = np.asarray(x)
    return np.where(x > 0, np.minimum(x, 1), 0)


def value_check(name, abs_=0, neg=0, clamped=False, omod=1.0, op_sel=0, exec_mask=None):
    """Checks v[10:11] against the model of an instruction."""
    spec, function, ulps = MODELS[name]
    dst, sources = spec.split()

    def check(records, registers):
        values = []
        for i, kind in enumerate(sources):
            place = 6 if kind == "+" else 2 * i
            kind = dst if kind == "+" else kind
            bits = records[:, place : place + 2].copy()
            if op_sel >> i & 1:
                bits[:, 0] >>= u32(16)
            x = typed(bits, kind)
            if kind in "fhd" and sources[i] != "+":
                x = change_sign(x, abs_ >> i & 1, neg >> i & 1)
            values.append(x)
        with np.errstate(all="ignore"):
            result = function(*values)
            if dst in "fhd":
                result = np.asarray(result, np.longdouble if dst == "d" else f64) * omod
                result = clamp(result) if clamped else result
            elif clamped:
                result = saturated(result, dst)
        old = records[:, 6:8]
        high = bool(op_sel & 8)
        want = stored(result, dst, old, name in KEEP or op_sel, high, exec_mask)
        return agree(registers.vector, want, dst, ulps, old, high), want

    return check


def operands(name: str, abs_=0, neg=0) -> str:
    """Destination and sources of a model's instruction."""
    dst, sources = MODELS[name][0].split()
    text = [register(10, dst)]
    if name == "v_accvgpr_mov_b32":
        return "a10, a4"
    for i, kind in enumerate(sources):
        if kind == "+":
            continue
        operand = register(4 + 2 * i, kind)
        operand = f"|{operand}|" if abs_ >> i & 1 else operand
        text.append(f"-{operand}" if neg >> i & 1 else operand)
    return ", ".join(text)


def where(name: str) -> list[str]:
    """Chips that have an instruction."""
    return ["gfx950"] if name in ONLY_950 else TARGETS


def kinds_of(name: str) -> str:
    """Types to draw for the sources."""
    return MODELS[name][0].split()[1].replace("+", "")


FLOAT_MODIFIED = {
    name
    for name, (spec, _, _) in MODELS.items()
    if set(spec.replace(" ", "")) <= set("fhd+")
    and "+" not in spec
    and not name.startswith(("v_cvt_pk", "v_dot"))
}
INTEGER_CLAMPED = (
    "v_add_u32 v_sub_u32 v_subrev_u32 v_add_i32 v_sub_i32 v_add_u16 v_sub_u16"
    " v_subrev_u16 v_add_i16 v_sub_i16 v_mad_i32_i24 v_mad_u32_u24 v_mad_u32_u16"
    " v_mad_i32_i16 v_mad_u16"
    " v_mad_i16 v_sad_u8 v_msad_u8 v_sad_hi_u8 v_sad_u16 v_sad_u32"
).split()
HALF_SELECTED = sorted(KEEP & set(MODELS) - {"v_ashr_pk_i8_i32", "v_ashr_pk_u8_i32"})


def simple_cases() -> None:
    """Every model: plain, then with what modifiers it can have."""
    for name in MODELS:
        listing, kinds, targets = (
            f"{name} {operands(name)}",
            kinds_of(name),
            where(name),
        )
        if name == "v_accvgpr_mov_b32":
            listing = (
                "v_accvgpr_write_b32 a4, v4\n s_nop 3\n v_accvgpr_mov_b32 a10, a4\n"
                " s_nop 3\n v_accvgpr_read_b32 v10, a10"
            )
        CASES.append(Case(name, listing, value_check(name), kinds, 0, targets))
        if name in FLOAT_MODIFIED:
            text = f"{name} {operands(name, 5, 3)}"
            CASES.append(Case(name, text, value_check(name, 5, 3), kinds, 0, targets))
            text = f"{name} {operands(name)} clamp"
            check = value_check(name, clamped=True)
            CASES.append(Case(name, text, check, kinds, 0, targets))
    for name in INTEGER_CLAMPED:
        text = f"{name} {operands(name)} clamp"
        CASES.append(Case(name, text, value_check(name, clamped=True), kinds_of(name)))
    for name in HALF_SELECTED:
        count = len(kinds_of(name))
        select = ",".join("101"[:count]) + ",1"
        text = f"{name} {operands(name)} op_sel:[{select}]"
        check = value_check(name, op_sel=(5 & ((1 << count) - 1)) | 8)
        CASES.append(Case(name, text, check, kinds_of(name)))
    mask = "s_mov_b64 exec, s[28:29]\n "
    for name in ("v_add_u32", "v_fma_f32", "v_add_f64", "v_mad_u16", "v_exp_f32"):
        check = value_check(name, exec_mask=BIT)
        CASES.append(
            Case(name, f"{mask}{name} {operands(name)}", check, kinds_of(name))
        )


simple_cases()


def packed_cases() -> None:
    """Packed instructions with selections and signs."""
    variants = [(0, 7, 0, 0, False), (5, 2, 0, 0, False), (2, 5, 3, 6, False)]
    for name, (kinds, function, ulps) in PACKED16.items():
        count, kind = len(kinds), kinds[0]
        real = kind in "pg"
        dst = "g" if kind == "g" else "u"
        for sel, hi, neg, neg_hi, _ in [*variants, (0, 7, 0, 0, True)]:
            clamped = _
            if clamped and ("shl" in name or "shr" in name or "mul_lo" in name):
                continue
            if clamped and ("max" in name or "min" in name) and not real:
                continue
            if not real:
                neg = neg_hi = 0

            def bits_list(x, count=count):
                return ",".join(str(x >> i & 1) for i in range(count))

            sources = ", ".join(
                register(4 + 2 * i, "g" if dst == "g" else "u") for i in range(count)
            )
            text = f"{name} {register(10, dst)}, {sources} op_sel:[{bits_list(sel)}]"
            text += f" op_sel_hi:[{bits_list(hi)}]"
            if neg:
                text += f" neg_lo:[{bits_list(neg)}] neg_hi:[{bits_list(neg_hi)}]"
            text += " clamp" if clamped else ""
            check = packed_check(kinds, function, ulps, sel, hi, neg, neg_hi, clamped)
            drawn = kinds.replace("S", "q")
            CASES.append(Case(name, text, check, drawn, 0, where(name)))


def packed_check(kinds, function, ulps, sel, hi, neg, neg_hi, clamped):
    """Checks both halves of a packed result."""
    kind = kinds[0]

    def check(records, registers):
        results = []
        for select, sign in ((sel, neg), (hi, neg_hi)):
            values = []
            for i in range(len(kinds)):
                x = typed(records[:, 2 * i : 2 * i + 2], kind.replace("S", "q"))
                x = x[:, select >> i & 1]
                x = x.view(np.int16) if kind == "S" else x
                values.append(-x if sign >> i & 1 else x)
            with np.errstate(all="ignore"):
                result = function(*[np.ascontiguousarray(v) for v in values])
                if clamped and kind in "pg":
                    result = clamp(result)
                elif clamped:
                    result = saturated(result, "s" if kind == "S" else "t")
                if kind in "pg":
                    result = np.asarray(result).astype(f16 if kind == "p" else f32)
                else:
                    result = np.array([int(v) & 0xFFFF for v in result], np.uint16)
            results.append(result)
        if kind == "g":
            want = np.stack([r.view(u32) for r in results], axis=1)
            return agree(registers.vector, want, "g", ulps, None), want
        want = np.stack([r.view(np.uint16) for r in results], axis=1)
        got = (
            np.ascontiguousarray(registers.vector[:, 0]).view(np.uint16).reshape(-1, 2)
        )
        if kind == "p":
            ok = [
                same(np.ascontiguousarray(got[:, i]).view(f16), results[i], ulps)
                for i in (0, 1)
            ]
            return ok[0] & ok[1], want
        return (got == want).all(axis=1), want

    return check


packed_cases()

# ---- Comparisons

CONDITIONS = {
    "f": lambda a, b: a != a & 0 if a.dtype.kind != "f" else np.zeros(a.shape, bool),
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
REAL_CONDITIONS = CONDITIONS | {
    "f": lambda a, b: np.zeros(a.shape, bool),
    "lg": lambda a, b: (a < b) | (a > b),
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: np.ones(a.shape, bool),
}
WHOLE_CONDITIONS = CONDITIONS | {
    "f": lambda a, b: np.zeros(a.shape, bool),
    "ne": np.not_equal,
    "t": lambda a, b: np.ones(a.shape, bool),
}


def class_of(bits: np.ndarray, kind: str) -> np.ndarray:
    """Number of the class that v_cmp_class tests."""
    width, mantissa = {"f": (32, 23), "h": (16, 10), "d": (64, 52)}[kind]
    out = []
    for x in bits:
        x = int(x)
        negative, low = x >> (width - 1), x & ((1 << mantissa) - 1)
        exponent = x >> mantissa & ((1 << (width - 1 - mantissa)) - 1)
        if exponent == (1 << (width - 1 - mantissa)) - 1:
            number = low >> (mantissa - 1) if low else (2 if negative else 9)
        elif exponent:
            number = 3 if negative else 8
        elif low:
            number = 4 if negative else 7
        else:
            number = 5 if negative else 6
        out.append(number)
    return np.array(out)


def masks(condition: np.ndarray, active=True) -> np.ndarray:
    """Lane masks of the waves."""
    lanes = (condition & active).reshape(WAVES, LANES)
    return np.array([sum(1 << int(i) for i in np.flatnonzero(w)) for w in lanes], u64)


def compare_check(function, kind, place, exec_too=False):
    """Checks a mask and the lanes that stay active."""

    def check(records, registers):
        a, b = (typed(records[:, 2 * i : 2 * i + 2], kind) for i in (0, 1))
        want = masks(function(a, b), BIT)
        got = getattr(registers, place)
        active = want if exec_too else np.full(WAVES, MASK, u64)
        return (got == want) & (registers.exec == active), want

    return check


def comparison_cases() -> None:
    """v_cmp and v_cmpx of every type and condition, under EXEC."""
    mask = "s_mov_b64 exec, s[28:29]\n "
    types = {"f32": "f", "f16": "h", "f64": "d", "i16": "s", "u16": "t", "i32": "i"}
    types |= {"u32": "u", "i64": "j", "u64": "l"}
    for suffix, kind in types.items():
        conditions = REAL_CONDITIONS if kind in "fhd" else WHOLE_CONDITIONS
        a, b = register(4, kind), register(6, kind)
        for condition, function in conditions.items():
            name = f"v_cmp_{condition}_{suffix}"
            check = compare_check(function, kind, "scalar")
            CASES.append(
                Case(name, f"{mask}{name} s[24:25], {a}, {b}", check, kind * 2)
            )
            name = f"v_cmpx_{condition}_{suffix}"
            check = compare_check(function, kind, "vcc", True)
            CASES.append(Case(name, f"{mask}{name} vcc, {a}, {b}", check, kind * 2))
    for suffix, kind in (("f32", "f"), ("f16", "h"), ("f64", "d")):
        name = f"v_cmp_class_{suffix}"

        def check(records, registers, kind=kind):
            bits = {"f": u32, "h": np.uint16, "d": u64}[kind]
            number = class_of(
                np.ascontiguousarray(records[:, :2]).view(bits)[:, 0], kind
            )
            want = masks((records[:, 2] >> number.astype(u32) & 1).astype(bool), BIT)
            return registers.scalar == want, want

        text = f"{mask}{name} s[24:25], {register(4, kind)}, v6"
        CASES.append(Case(name, text, check, kind + "u"))


comparison_cases()

# ---- Carries, selections, moves between lanes


def special_case(name, listing, kinds="uuu", targets=TARGETS, mode=0):
    """Adds a case whose check is the decorated function."""

    def wrap(check):
        CASES.append(Case(name, listing, check, kinds, mode, targets))
        return check

    return wrap


def carry_case(name, text, formula):
    """An addition or subtraction with a mask in, a mask out."""

    def check(records, registers):
        a, b = records[:, 0].astype(i64), records[:, 2].astype(i64)
        exact = formula(a, b, BIT.astype(i64))
        want = masks((exact < 0) | (exact >= 2**32))
        value = (
            (exact % 2**32 == registers.vector[:, 0]).reshape(WAVES, LANES).all(axis=1)
        )
        return value & (registers.scalar == want), want

    CASES.append(Case(name, text, check))


carry_case("v_add_co_u32", "v_add_co_u32 v10, s[24:25], v4, v6", lambda a, b, c: a + b)
carry_case("v_sub_co_u32", "v_sub_co_u32 v10, s[24:25], v4, v6", lambda a, b, c: a - b)
carry_case(
    "v_subrev_co_u32", "v_subrev_co_u32 v10, s[24:25], v4, v6", lambda a, b, c: b - a
)
for _name, _formula in (
    ("v_addc_co_u32", lambda a, b, c: a + b + c),
    ("v_subb_co_u32", lambda a, b, c: a - b - c),
    ("v_subbrev_co_u32", lambda a, b, c: b - a - c),
):
    carry_case(_name, f"{_name} v10, s[24:25], v4, v6, s[28:29]", _formula)
    carry_case(
        _name, f"{_name} v10, vcc, v4, v6, vcc\n s_mov_b64 s[24:25], vcc", _formula
    )


def mad64_check(signed):
    """64-bit products and sums, with the carry."""

    def check(records, registers):
        kind = i32 if signed else u32
        a, b = (records[:, 2 * i].view(kind).astype(object) for i in (0, 1))
        c = (
            pair(records[:, 4], records[:, 5])
            .view(i64 if signed else u64)
            .astype(object)
        )
        exact = a * b + c
        got = pair(registers.vector[:, 0], registers.vector[:, 1]).astype(object)
        low, high = (-(2**63), 2**63) if signed else (0, 2**64)
        want = masks(np.array([(x < low) | (x >= high) for x in exact], bool))
        ok = np.array([x % 2**64 for x in exact], object) == got
        return ok.reshape(WAVES, LANES).all(axis=1) & (registers.scalar == want), exact

    return check


for _name, _signed in (("v_mad_u64_u32", False), ("v_mad_i64_i32", True)):
    _text = f"{_name} v[10:11], s[24:25], v4, v6, v[8:9]"
    CASES.append(Case(_name, _text, mad64_check(_signed), "uul"))


@special_case("v_cndmask_b32", "v_cndmask_b32 v10, v4, v6, s[28:29]")
@special_case("v_cndmask_b32", "v_cndmask_b32 v10, v4, v6, vcc")
def check_select(records, registers):
    want = np.where(BIT, records[:, 2], records[:, 0])
    return registers.vector[:, 0] == want, want


@special_case("v_cndmask_b32", "v_cndmask_b32 v10, -v4, |v6|, s[28:29]")
def check_select_signs(records, registers):
    want = np.where(BIT, records[:, 2] & 0x7FFFFFFF, records[:, 0] ^ 0x80000000)
    return registers.vector[:, 0] == want, want


for _table in (0x55, 0xE8, 0x96, 0xCA):

    @special_case(
        "v_bitop3_b32",
        f"v_bitop3_b32 v10, v4, v6, v8 bitop3:{_table:#x}",
        targets=["gfx950"],
    )
    def check_bitop3(records, registers, table=_table):
        index = [bit_list(records[:, 2 * i]) << u32(2 - i) for i in range(3)]
        bits = table >> (index[0] | index[1] | index[2]) & 1
        want = (bits.astype(u64) << np.arange(32, dtype=u64)).sum(axis=1)
        return registers.vector[:, 0] == want, want


@special_case(
    "v_readfirstlane_b32", "s_mov_b64 exec, s[28:29]\n v_readfirstlane_b32 s24, v4"
)
def check_first_lane(records, registers):
    first = (MASK & -MASK).bit_length() - 1
    want = records[first::LANES, 0]
    return (registers.scalar & u64(0xFFFFFFFF)) == want, want


@special_case("v_readlane_b32", "v_readlane_b32 s24, v4, 37")
def check_read_lane(records, registers):
    want = records[37::LANES, 0]
    return (registers.scalar & u64(0xFFFFFFFF)) == want, want


@special_case("v_writelane_b32", "v_writelane_b32 v10, s8, 5")
def check_write_lane(records, registers):
    want = np.where(LANE == 5, np.repeat(records[::LANES, 0], LANES), records[:, 6])
    return registers.vector[:, 0] == want, want


@special_case("v_swap_b32", "v_swap_b32 v10, v4")
def check_swap(records, registers):
    got = np.stack([registers.vector[:, 0], registers.source[:, 0]])
    want = records[:, [0, 6]].T
    return (got == want).all(axis=0), want


for _group in (16, 32):

    @special_case(
        f"v_permlane{_group}_swap_b32",
        f"v_permlane{_group}_swap_b32 v10, v4",
        targets=["gfx950"],
    )
    def check_permlane(records, registers, group=_group):
        dst, src = records[:, 6].copy(), records[:, 0].copy()
        for lane in np.flatnonzero(LANE & group):
            dst[lane], src[lane - group] = src[lane - group], dst[lane]
        got = np.stack([registers.vector[:, 0], registers.source[:, 0]])
        return (got == np.stack([dst, src])).all(axis=0), dst


@special_case("v_pk_mov_b32", "v_pk_mov_b32 v[10:11], v[4:5], v[6:7] op_sel:[1,0]")
def check_packed_move(records, registers):
    want = records[:, [1, 2]]
    return (registers.vector == want).all(axis=1), want


def mixed(records, halves, op_sel, neg, absolute):
    """Sources of v_fma_mix."""
    values = []
    for i in range(3):
        bits = np.ascontiguousarray(records[:, 2 * i])
        if halves >> i & 1:
            x = bits.view(f16).reshape(-1, 2)[:, op_sel >> i & 1].astype(f64)
        else:
            x = bits.view(f32).astype(f64)
        values.append(change_sign(x, absolute >> i & 1, neg >> i & 1))
    return values


_MIX = "v10, -v4, |v6|, v8 op_sel:[1,0,0] op_sel_hi:[1,1,0]"


@special_case("v_fma_mix_f32", f"v_fma_mix_f32 {_MIX}", "ppf")
def check_mix(records, registers):
    want = fma(*mixed(records, 3, 1, 1, 2)).astype(f32)
    return same(np.ascontiguousarray(registers.vector[:, 0]).view(f32), want, 1), want


for _place, _name in enumerate(("v_fma_mixlo_f16", "v_fma_mixhi_f16")):

    @special_case(_name, f"{_name} {_MIX}", "ppf")
    def check_mix_half(records, registers, place=_place):
        want = fma(*mixed(records, 3, 1, 1, 2)).astype(f32).astype(f16)
        got = np.ascontiguousarray(registers.vector[:, 0]).view(f16).reshape(-1, 2)
        old = np.ascontiguousarray(records[:, 6]).view(np.uint16).reshape(-1, 2)
        kept = got.view(np.uint16)[:, 1 - place] == old[:, 1 - place]
        return same(np.ascontiguousarray(got[:, place]), want, 1) & kept, want


_DIVIDE = """v_div_scale_{t} {w}, s[24:25], {b}, {b}, {a}
  v_div_scale_{t} {x}, vcc, {a}, {b}, {a}
  v_rcp_{t} {r}, {w}
  s_nop 1
  v_fma_{t} {n}, -{w}, {r}, 1.0
  v_fma_{t} {r}, {n}, {r}, {r}
  v_fma_{t} {n}, -{w}, {r}, 1.0
  v_fma_{t} {r}, {n}, {r}, {r}
  v_mul_{t} {q}, {x}, {r}
  v_fma_{t} {n}, -{w}, {q}, {x}
  v_fma_{t} {q}, {n}, {r}, {q}
  v_fma_{t} {n}, -{w}, {q}, {x}
  v_div_fmas_{t} {q}, {n}, {r}, {q}
  v_div_fixup_{t} {d}, {q}, {b}, {a}"""


def division_case(kind: str, name: str) -> None:
    """The sequence that compilers emit rounds quotients right."""
    places = {"w": 20, "x": 22, "r": 24, "n": 26, "q": 28, "a": 4, "b": 6, "d": 10}
    names = {key: register(place, kind) for key, place in places.items()}

    def check(records, registers):
        a, b = (typed(records[:, 2 * i : 2 * i + 2], kind) for i in (0, 1))
        with np.errstate(all="ignore"):
            want = a / b
        n = WIDTH.get(kind, 1)
        got = np.ascontiguousarray(registers.vector[:, :n]).view(want.dtype)[:, 0]
        return same(got, want, int(kind == "d")), want

    text = _DIVIDE.format(t=name, **names)
    CASES.append(Case(f"division {name}", text, check, kind * 2))


division_case("f", "f32")
division_case("d", "f64")


def literal_case(name, text, kind, middle):
    """Multiply-add with the literal 10 as a factor or as the addend."""

    def check(records, registers):
        a, b = (typed(records[:, 2 * i : 2 * i + 2], kind) for i in (0, 1))
        ten = np.full(COUNT, 10.0)
        with np.errstate(all="ignore"):
            want = fma(a, ten, b) if middle else fma(a, b, ten)
            want = stored(want, kind, records[:, 6:8])
        return agree(registers.vector, want, kind, 1, None), want

    CASES.append(Case(name, f"{name} {text}", check, kind * 2))


literal_case("v_fmamk_f32", "v10, v4, 0x41200000, v6", "f", True)
literal_case("v_fmaak_f32", "v10, v4, v6, 0x41200000", "f", False)
literal_case("v_madmk_f16", "v10, v4, 0x4900, v6", "h", True)
literal_case("v_madak_f16", "v10, v4, v6, 0x4900", "h", False)

# ---- DPP and SDWA


def dpp_source(control: str, lane: int) -> int:
    """Source lane in a wave, or -1."""
    kind, _, amount = control.partition(":")
    row, place = lane // 16 * 16, lane % 16
    if kind == "quad_perm":
        return lane // 4 * 4 + int(amount.strip("[]").split(",")[lane % 4])
    if kind in ("row_shl", "row_shr"):
        at = place + int(amount) * (1 if kind == "row_shl" else -1)
        return row + at if 0 <= at < 16 else -1
    if kind == "row_ror":
        return row + (place - int(amount)) % 16
    if kind in ("wave_shl", "wave_shr"):
        at = lane + (1 if kind == "wave_shl" else -1)
        return at if 0 <= at < 64 else -1
    if kind in ("wave_rol", "wave_ror"):
        return (lane + (1 if kind == "wave_rol" else -1)) % 64
    if kind == "row_mirror":
        return row + 15 - place
    if kind == "row_half_mirror":
        return lane // 8 * 8 + 7 - lane % 8
    if kind == "row_newbcast":
        return row + int(amount)
    if control == "row_bcast:15":
        return row - 1
    return 31 if lane >= 32 else -1


CONTROLS = ["quad_perm:[3,1,0,2]", "row_shl:3", "row_shr:5", "row_ror:7", "wave_shl:1"]
CONTROLS += ["wave_rol:1", "wave_shr:1", "wave_ror:1", "row_mirror", "row_half_mirror"]
CONTROLS += ["row_bcast:15", "row_bcast:31", "row_newbcast:9"]


def dpp_case(name, control, rows, banks, bound, masked, formula, signs=False):
    """One DPP instruction under masks."""
    real = "f32" in name
    a = "-|v4|" if signs else "v4"
    sources = f"{a}, v6" if "mov" not in name else a
    text = (
        f"{name}_dpp v10, {sources} {control} row_mask:{rows:#x} bank_mask:{banks:#x}"
    )
    text += " bound_ctrl:1" if bound else ""
    text = ("s_mov_b64 exec, s[28:29]\n " if masked else "") + text

    def check(records, registers):
        active = BIT if masked else np.ones(COUNT, bool)
        want = records[:, 6].copy()
        for n in range(COUNT):
            lane = n % LANES
            source = dpp_source(control, lane)
            valid = source >= 0 and active[source]
            enabled = rows >> (lane // 16) & 1 and banks >> (lane % 16 // 4) & 1
            if not active[n] or not enabled or not (valid or bound):
                continue
            x = records[n - lane + source, 0] if valid else u32(0)
            x = (x | u32(1 << 31)) if signs else x
            want[n] = formula(x, records[n, 2])
        got = registers.vector[:, 0]
        if real:
            return same(got.copy().view(f32), want.view(f32)), want
        return got == want, want

    CASES.append(Case(f"{name}_dpp", text, check, "ff" if real else "uu"))


def add_bits(a, b):
    """Adds f32 by their bits."""
    with np.errstate(all="ignore"):
        return (a.view(f32) + b.view(f32)).view(u32)


for _control in CONTROLS:
    for _bound in (False, True):
        dpp_case("v_mov_b32", _control, 15, 15, _bound, False, lambda a, b: a)
        dpp_case("v_mov_b32", _control, 15, 15, _bound, True, lambda a, b: a)
    dpp_case("v_add_f32", _control, 10, 13, False, False, add_bits, True)
dpp_case("v_and_b32", "row_shr:1", 15, 15, True, False, lambda a, b: a & b)

SELECTS = {"BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8)}
SELECTS |= {"WORD_0": (0, 16), "WORD_1": (16, 16), "DWORD": (0, 32)}


def selected(x: np.ndarray, select: str, signed: bool) -> np.ndarray:
    """A field of dwords, extended."""
    shift, width = SELECTS[select]
    field = x.astype(i64) >> shift & ((1 << width) - 1)
    return (
        np.where(field >> (width - 1) & 1, field - (1 << width), field)
        if signed
        else field
    )


def placed(value, select, unused, old):
    """Where SDWA puts a result."""
    shift, width = SELECTS[select]
    field = (value & ((1 << width) - 1)) << shift
    if unused == "UNUSED_PRESERVE":
        return (old.astype(i64) & ~(((1 << width) - 1) << shift)) | field
    if unused == "UNUSED_SEXT":
        top = value >> (width - 1) & 1
        return field | np.where(top, -1 << (shift + width), 0)
    return field


def sdwa_cases() -> None:
    """v_add_u32 with all selections."""
    for select in SELECTS:
        for unused in ("UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"):
            for other, sign in (("BYTE_3", True), ("WORD_1", False), ("DWORD", False)):
                b = "sext(v6)" if sign else "v6"
                text = (
                    f"v_add_u32_sdwa v10, v4, {b} dst_sel:{select} dst_unused:{unused}"
                    f" src0_sel:{select} src1_sel:{other}"
                )

                def check(records, registers, a=select, b=other, s=sign, u=unused):
                    total = selected(records[:, 0], a, False) + selected(
                        records[:, 2], b, s
                    )
                    want = placed(total, a, u, records[:, 6]) % 2**32
                    return registers.vector[:, 0] == want, want

                CASES.append(Case("v_add_u32_sdwa", text, check, "uu"))


sdwa_cases()


@special_case(
    "v_add_f16_sdwa",
    "v_add_f16_sdwa v10, -|v4|, v6 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE"
    " src0_sel:WORD_1 src1_sel:WORD_0",
    "pp",
)
def check_sdwa_half(records, registers):
    a = np.ascontiguousarray(records[:, 0]).view(f16).reshape(-1, 2)[:, 1]
    b = np.ascontiguousarray(records[:, 2]).view(f16).reshape(-1, 2)[:, 0]
    with np.errstate(all="ignore"):
        want = -np.abs(a) + b
    got = np.ascontiguousarray(registers.vector[:, 0]).view(f16).reshape(-1, 2)
    old = (registers.vector[:, 0] ^ records[:, 6]) & u32(0xFFFF) == 0
    return same(np.ascontiguousarray(got[:, 1]), want) & old, want


@special_case(
    "v_cmp_lt_i32_sdwa",
    "v_cmp_lt_i32_sdwa s[24:25], sext(v4), v6 src0_sel:BYTE_1 src1_sel:WORD_0",
)
def check_sdwa_compare(records, registers):
    want = masks(selected(records[:, 0], "BYTE_1", True) < (records[:, 2] & 0xFFFF))
    return registers.scalar == want, want


# ---- Flushed denormals and output scales


def flush_f32(x):
    """Denormals become zero."""
    return np.where(np.abs(x) < np.finfo(f32).tiny, np.copysign(f32(0), x), x)


@special_case("v_add_f32", "v_add_f32 v10, v4, v6", "ff", mode=1)
@special_case("v_add_f32", "v_add_f32_e64 v10, v4, v6 mul:4", "ff", mode=1)
def check_flush(records, registers):
    a, b = (flush_f32(typed(records[:, 2 * i : 2 * i + 2], "f")) for i in (0, 1))
    got = np.ascontiguousarray(registers.vector[:, 0]).view(f32)
    with np.errstate(all="ignore"):
        plain, scaled = flush_f32(a + b), flush_f32((a + b) * f32(4))
    return same(got, plain) | same(got, scaled), plain


@special_case("v_mul_f32", "v_mul_f32_e64 v10, v4, v6 div:2", "ff", mode=1)
def check_omod(records, registers):
    a, b = (flush_f32(typed(records[:, 2 * i : 2 * i + 2], "f")) for i in (0, 1))
    with np.errstate(all="ignore"):
        want = flush_f32((a * b) * f32(0.5))
    return same(np.ascontiguousarray(registers.vector[:, 0]).view(f32), want), want


# ---- Scalar instructions


def signed(x: int, bits: int = 32) -> int:
    """Two's complement."""
    x %= 1 << bits
    return x - (1 << bits) if x >> (bits - 1) else x


def leading(x: int, bits: int) -> int:
    """Place of the first set bit from the top."""
    return bits - x.bit_length() if x else -1


def trailing(x: int) -> int:
    """Place of the first set bit."""
    return (x & -x).bit_length() - 1 if x else -1


def field_of(a: int, b: int, bits: int, is_signed: bool) -> int:
    """s_bfe."""
    offset, width = b % bits, b >> 16 & 127
    if is_signed:
        a = signed(a, bits)
        width = min(width, bits - offset)
        return signed(a >> offset & ((1 << width) - 1), width) if width else 0
    return a >> offset & ((1 << width) - 1)


def quads(x: int, whole: bool) -> int:
    """s_wqm and s_quadmask."""
    found = [i for i in range(16) if x >> 4 * i & 15]
    return sum((15 << 4 * i) if whole else 1 << i for i in found)


# name -> function of a and b giving (value, SCC).
# SCC None: value != 0; "keep": unchanged.
SCALARS: dict[str, object] = {
    "s_add_u32": lambda a, b: (a + b, a + b >= 2**32),
    "s_sub_u32": lambda a, b: (a - b, a < b),
    "s_add_i32": lambda a, b: (a + b, signed(a) + signed(b) != signed(a + b)),
    "s_sub_i32": lambda a, b: (a - b, signed(a) - signed(b) != signed(a - b)),
    "s_addc_u32": lambda a, b: (a + b, a + b >= 2**32),
    "s_subb_u32": lambda a, b: (a - b, a < b),
    "s_min_i32": lambda a, b: (min(signed(a), signed(b)), signed(a) < signed(b)),
    "s_max_i32": lambda a, b: (max(signed(a), signed(b)), signed(a) > signed(b)),
    "s_min_u32": lambda a, b: (min(a, b), a < b),
    "s_max_u32": lambda a, b: (max(a, b), a > b),
    "s_cselect_b32": lambda a, b: (b, "keep"),
    "s_cselect_b64": lambda a, b: (b, "keep"),
    "s_mul_i32": lambda a, b: (a * b, "keep"),
    "s_mul_hi_u32": lambda a, b: (a * b >> 32, "keep"),
    "s_mul_hi_i32": lambda a, b: (signed(a) * signed(b) >> 32, "keep"),
    "s_absdiff_i32": lambda a, b: (abs(signed(signed(a) - signed(b))), None),
    "s_bfm_b32": lambda a, b: (((1 << a % 32) - 1) << b % 32, "keep"),
    "s_bfm_b64": lambda a, b: (((1 << a % 64) - 1) << b % 64, "keep"),
    "s_pack_ll_b32_b16": lambda a, b: (a % 65536 | b % 65536 << 16, "keep"),
    "s_pack_lh_b32_b16": lambda a, b: (a % 65536 | b >> 16 << 16, "keep"),
    "s_pack_hh_b32_b16": lambda a, b: (a >> 16 | b >> 16 << 16, "keep"),
    "s_ashr_i32": lambda a, b: (signed(a) >> b % 32, None),
    "s_ashr_i64": lambda a, b: (signed(a, 64) >> b % 64, None),
    "s_bfe_u32": lambda a, b: (field_of(a, b, 32, False), None),
    "s_bfe_i32": lambda a, b: (field_of(a, b, 32, True), None),
    "s_bfe_u64": lambda a, b: (field_of(a, b, 64, False), None),
    "s_bfe_i64": lambda a, b: (field_of(a, b, 64, True), None),
    "s_mov_b32": lambda a: (a, "keep"),
    "s_mov_b64": lambda a: (a, "keep"),
    "s_sext_i32_i8": lambda a: (signed(a, 8), "keep"),
    "s_sext_i32_i16": lambda a: (signed(a, 16), "keep"),
    "s_abs_i32": lambda a: (abs(signed(a)), None),
    "s_flbit_i32": lambda a: (
        leading((~a if signed(a) < 0 else a) % 2**32, 32),
        "keep",
    ),
    "s_flbit_i32_i64": lambda a: (
        leading((~a if signed(a, 64) < 0 else a) % 2**64, 64),
        "keep",
    ),
    "s_bitreplicate_b64_b32": lambda a: (
        sum(3 << 2 * i for i in range(32) if a >> i & 1),
        "keep",
    ),
}
for _bits in (32, 64):
    _all = 2**_bits - 1
    SCALARS |= {
        f"s_lshl_b{_bits}": lambda a, b, n=_bits: ((a << b % n) % 2**n, None),
        f"s_lshr_b{_bits}": lambda a, b, n=_bits: (a >> b % n, None),
        f"s_and_b{_bits}": lambda a, b: (a & b, None),
        f"s_or_b{_bits}": lambda a, b: (a | b, None),
        f"s_xor_b{_bits}": lambda a, b: (a ^ b, None),
        f"s_andn2_b{_bits}": lambda a, b: (a & ~b, None),
        f"s_orn2_b{_bits}": lambda a, b, m=_all: ((a | ~b) & m, None),
        f"s_nand_b{_bits}": lambda a, b, m=_all: (~(a & b) & m, None),
        f"s_nor_b{_bits}": lambda a, b, m=_all: (~(a | b) & m, None),
        f"s_xnor_b{_bits}": lambda a, b, m=_all: (~(a ^ b) & m, None),
        f"s_not_b{_bits}": lambda a, m=_all: (~a & m, None),
        f"s_wqm_b{_bits}": lambda a: (quads(a, True), None),
        f"s_quadmask_b{_bits}": lambda a: (quads(a, False), None),
        f"s_brev_b{_bits}": lambda a, n=_bits: (int(f"{a:0{n}b}"[::-1], 2), "keep"),
        f"s_bcnt0_i32_b{_bits}": lambda a, n=_bits: (n - a.bit_count(), None),
        f"s_bcnt1_i32_b{_bits}": lambda a: (a.bit_count(), None),
        f"s_ff0_i32_b{_bits}": lambda a, m=_all: (trailing(~a & m), "keep"),
        f"s_ff1_i32_b{_bits}": lambda a: (trailing(a), "keep"),
        f"s_flbit_i32_b{_bits}": lambda a, n=_bits: (leading(a, n), "keep"),
        f"s_bitset0_b{_bits}": lambda a, n=_bits: ("clear", n),
        f"s_bitset1_b{_bits}": lambda a, n=_bits: ("set", n),
    }
for _shift in (1, 2, 3, 4):
    SCALARS[f"s_lshl{_shift}_add_u32"] = lambda a, b, s=_shift: (
        (a << s) + b,
        (a << s) + b >= 2**32,
    )
COMPARE = {"eq": int.__eq__, "lg": int.__ne__, "gt": int.__gt__, "ge": int.__ge__}
COMPARE |= {"lt": int.__lt__, "le": int.__le__}


def scalar_widths(name: str) -> tuple[int, int, int]:
    """Dwords of destination and sources."""
    n = 2 if name.endswith(("64", "_i64")) else 1
    first = 2 if name.endswith(("_b64", "_u64", "_i64")) else 1
    if name.startswith(("s_bcnt", "s_ff", "s_flbit")):
        return 1, first, 1
    if name.startswith(("s_lsh", "s_ashr", "s_bfe")) and n == 2:
        return 2, 2, 1
    if name.startswith(("s_bfm", "s_bitset")):
        return n, 1, 1
    return (2, 1, 1) if "replicate" in name else (n, n, n)


def scalar_registers(first: int, dwords: int) -> str:
    """s8 or s[8:9]."""
    return f"s[{first}:{first + 1}]" if dwords == 2 else f"s{first}"


def wave_value(records, place, dwords):
    """The waves' scalar sources."""
    first = records[::LANES]
    low = first[:, place].astype(object)
    return low + (first[:, place + 1].astype(object) << 32 if dwords == 2 else 0)


def scalar_case(name: str) -> None:
    """One SALU instruction with a destination."""
    function = SCALARS[name]
    to, wide_a, wide_b = scalar_widths(name)
    two_sources = function.__code__.co_varnames[: function.__code__.co_argcount][
        1:2
    ] == ("b",)
    text = f"{name} {scalar_registers(24, to)}, {scalar_registers(8, wide_a)}"
    text += f", {scalar_registers(10, wide_b)}" if two_sources else ""

    def check(records, registers):
        a, b = wave_value(records, 0, wide_a), wave_value(records, 2, wide_b)
        old = wave_value(records, 6, 2)
        want, scc = [], []
        for x, y, before in zip(a, b, old, strict=True):
            x, y, before = int(x), int(y), int(before)
            value, condition = function(x, y) if two_sources else function(x)
            if isinstance(value, str):
                bit = 1 << x % condition
                value = before | bit if value == "set" else before & ~bit
                condition = "keep"
            value %= 2 ** (32 * to)
            scc.append(
                0
                if condition == "keep"
                else value != 0
                if condition is None
                else condition
            )
            want.append(value if to == 2 else value | before >> 32 << 32)
        want = np.array(want, object)
        ok = (registers.scalar.astype(object) == want) & (
            registers.scc == np.array(scc, int)
        )
        return ok, want

    CASES.append(Case(name, text, check, "uu" if wide_a == 1 else "ll"))


for _name in SCALARS:
    scalar_case(_name)


def scalar_compare_case(name, text, function, dwords=1):
    """One SALU comparison."""

    def check(records, registers):
        a, b = wave_value(records, 0, dwords), wave_value(records, 2, dwords)
        want = [function(int(x), int(y)) for x, y in zip(a, b, strict=True)]
        return registers.scc == np.array(want, int), want

    CASES.append(Case(name, text, check, "uu" if dwords == 1 else "ll"))


for _name, _relation in COMPARE.items():
    for _type in "iu":

        def _read(x, is_signed=_type == "i"):
            return signed(x) if is_signed else x

        def _holds(a, b, relation=_relation, read=_read):
            return relation(read(a), read(b))

        def _holds_k(a, b, relation=_relation, read=_read):
            return relation(read(a), 0x7FFF)

        scalar_compare_case(
            f"s_cmp_{_name}_{_type}32", f"s_cmp_{_name}_{_type}32 s8, s10", _holds
        )
        scalar_compare_case(
            f"s_cmpk_{_name}_{_type}32",
            f"s_cmpk_{_name}_{_type}32 s8, 0x7fff",
            _holds_k,
        )
for _name in ("eq", "lg"):
    scalar_compare_case(
        f"s_cmp_{_name}_u64", f"s_cmp_{_name}_u64 s[8:9], s[10:11]", COMPARE[_name], 2
    )
for _bits in (32, 64):
    for _wanted in (0, 1):
        scalar_compare_case(
            f"s_bitcmp{_wanted}_b{_bits}",
            f"s_bitcmp{_wanted}_b{_bits} {scalar_registers(8, _bits // 32)}, s10",
            lambda a, b, n=_bits, w=_wanted: (a >> b % n & 1) == w,
            _bits // 32,
        )

SAVE_EXEC = {
    "and": lambda s, e: s & e,
    "or": lambda s, e: s | e,
    "xor": lambda s, e: s ^ e,
    "andn2": lambda s, e: s & ~e,
    "orn2": lambda s, e: s | ~e,
    "nand": lambda s, e: ~(s & e),
    "nor": lambda s, e: ~(s | e),
    "xnor": lambda s, e: ~(s ^ e),
    "andn1": lambda s, e: ~s & e,
    "orn1": lambda s, e: ~s | e,
}


def save_exec_case(name, formula, write):
    """D = EXEC, then EXEC = formula; or, of wrexec, D = EXEC = formula."""

    def check(records, registers):
        source = wave_value(records, 0, 2)
        result = [formula(int(s), MASK) % 2**64 for s in source]
        result = np.array(result, object)
        want = result if write else np.array([MASK] * WAVES, object)
        ok = (registers.exec.astype(object) == result) & (
            registers.scalar.astype(object) == want
        )
        return ok & (registers.scc == np.array([r != 0 for r in result], int)), result

    text = f"s_mov_b64 exec, s[28:29]\n {name} s[24:25], s[8:9]"
    CASES.append(Case(name, text, check, "ll"))


for _name, _formula in SAVE_EXEC.items():
    save_exec_case(f"s_{_name}_saveexec_b64", _formula, False)
for _name in ("andn1", "andn2"):
    save_exec_case(f"s_{_name}_wrexec_b64", SAVE_EXEC[_name], True)


def scalar_result_case(name, text, function, kinds="uu"):
    """A listing whose s24 is a function of s8, s10 and the old s24."""

    def check(records, registers):
        a, b, old = (wave_value(records, p, 1) for p in (0, 2, 6))
        want = [
            function(int(x), int(y), int(z)) % 2**32
            for x, y, z in zip(a, b, old, strict=True)
        ]
        want = np.array(want, object)
        return (registers.scalar & u64(0xFFFFFFFF)).astype(object) == want, want

    CASES.append(Case(name, text, check, kinds))


scalar_result_case("s_movk_i32", "s_movk_i32 s24, 0x8001", lambda a, b, d: -0x7FFF)
scalar_result_case("s_addk_i32", "s_addk_i32 s24, 0x8001", lambda a, b, d: d - 0x7FFF)
scalar_result_case("s_mulk_i32", "s_mulk_i32 s24, 0x8001", lambda a, b, d: d * -0x7FFF)
scalar_result_case("s_cmov_b32", "s_cmov_b32 s24, s8", lambda a, b, d: d)
scalar_result_case(
    "s_cmov_b32", "s_cmp_eq_u32 s8, s8\n s_cmov_b32 s24, s8", lambda a, b, d: a
)
scalar_result_case(
    "s_cmovk_i32", "s_cmp_eq_u32 s8, s8\n s_cmovk_i32 s24, -2", lambda a, b, d: -2
)
scalar_result_case(
    "s_cselect_b32",
    "s_cmp_eq_u32 s8, s8\n s_cselect_b32 s24, s8, s10",
    lambda a, b, d: a,
)
scalar_result_case(
    "s_addc_u32",
    "s_cmp_eq_u32 s8, s8\n s_addc_u32 s24, s8, s10",
    lambda a, b, d: a + b + 1,
)
scalar_result_case(
    "s_subb_u32",
    "s_cmp_eq_u32 s8, s8\n s_subb_u32 s24, s8, s10",
    lambda a, b, d: a - b - 1,
)
scalar_result_case(
    "s_movrels_b32",
    "s_mov_b32 m0, 2\n s_nop 1\n s_movrels_b32 s24, s8",
    lambda a, b, d: b,
)
scalar_result_case(
    "s_movreld_b32",
    "s_mov_b32 m0, 1\n s_nop 1\n s_movreld_b32 s23, s8",
    lambda a, b, d: a,
)
scalar_result_case(
    "s_getreg_b32",
    "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 9\n s_nop 1\n"
    " s_getreg_b32 s24, hwreg(HW_REG_MODE, 0, 8)",
    lambda a, b, d: 0xF9,
)
scalar_result_case(
    "s_setreg_b32",
    "s_setreg_b32 hwreg(HW_REG_MODE, 4, 4), s8\n s_nop 1\n"
    " s_getreg_b32 s24, hwreg(HW_REG_MODE, 4, 4)",
    lambda a, b, d: a & 15,
)
for _jump, _taken in (
    ("s_branch", True),
    ("s_cbranch_scc0", True),
    ("s_cbranch_scc1", False),
    ("s_cbranch_vccz", False),
    ("s_cbranch_vccnz", True),
    ("s_cbranch_execz", False),
    ("s_cbranch_execnz", True),
):
    scalar_result_case(
        _jump,
        f"s_mov_b32 s24, 5\n {_jump} 1\n s_mov_b32 s24, 6",
        lambda a, b, d, taken=_taken: 5 if taken else 6,
    )
scalar_result_case(
    "s_getpc_b64 s_setpc_b64",
    "s_mov_b32 s24, 5\n s_getpc_b64 s[18:19]\n s_add_u32 s18, s18, 16\n"
    " s_addc_u32 s19, s19, 0\n s_setpc_b64 s[18:19]\n s_mov_b32 s24, 6",
    lambda a, b, d: 5,
)
scalar_result_case(
    "s_call_b64 s_swappc_b64",
    "s_mov_b32 s24, 5\n s_call_b64 s[18:19], 2\n s_mov_b32 s24, 7\n s_branch 2\n"
    " s_mov_b32 s24, 6\n s_swappc_b64 s[18:19], s[18:19]",
    lambda a, b, d: 7,
)


# ---- The test


@functools.cache
def listings(target: str) -> Listings:
    """All cases of a chip, assembled."""
    all_cases = Listings(target)
    for case in CASES:
        if target in case.targets:
            all_cases.add(case.listing, case.mode)
    all_cases.assemble()
    return all_cases


def records_of(case: Case, seed: int) -> np.ndarray:
    """Registers that a case starts with."""
    rng = np.random.default_rng(seed)
    records = rng.integers(0, 2**32, (COUNT, 8), np.uint32)
    for i, kind in enumerate(case.kinds):
        records[:, 2 * i : 2 * i + 2] = draw(rng, kind, COUNT)
    old = MODELS.get(case.name)
    if old and "+" in old[0]:
        records[:, 6:8] = draw(rng, old[0][0], COUNT)
    return records


NAMES = sorted({case.name for case in CASES})


@pytest.mark.parametrize("target", TARGETS)
def test_instructions(target):
    failures = []
    built = listings(target)
    for seed, case in enumerate(CASES):
        if target not in case.targets:
            continue
        records = records_of(case, seed)
        registers = built.run(case.listing, records, case.mode)
        with np.errstate(all="ignore"):
            ok, want = case.check(records, registers)
        if not np.all(ok):
            n = int(np.flatnonzero(~np.asarray(ok))[0])
            lane = n if len(np.atleast_1d(ok)) == COUNT else n * LANES
            failures.append(
                f"{case.listing!r} at {n}: sources {[hex(x) for x in records[lane]]}, "
                f"v[10:11] {[hex(x) for x in registers.vector[lane]]}, "
                f"s[24:25] {registers.scalar[lane // LANES]:#x}, "
                f"SCC {registers.scc[lane // LANES]}, expected {np.asarray(want)[n]!r}"
            )
    assert not failures, f"{len(failures)} of {len(CASES)}:\n" + "\n".join(failures)
