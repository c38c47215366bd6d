"""The norm ops in plain ``jax.numpy``: the "xla" implementation and the oracle.

Statistics take two passes (mean first, then the mean square of the differences),
so that a large common offset does not cancel the variance away.
"""

import jax
import jax.numpy as jnp

from jax_hipkittens.ops.norm.philox import keep_mask, keep_scale


def _accumulator(dtype: jax.typing.DTypeLike) -> jnp.dtype:
    """f32, or the input's own type where that is wider."""
    return jnp.promote_types(dtype, jnp.float32)


def hidden(
    x: jax.Array, residual: jax.Array | None, seed: jax.Array | None, rate: float
) -> jax.Array:
    """The normalised input: residual + dropout(x), rounded to x's dtype."""
    if residual is None and rate == 0:
        return x
    total = x.astype(_accumulator(x.dtype))
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
    wide = h.astype(_accumulator(h.dtype))
    if kind == "layer":
        wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    y = wide * jax.lax.rsqrt(mean_square + jnp.asarray(epsilon, wide.dtype))
    if weight is not None:
        y = y * weight.astype(wide.dtype)
    if bias is not None:
        y = y + bias.astype(wide.dtype)
    return y.astype(x.dtype), h
