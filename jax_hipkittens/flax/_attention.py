"""What the attention functions for both Flax libraries share."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import jax_hipkittens as hk
from jax_hipkittens import _checks, _dispatch

Window = int | tuple[int, int] | None


def run(
    flax_only: str | None,
    ours: Callable[[], jax.Array],
    flaxs: Callable[[], jax.Array],
    implementation: _dispatch.Implementation,
) -> jax.Array:
    """Our attention, or Flax's own where ``flax_only`` names why it is needed."""
    if flax_only is None:
        return ours()

    def decline(strict: bool) -> jax.Array:
        raise _checks.limit(
            "attention that shows no weights and drops each by itself", str(flax_only)
        )

    table: dict[str, Callable[..., jax.Array]] = {"hk": decline, "xla": flaxs}
    return _dispatch.run("attention_fn", implementation, table)


def shared_dropout(broadcast_dropout: bool, dropout_rate: float) -> str | None:
    """Dropout by one mask for every batch entry and head, which only Flax has."""
    if dropout_rate > 0 and broadcast_dropout:
        return f"dropout_rate={dropout_rate} with broadcast_dropout=True"
    return None


def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: Any,
    mask: Any,
    is_causal: bool,
    local_window_size: Window,
    dropout_rate: float,
    dropout_key: Any,
    implementation: _dispatch.Implementation,
) -> jax.Array:
    """Attention with Flax's shapes: any number of batch axes before [T,N,D].

    bias and mask broadcast to [batch..., N, T, S]; a mask of any dtype keeps a key
    where it is not 0.
    """
    batch = query.shape[:-3]
    out = hk.attention(
        _fold(query),
        _fold(key),
        _fold(value),
        None if bias is None else _fold_logits(jnp.asarray(bias), batch),
        None if mask is None else _fold_logits(jnp.asarray(mask) != 0, batch),
        is_causal=is_causal,
        local_window_size=local_window_size,
        dropout_rate=dropout_rate,
        dropout_key=dropout_key,
        implementation=implementation,
    )
    return out.reshape(*batch, *out.shape[-3:])


def _fold(x: jax.Array) -> jax.Array:
    """[batch..., T, N, D] as [B, T, N, D]."""
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def _fold_logits(x: jax.Array, batch: tuple[int, ...]) -> jax.Array:
    """An array that broadcasts to [batch..., N, T, S], as one of at most 4 axes."""
    if x.ndim <= 3 or len(batch) <= 1:
        return x
    if math.prod(x.shape[:-3]) == 1:
        return x.reshape(x.shape[-3:])
    x = jnp.broadcast_to(x, (*batch, *x.shape[-3:]))
    return x.reshape(math.prod(batch), *x.shape[-3:])


def position_mask(
    mask: Any, query: jax.Array, key: jax.Array, is_causal: bool, window: Window
) -> Any:
    """``mask`` combined with the causal mask and the window, for Flax's attention."""
    if not is_causal and window is None:
        return mask
    distance = jnp.arange(key.shape[-3]) - jnp.arange(query.shape[-3])[:, None]
    keep = distance <= 0 if is_causal else jnp.ones_like(distance, bool)
    if window is not None:
        left, right = window if isinstance(window, (list, tuple)) else (window,) * 2
        keep &= (-left <= distance) & (distance <= right)
    return keep if mask is None else keep & (jnp.asarray(mask) != 0)
