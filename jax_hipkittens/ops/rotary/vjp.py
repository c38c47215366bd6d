"""The differentiation rule of the HK rotary kernel.

The map is linear in x and orthogonal, so x's cotangent is the cotangent of y turned
back. Both rules call the wrapped op, so it can be differentiated any number of times.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero

from jax_hipkittens.ops.rotary import kernel, reference

RESIDUAL_NAME = "jax_hipkittens.rotary"


class Residuals(NamedTuple):
    """What the backward reads; x is kept only if the tables are differentiated."""

    cos: jax.Array
    sin: jax.Array
    offsets: jax.Array
    x: jax.Array | None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def rotary(
    config: kernel.Config,
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    offsets: jax.Array,
) -> jax.Array:
    """x T[B,T,N,D], cos and sin f32[B or 1,P,R/2], offsets s32[B] -> y T[B,T,N,D]."""
    return kernel.rotary(config, x, cos, sin, offsets)


def _forward(
    config: kernel.Config, x: Any, cos: Any, sin: Any, offsets: Any
) -> tuple[jax.Array, Residuals]:
    # With symbolic zeros, every operand comes as a (value, perturbed) pair.
    y = rotary(config, x.value, cos.value, sin.value, offsets.value)
    tables_wanted = cos.perturbed or sin.perturbed
    kept = checkpoint_name(x.value, RESIDUAL_NAME) if tables_wanted else None
    return y, Residuals(cos.value, sin.value, offsets.value, kept)


def _backward(
    config: kernel.Config, saved: Residuals, dy: Any
) -> tuple[jax.Array | None, ...]:
    if isinstance(dy, SymbolicZero):
        return None, None, None, None
    back = config._replace(inverse=not config.inverse)
    dx = rotary(back, dy, saved.cos, saved.sin, saved.offsets)
    if saved.x is None:
        return dx, None, None, None
    dcos, dsin = _table_gradients(config, saved.x, saved.cos, saved.offsets, dy)
    return dx, dcos, -dsin if config.inverse else dsin, None


def _table_gradients(
    config: kernel.Config,
    x: jax.Array,
    table: jax.Array,
    offsets: jax.Array,
    dy: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Cotangents of cos and sin: sums over heads, added up at each row's position."""
    rotated = 2 * table.shape[-1]
    x0, x1 = reference.split_pairs(
        x[..., :rotated].astype(jnp.float32), config.interleaved
    )
    dy0, dy1 = reference.split_pairs(
        dy[..., :rotated].astype(jnp.float32), config.interleaved
    )
    positions = reference.positions(offsets, x.shape[1], table.shape[1])
    batch = jnp.arange(x.shape[0])[:, None] if table.shape[0] > 1 else 0

    def scatter(pairs: jax.Array) -> jax.Array:
        rows = jnp.sum(pairs, axis=2)  # [B,T,N,R/2] -> [B,T,R/2]
        return jnp.zeros_like(table).at[batch, positions].add(rows)

    return scatter(dy0 * x0 + dy1 * x1), scatter(dy1 * x0 - dy0 * x1)


rotary.defvjp(_forward, _backward, symbolic_zeros=True)
