"""The norm ops in plain ``jax.numpy``: the "xla" implementation and the oracle.

Statistics take two passes (mean first, then the mean square of the differences),
so that a large common offset does not cancel the variance away.
"""

import jax
import jax.numpy as jnp

from jax_hipkittens.ops.norm.philox import keep_mask, keep_scale


def _accumulator(x: jax.Array) -> type:
    """f32, or f64 for an f64 input."""
    return jnp.float64 if x.dtype == jnp.float64 else jnp.float32


def _broadcast_row(row: jax.Array, like: jax.Array) -> jax.Array:
    """[H] as [1, ..., 1, H] of the rank and dtype of ``like``."""
    return row.astype(like.dtype).reshape((1,) * (like.ndim - 1) + row.shape)


def hidden(
    x: jax.Array, residual: jax.Array | None, seed: jax.Array | None, rate: float
) -> jax.Array:
    """The normalised input: residual + dropout(x), rounded to x's dtype."""
    if residual is None and rate == 0:
        return x
    total = x.astype(_accumulator(x))
    if rate > 0:
        assert seed is not None
        kept = total * jnp.asarray(keep_scale(rate), total.dtype)
        total = jnp.where(keep_mask(seed, rate, x.shape), kept, 0)
    if residual is not None:
        total = total + residual.astype(total.dtype)
    return total.astype(x.dtype)


def norm(
    x: jax.Array,
    weight: jax.Array | None,
    bias: jax.Array | None,
    residual: jax.Array | None,
    seed: jax.Array | None,
    *,
    kind: str,
    epsilon: float,
    dropout_rate: float,
) -> tuple[jax.Array, jax.Array]:
    """Returns (y, h), both shaped and typed as x; ``kind`` is "layer" or "rms"."""
    h = hidden(x, residual, seed, dropout_rate)
    wide = h.astype(_accumulator(h))
    if kind == "layer":
        wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    y = wide * jax.lax.rsqrt(mean_square + jnp.asarray(epsilon, wide.dtype))
    if weight is not None:
        y = y * _broadcast_row(weight, y)
    if bias is not None:
        y = y + _broadcast_row(bias, y)
    return y.astype(x.dtype), h
