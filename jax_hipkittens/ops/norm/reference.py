"""The norm ops in plain ``jax.numpy``: the "xla" implementation and the oracle.

Statistics take two passes (mean first, then the mean square of the differences),
so that a large common offset does not cancel the variance away.
"""

from typing import Any

import jax
import jax.numpy as jnp

from jax_hipkittens.ops.philox import keep_mask, keep_scale


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


def norm(*operands: Any, **config: Any) -> tuple[jax.Array, jax.Array]:
    """(y, h) of ``norm_with_statistics``, both shaped and typed as x."""
    y, h, _, _ = norm_with_statistics(*operands, **config)
    return y, h


def norm_with_statistics(
    x: jax.Array,
    weight: jax.Array | None,
    bias: jax.Array | None,
    residual: jax.Array | None,
    seed: jax.Array | None,
    *,
    kind: str,
    epsilon: float,
    dropout_rate: float,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """(y, h, mean, rstd): y and h as x, and the statistics of rows, x.shape[:-1].

    ``kind`` is "layer" or "rms".
    """
    h = hidden(x, residual, seed, dropout_rate)
    wide = h.astype(_accumulator(h))
    mean = jnp.mean(wide, axis=-1, keepdims=True)
    if kind == "layer":
        wide = wide - mean
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    rstd = jax.lax.rsqrt(mean_square + jnp.asarray(epsilon, wide.dtype))
    y = wide * rstd
    if weight is not None:
        y = y * _broadcast_row(weight, y)
    if bias is not None:
        y = y + _broadcast_row(bias, y)
    return y.astype(x.dtype), h, mean[..., 0], rstd[..., 0]


def pull_back(
    h: jax.Array,
    weight: jax.Array | None,
    dy: jax.Array,
    dh: jax.Array | None,
    seed: jax.Array,
    *,
    kind: str,
    epsilon: float,
    dropout_rate: float,
) -> tuple[jax.Array, jax.Array, jax.Array | None, jax.Array]:
    """(dx, dresidual, dweight, dbias) from the cotangents of y and h; None is zeros."""

    def of_hidden(h: jax.Array, weight: Any, bias: jax.Array) -> jax.Array:
        rest: dict[str, Any] = dict(kind=kind, epsilon=epsilon, dropout_rate=0.0)
        return norm(h, weight, bias, None, None, **rest)[0]

    bias = jnp.zeros(h.shape[-1:], _accumulator(h))
    _, pull = jax.vjp(of_hidden, h, weight, bias)
    d_hidden, d_weight, d_bias = pull(dy)
    if dh is not None:
        d_hidden = d_hidden + dh
    dx = hidden(d_hidden, None, seed, dropout_rate)
    return dx, d_hidden, d_weight, d_bias
