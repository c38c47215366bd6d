"""Counter-based dropout masks: Philox 4x32-10 in plain ``jax.numpy``.

Every implementation of an op draws its dropout mask from this generator,
so a key gives the same mask whichever implementation, thread count or backend
runs. The kernels hold the same generator in C++; this file is its definition.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011, doi:10.1145/2063384.2063405.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LANES = 4
# The counter's low word alone numbers the groups of four draws.
_MAX_ELEMENTS = _LANES << 32

Words = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


def _multiply_wide(a: int, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """High and low 32 bits of a*b, from 16-bit halves: JAX has no u64 by default."""
    a_low, a_high = np.uint32(a & 0xFFFF), np.uint32(a >> 16)
    b_low, b_high = b & np.uint32(0xFFFF), b >> 16
    low = a_low * b_low
    middle = a_high * b_low + (low >> 16)
    carry = a_low * b_high + (middle & np.uint32(0xFFFF))
    high = a_high * b_high + (middle >> 16) + (carry >> 16)
    return high, np.uint32(a) * b


def philox4x32(counter: Words, key: tuple[jax.Array, jax.Array]) -> Words:
    """Ten Philox rounds of four u32 counter words under two u32 key words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _multiply_wide(_MULTIPLIERS[0], c0)
        high1, low1 = _multiply_wide(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + np.uint32(_WEYL[0]), k1 + np.uint32(_WEYL[1])
    return c0, c1, c2, c3


def threshold(rate: float) -> int:
    """The smallest draw that keeps its element: floor(rate * 2^32), of the f32 rate."""
    return math.floor(float(np.float32(rate)) * 2.0**32)


def keep_scale(rate: float) -> float:
    """What a kept element is multiplied by: 1/(1 - rate), in f32; 0 at rate 1."""
    kept = np.float32(1) - np.float32(rate)
    return float(np.float32(1) / kept) if kept > 0 else 0.0


def keep_mask(seed: jax.Array, rate: float, shape: tuple[int, ...]) -> jax.Array:
    """bool[shape], true where dropout of ``rate`` keeps an element.

    Element i, counted in row-major order, looks at word i % 4 of
    philox4x32(counter=(i // 4, 0, 0, 0), key=seed), where ``seed`` is u32[2].
    """
    size = math.prod(shape)
    if size > _MAX_ELEMENTS:
        raise NotImplementedError(
            f"dropout masks have at most {_MAX_ELEMENTS} elements; received {size}."
        )
    limit = threshold(rate)
    if limit >= 1 << 32:
        return jnp.zeros(shape, bool)
    group = jax.lax.iota(jnp.uint32, -(-size // _LANES))
    zero = jnp.zeros_like(group)
    words = philox4x32((group, zero, zero, zero), (seed[0], seed[1]))
    draws = jnp.stack(words, axis=-1).reshape(-1)[:size]
    return (draws >= np.uint32(limit)).reshape(shape)
