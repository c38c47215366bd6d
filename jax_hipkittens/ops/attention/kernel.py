"""Attention by HK kernels: what they can serve, and the calls to them.

Axis letters: B batch, T queries, S keys, N query heads, K key/value heads, D head
dimension.
"""

import jax
import jax.numpy as jnp

from jax_hipkittens import _checks, _ffi
from jax_hipkittens.ops.attention.masks import Masks

MAX_HEAD_DIM = 256
DTYPES = ("bfloat16", "float16", "float32")


def require(
    query: jax.Array,
    key: jax.Array,
    bias: jax.Array | None,
    mask: jax.Array | None,
) -> None:
    """Raises NotImplementedError, naming the limit, unless HK can serve the call."""
    _ffi.require()
    if bias is not None:
        raise _checks.limit("attention without bias", _checks.describe(bias))
    if mask is not None:
        raise _checks.limit(
            "attention masked by is_causal, local_window_size and sequence lengths",
            f"a mask {_checks.describe(mask)}",
        )
    if query.dtype.name not in DTYPES:
        raise _checks.limit(f"attention in {', '.join(DTYPES)}", query.dtype.name)
    if query.shape[-1] > MAX_HEAD_DIM:
        raise _checks.limit(
            f"attention of head dimension up to {MAX_HEAD_DIM}", str(query.shape[-1])
        )


def forward(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    scale: jax.Array,
    query_lengths: jax.Array,
    key_lengths: jax.Array,
    masks: Masks,
) -> tuple[jax.Array, jax.Array]:
    """Query [B,T,N,D], key and value [B,S,K,D] -> out [B,T,N,D], LSE f32[B,N,T]."""
    batch, queries, heads, _ = query.shape
    out, lse = _ffi.call(
        "attention_forward",
        (
            _ffi.result(query, query.shape, query.dtype),
            _ffi.result(query, (batch, heads, queries), jnp.float32),
        ),
        *(query, key, value, query_lengths, key_lengths, scale),
        **_attributes(masks, queries, key.shape[1]),
    )
    return out, lse


def backward(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    out: jax.Array,
    lse: jax.Array,
    d_out: jax.Array,
    d_lse: jax.Array,
    scale: jax.Array,
    query_lengths: jax.Array,
    key_lengths: jax.Array,
    masks: Masks,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The cotangents of query, key and value, each of its primal's dtype."""
    d_query, d_key, d_value = _ffi.call(
        "attention_backward",
        [_ffi.result(x, x.shape, x.dtype) for x in (query, key, value)],
        *(query, key, value, out, lse, d_out, d_lse),
        *(query_lengths, key_lengths, scale),
        **_attributes(masks, query.shape[1], key.shape[1]),
    )
    return d_query, d_key, d_value


def _attributes(masks: Masks, queries: int, keys: int) -> dict[str, int]:
    """The static attributes; a window wider than the sequences is cut to them."""
    left, right = masks.window or (-1, -1)
    return {
        "causal": masks.causal,
        "window_left": min(left, queries + keys),
        "window_right": min(right, queries + keys),
    }
