"""Products of f32 by matrix units that take bf16: every operand a sum of bf16 parts.

f32 has 24 bits of mantissa, f16 11 and bf16 8, so that three, two and one parts, each
rounded, are exact. Of their products, those are left out that a sum in f32 has no room
for. (AMD's matrix units multiply f32 too, at a sixteenth of the rate on gfx950.)

Source: Henry, Tang, Heinecke, "Leveraging the bfloat16 Artificial Intelligence Datatype
For Higher-Precision Computations", arXiv:1904.06376.
"""

import jax
import jax.numpy as jnp
import numpy as np

_COUNTS = {"float32": 3, "float16": 2, "bfloat16": 1}
_KEPT = 3  # Part i times part j is at most 2^-9(i + j) of the whole.


def count(left: str, right: str) -> int:
    """How many pairs of parts a product of these dtypes takes."""
    return len(_chosen(_COUNTS[left], _COUNTS[right]))


def _chosen(left: int, right: int) -> list[tuple[int, int]]:
    return [
        (i, total - i)
        for total in reversed(range(_KEPT))  # Small products are summed first.
        for i in range(total + 1)
        if i < left and total - i < right
    ]


def pairs(
    left: tuple[jax.Array, int], right: tuple[jax.Array, int]
) -> tuple[jax.Array, jax.Array]:
    """Two operands whose product, contracted over one more axis, is that of the given.

    Args:
      left: the operand, and where the new axis is to stand.
      right: likewise.

    Returns:
      The operands in bf16, with an axis of a pair of parts each.
    """
    (x, x_axis), (y, y_axis) = left, right
    x_parts, y_parts = split(x), split(y)
    chosen = _chosen(len(x_parts), len(y_parts))
    return (
        jnp.stack([_part(x_parts, i, alone=j == 0) for i, j in chosen], x_axis),
        jnp.stack([_part(y_parts, j, alone=i == 0) for i, j in chosen], y_axis),
    )


def _part(parts: list[jax.Array], i: int, alone: bool) -> jax.Array:
    """Infinities and NaN meet the other's first part alone: its rest may be 0."""
    part = parts[i]
    if i > 0 or alone:
        return part
    return jnp.where(jnp.isfinite(part), part, 0)


def split(x: jax.Array) -> list[jax.Array]:
    """bf16 arrays whose sum is x; the first alone where x is not finite.

    By masking bits, which XLA does not take for a conversion that it may skip.
    """
    rest = x.astype(jnp.float32)
    parts = []
    for _ in range(_COUNTS[x.dtype.name]):
        bits = _rounded(rest)
        part = jax.lax.bitcast_convert_type(bits, jnp.float32)
        parts.append(_as_bf16(bits))
        rest = jnp.where(jnp.isfinite(part), rest - part, 0)
    if len(parts) > 1:
        parts[0] = jnp.where(jnp.isnan(x), jnp.bfloat16(jnp.nan), parts[0])
    return parts


_HIGH, _EXPONENT = np.uint32(0xFFFF0000), np.uint32(0x7F800000)


def _rounded(x: jax.Array) -> jax.Array:
    """The bits of f32 x as bf16: to nearest, or cut off where that overflows."""
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & _HIGH
    return jnp.where(rounded & _EXPONENT == _EXPONENT, bits & _HIGH, rounded)


def _as_bf16(bits: jax.Array) -> jax.Array:
    high = (bits >> 16).astype(jnp.uint16)
    return jax.lax.bitcast_convert_type(high, jnp.bfloat16)
