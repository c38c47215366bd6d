"""Attention in plain ``jax.numpy``: the implementation "xla".

The algorithm is that of ``jax.nn.dot_product_attention``, whose speed it has: logits
and softmax in f32, probabilities rounded to the dtype of the values. Rows that see no
key are zeros here.

Axis letters: B batch, T queries, S keys, N query heads, K key/value heads, G = N / K
query heads per key/value head, D head dimension.
"""

import functools

import jax
import jax.numpy as jnp

from jax_hipkittens.ops.attention import masks as _masks
from jax_hipkittens.ops.attention.masks import Masks


@functools.partial(jax.jit, static_argnames=("masks", "with_lse"), inline=True)
def attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: jax.Array | None,
    mask: jax.Array | None,
    scale: jax.Array | float,
    query_lengths: jax.Array | None,
    key_lengths: jax.Array | None,
    *,
    masks: Masks,
    with_lse: bool,
) -> tuple[jax.Array, jax.Array | None]:
    """Query [B,T,N,D], key and value [B,S,K,D] -> out [B,T,N,D], LSE [B,N,T] or None.

    Lengths are s32[B] within [0, T] and [0, S]; bias and mask broadcast to [B,N,T,S].
    Products accumulate in f32 (f64 for f64), and softmax and LSE are of that dtype.
    """
    batch, queries, heads, dim = query.shape
    keys, kv_heads = key.shape[1:3]
    wide = jnp.float64 if query.dtype == jnp.float64 else jnp.float32
    if keys == 0:
        lse = jnp.full((batch, heads, queries), -jnp.inf, wide)
        return jnp.zeros_like(query), lse if with_lse else None

    grouped = query.reshape(batch, queries, kv_heads, heads // kv_heads, dim)
    grouped = grouped.transpose(0, 2, 3, 1, 4)
    logits = jnp.einsum("BKGTD,BSKD->BKGTS", grouped, key, preferred_element_type=wide)
    logits *= jnp.asarray(scale, wide)
    if bias is not None:
        logits += _group(bias, kv_heads).astype(wide)
    visible = _visible(mask, query_lengths, key_lengths, masks, logits.shape)
    if visible is not None:
        logits = jnp.where(visible, logits, -jnp.inf)

    no_key = None
    if bias is not None or _may_hide_every_key(
        mask, query_lengths, key_lengths, masks, queries, keys
    ):
        no_key = jnp.max(logits, axis=-1, keepdims=True) == -jnp.inf
        logits = jnp.where(no_key, 0, logits)

    probabilities = _unless(no_key, jax.nn.softmax(logits, axis=-1), 0)
    out = jnp.einsum(
        "BKGTS,BSKD->BKGTD", probabilities.astype(value.dtype), value
    ).transpose(0, 3, 1, 2, 4)
    if not with_lse:
        return out.reshape(query.shape), None
    lse = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    lse = _unless(no_key, lse, -jnp.inf).reshape(batch, heads, queries)
    return out.reshape(query.shape), lse


def _unless(condition: jax.Array | None, x: jax.Array, other: float) -> jax.Array:
    return x if condition is None else jnp.where(condition, other, x)


def _group(x: jax.Array, kv_heads: int) -> jax.Array:
    """[B,N,T,S] or [B,1,T,S] -> [B,K,G,T,S] or [B,1,1,T,S]."""
    kv_heads = 1 if x.shape[1] == 1 else kv_heads
    return x.reshape(x.shape[0], kv_heads, x.shape[1] // kv_heads, *x.shape[2:])


def _may_hide_every_key(
    mask: jax.Array | None,
    query_lengths: jax.Array | None,
    key_lengths: jax.Array | None,
    masks: Masks,
    queries: int,
    keys: int,
) -> bool:
    given = (mask, query_lengths, key_lengths)
    if any(array is not None for array in given):
        return True
    return masks.hides_every_key(queries, keys)


def _visible(
    mask: jax.Array | None,
    query_lengths: jax.Array | None,
    key_lengths: jax.Array | None,
    masks: Masks,
    shape: tuple[int, ...],
) -> jax.Array | None:
    """Which keys take part, broadcastable to ``shape`` [B,K,G,T,S]; None for all."""
    kv_heads, queries, keys = shape[1], shape[3], shape[4]
    query = jnp.arange(queries).reshape(1, 1, 1, queries, 1)
    key = jnp.arange(keys).reshape(1, 1, 1, 1, keys)
    terms = []
    if query_lengths is not None:
        terms.append(query < _lift(query_lengths))
    if key_lengths is not None:
        terms.append(key < _lift(key_lengths))
    if masks.causal == _masks.BOTTOM_RIGHT:
        lengths = (query_lengths, queries), (key_lengths, keys)
        last_query, last_key = (n if x is None else _lift(x) for x, n in lengths)
        query = query + (last_key - last_query)
    if masks.causal != _masks.NONE:
        terms.append(key <= query)
    if masks.window is not None:
        left, right = (min(side, queries + keys) for side in masks.window)
        terms.append((query - left <= key) & (key <= query + right))
    if mask is not None:
        terms.append(_group(mask, kv_heads))
    return functools.reduce(jnp.logical_and, terms) if terms else None


def _lift(lengths: jax.Array) -> jax.Array:
    """[B] -> [B,1,1,1,1]."""
    return lengths[:, None, None, None, None]
