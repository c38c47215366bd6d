"""The cosine and sine tables that ``rotary`` takes."""

import math
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_hipkittens import _checks

_OP = "rotary_tables"


def rotary_tables(
    positions: int | ArrayLike,
    rotary_dim: int,
    *,
    base: float = 10000.0,
) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines of the rotary angles position * base^(-2i/R).

    Args:
      positions: the table's length P, for positions 0 to P-1; or the positions
        themselves, [P] or [B, P].
      rotary_dim: R, how many of a head's dims rotate: even and positive.
      base: the angles' base (theta), above 0. Llama 3 uses 500000.

    Returns:
      (cos, sin), each f32 [P, R/2] or [B, P, R/2]. Angles are computed in f32.

    Raises:
      ValueError: for an odd or non-positive ``rotary_dim``, a negative length, a
        base that is not positive or positions of another rank.

    Source: Su et al., "RoFormer", arXiv:2104.09864, equation 15.
    """
    _check_numbers(rotary_dim, base)
    steps = _positions(positions)
    exponents = np.arange(0, rotary_dim, 2, dtype=np.float64) / rotary_dim
    frequencies = (float(base) ** -exponents).astype(np.float32)
    angles = jnp.multiply.outer(steps.astype(jnp.float32), frequencies)
    return jnp.cos(angles), jnp.sin(angles)


def _check_numbers(rotary_dim: Any, base: Any) -> None:
    whole = isinstance(rotary_dim, (int, np.integer))
    if not whole or rotary_dim <= 0 or rotary_dim % 2:
        raise _checks.mistake(
            _OP,
            "an even rotary_dim above 0",
            repr(rotary_dim),
            "dims rotate in pairs",
        )
    if not (_checks.is_number(base) and 0 < base < math.inf):
        raise _checks.mistake(
            _OP,
            "base to be a number above 0, known at trace time",
            repr(base),
            "10000.0 is the default",
        )


def _positions(positions: int | ArrayLike) -> jax.Array:
    if not isinstance(positions, (int, np.integer)):
        array = _checks.as_array(_OP, "positions", positions)
        real = jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(
            array.dtype, jnp.floating
        )
        if array.ndim not in (1, 2) or not real:
            raise _checks.mistake(
                _OP,
                "positions, numbers of shape [P] or [B, P]",
                _checks.describe(array),
                "pass a length for positions from 0",
            )
        return array
    length = operator.index(positions)
    if length < 0:
        raise _checks.mistake(
            _OP, "a length of 0 or more", str(length), "give the number of positions"
        )
    return jnp.arange(length, dtype=jnp.int32)
