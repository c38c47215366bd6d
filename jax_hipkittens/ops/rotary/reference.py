"""Rotary position embedding in plain ``jax.numpy``: the "xla" implementation."""

import jax
import jax.numpy as jnp


def positions(offsets: jax.Array, length: int, table_length: int) -> jax.Array:
    """Table rows s32[B,T] of T steps from offsets [B], kept inside the table."""
    # Clipping the offsets first keeps the sum from overflowing.
    first = jnp.clip(offsets, -length, table_length)[:, None]
    steps = jnp.arange(length, dtype=offsets.dtype)
    return jnp.clip(first + steps[None], 0, table_length - 1)


def gather_rows(table: jax.Array, rows: jax.Array) -> jax.Array:
    """table [B or 1,P,R/2] at rows [B,T] -> [B,T,R/2]."""
    if table.shape[0] == 1:
        return table[0][rows]
    return jnp.take_along_axis(table, rows[:, :, None], axis=1)


def split_pairs(x: jax.Array, interleaved: bool) -> tuple[jax.Array, jax.Array]:
    """The two members of every rotated pair of x [..., R], each [..., R/2]."""
    if interleaved:
        return x[..., 0::2], x[..., 1::2]
    half = x.shape[-1] // 2
    return x[..., :half], x[..., half:]


def join_pairs(first: jax.Array, second: jax.Array, interleaved: bool) -> jax.Array:
    """The inverse of ``split_pairs``."""
    if interleaved:
        stacked = jnp.stack([first, second], axis=-1)
        return stacked.reshape(*first.shape[:-1], 2 * first.shape[-1])
    return jnp.concatenate([first, second], axis=-1)


def rotary(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    offsets: jax.Array,
    *,
    interleaved: bool,
) -> jax.Array:
    """x [B,T,N,D], cos and sin [Bc,P,R/2], offsets s32[B] -> y [B,T,N,D]."""
    rotated = 2 * cos.shape[-1]
    accumulator = jnp.float64 if x.dtype == jnp.float64 else jnp.float32
    rows = positions(offsets, x.shape[1], cos.shape[1])
    cos = gather_rows(cos, rows).astype(accumulator)[:, :, None]
    sin = gather_rows(sin, rows).astype(accumulator)[:, :, None]
    first, second = split_pairs(x[..., :rotated].astype(accumulator), interleaved)
    y = join_pairs(first * cos - second * sin, second * cos + first * sin, interleaved)
    return jnp.concatenate([y.astype(x.dtype), x[..., rotated:]], axis=-1)
