"""Attention in plain ``jax.numpy``: the implementation "xla".

The algorithm is that of ``jax.nn.dot_product_attention``, whose speed it has: logits
and softmax in f32, probabilities rounded to the dtype of the values. Rows that see no
key are zeros here.

Axis letters: B batch, T queries, S keys, N query heads, K key/value heads, G = N / K
query heads per key/value head, D head dimension of query and key, E of value.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp

from jax_hipkittens.ops import philox
from jax_hipkittens.ops.attention import masks as _masks
from jax_hipkittens.ops.attention.scores import Operands, Scores


@functools.partial(jax.jit, static_argnames="scores", inline=True)
def attention(operands: Operands, *, scores: Scores) -> tuple[jax.Array, jax.Array]:
    """(out, lse): out as the query with E for D, lse f32[B,N,T], or f64 for f64.

    Products accumulate in f32 (f64 for f64), and softmax and LSE are of that dtype.
    """
    if scores.layout == "BNTH":
        operands = operands._replace(
            **{
                name: getattr(operands, name).swapaxes(1, 2)
                for name in ("query", "key", "value")
            }
        )
    out, lse = _attention(operands, scores)
    return (out.swapaxes(1, 2) if scores.layout == "BNTH" else out), lse


def _attention(operands: Operands, scores: Scores) -> tuple[jax.Array, jax.Array]:
    query = operands.query
    key, value = (_within(x, operands.key_lengths) for x in operands[1:3])
    batch, queries, heads, dim = query.shape
    keys, kv_heads = key.shape[1:3]
    wide = jnp.float64 if query.dtype == jnp.float64 else jnp.float32
    shape = (batch, queries, heads, value.shape[-1])
    if keys == 0:
        lse = _with_sinks(jnp.full((batch, heads, queries), -jnp.inf, wide), operands)
        return jnp.zeros(shape, query.dtype), lse

    by_group = batch, queries, kv_heads, heads // kv_heads, dim
    grouped = query.reshape(by_group).transpose(0, 2, 3, 1, 4)
    logits = jnp.einsum("BKGTD,BSKD->BKGTS", grouped, key, preferred_element_type=wide)
    logits = _scored(logits, operands, scores)
    visible = _visible(operands, scores, logits.shape)
    if visible is not None:
        logits = jnp.where(visible, logits, -jnp.inf)

    no_key = None
    if operands.bias is not None or _may_hide_every_key(operands, scores):
        no_key = jnp.max(logits, axis=-1, keepdims=True) == -jnp.inf
        logits = jnp.where(no_key, 0, logits)

    lse = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    lse = _unless(no_key, lse, -jnp.inf)
    total = _with_sinks(lse[..., 0].reshape(batch, heads, queries), operands)
    probabilities = _unless(no_key, jax.nn.softmax(logits, axis=-1), 0)
    if operands.sinks is not None:
        # A row without keys has no probabilities for the sink to shrink.
        shrunk = _unless(no_key, lse, 0) - _rows(total, lse.shape)
        probabilities *= jnp.exp(_unless(no_key, shrunk, 0))
    if scores.dropout_rate > 0:
        probabilities = _dropped(probabilities, operands, scores)
    out = jnp.einsum("BKGTS,BSKE->BTKGE", probabilities.astype(value.dtype), value)
    return out.reshape(shape), total


def _within(x: jax.Array, lengths: jax.Array | None) -> jax.Array:
    """Keys or values [B,S,K,D] with zeros beyond the lengths.

    What lies there may be anything, and zero times infinity is not zero.
    """
    if lengths is None:
        return x
    steps = jnp.arange(x.shape[1]).reshape(1, -1, 1, 1)
    inside = steps < lengths[:, None, None, None]
    return jnp.where(inside, x, jnp.zeros((), x.dtype))


def _rows(x: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """[B,N,T] as [B,K,G,T,1], where it is finite."""
    return jnp.where(x == -jnp.inf, 0, x).reshape(shape[:-1])[..., None]


def _unless(condition: jax.Array | None, x: jax.Array, other: float) -> jax.Array:
    return x if condition is None else jnp.where(condition, other, x)


def _per_head(x: jax.Array, kv_heads: int) -> jax.Array:
    """[B or 1,N] -> [B or 1,K,G,1,1]."""
    return x.reshape(x.shape[0], kv_heads, x.shape[1] // kv_heads, 1, 1)


def _group(x: jax.Array, kv_heads: int) -> jax.Array:
    """[B,N,T,S] or [B,1,T,S] -> [B,K,G,T,S] or [B,1,1,T,S]."""
    kv_heads = 1 if x.shape[1] == 1 else kv_heads
    return x.reshape(x.shape[0], kv_heads, x.shape[1] // kv_heads, *x.shape[2:])


def _lift(lengths: jax.Array) -> jax.Array:
    """[B] -> [B,1,1,1,1]."""
    return lengths[:, None, None, None, None]


def _with_sinks(lse: jax.Array, operands: Operands) -> jax.Array:
    """LSE [B,N,T] of the logits and the heads' sinks, of queries within the length."""
    if operands.sinks is None:
        return lse
    sinks = operands.sinks.astype(lse.dtype)[:, :, None]
    total = jnp.where(lse == -jnp.inf, sinks, jnp.logaddexp(_finite(lse), sinks))
    if operands.query_lengths is None:
        return total
    steps = jnp.arange(lse.shape[2])[None, None]
    inside = steps < operands.query_lengths[:, None, None]
    return jnp.where(inside, total, -jnp.inf)


def _finite(x: jax.Array) -> jax.Array:
    return jnp.where(x == -jnp.inf, 0, x)


def _scored(logits: jax.Array, operands: Operands, scores: Scores) -> jax.Array:
    """Dot products [B,K,G,T,S] made into logits, before masks."""
    kv_heads = logits.shape[1]
    logits *= _lift(operands.scale.astype(logits.dtype))
    if scores.soft_cap is not None:
        logits = scores.soft_cap * jnp.tanh(logits / scores.soft_cap)
    if operands.slopes is not None:
        query, key = _positions(operands, scores, logits.shape)
        distance = jnp.abs(query - key).astype(logits.dtype)
        logits -= _per_head(operands.slopes, kv_heads).astype(logits.dtype) * distance
    if operands.bias is not None:
        logits += _group(operands.bias, kv_heads).astype(logits.dtype)
    return logits


def _positions(
    operands: Operands, scores: Scores, shape: tuple[int, ...]
) -> tuple[jax.Array, jax.Array]:
    """Of queries (as the alignment has them) and keys, to compare with each other."""
    queries, keys = shape[3:]
    query = jnp.arange(queries).reshape(1, 1, 1, queries, 1)
    key = jnp.arange(keys).reshape(1, 1, 1, 1, keys)
    if operands.query_positions is not None:
        query = operands.query_positions[:, None, None, :, None]
        key = operands.key_positions[:, None, None, None, :]
    elif scores.shifted:
        query = query + _lift(operands.origin[:, 2])
        key = key + _lift(operands.origin[:, 3])
    if scores.masks.causal == _masks.BOTTOM_RIGHT:
        last_query, last_key = operands.query_lengths, operands.key_lengths
        last_query = queries if last_query is None else _lift(last_query)
        last_key = keys if last_key is None else _lift(last_key)
        query = query + (last_key - last_query)
    return query, key


def _may_hide_every_key(operands: Operands, scores: Scores) -> bool:
    given = [operands.mask, operands.query_lengths, operands.key_lengths]
    given += [operands.query_segments, operands.query_positions]
    if scores.shifted or any(array is not None for array in given):
        return True
    axis = 2 if scores.layout == "BNTH" else 1
    queries, keys = operands.query.shape[axis], operands.key.shape[axis]
    return scores.masks.hides_every_key(queries, keys)


def _visible(
    operands: Operands, scores: Scores, shape: tuple[int, ...]
) -> jax.Array | None:
    """Which keys take part, broadcastable to ``shape`` [B,K,G,T,S]; None for all."""
    queries, keys = shape[3:]
    terms: list[Any] = []
    if operands.query_lengths is not None:
        steps = jnp.arange(queries).reshape(1, 1, 1, queries, 1)
        terms.append(steps < _lift(operands.query_lengths))
    if operands.key_lengths is not None:
        steps = jnp.arange(keys).reshape(1, 1, 1, 1, keys)
        terms.append(steps < _lift(operands.key_lengths))
    masks = scores.masks
    if masks.causal != _masks.NONE or masks.window is not None:
        query, key = _positions(operands, scores, shape)
        if masks.causal != _masks.NONE:
            terms.append(key <= query)
        if masks.window is not None:
            left, right = (min(side, 2**30) for side in masks.window)
            terms.append((query - key <= left) & (key - query <= right))
    if operands.query_segments is not None:
        of_query = operands.query_segments[:, None, None, :, None]
        terms.append(of_query == operands.key_segments[:, None, None, None, :])
    if operands.mask is not None:
        terms.append(_group(operands.mask, shape[1]))
    return functools.reduce(jnp.logical_and, terms) if terms else None


def _dropped(x: jax.Array, operands: Operands, scores: Scores) -> jax.Array:
    """Probabilities [B,K,G,T,S] after dropout."""
    batch, kv_heads, group, queries, keys = x.shape
    kept = keep_mask(
        operands.seed,
        operands.origin,
        scores.dropout_rate,
        (batch, kv_heads * group, queries, keys),
    ).reshape(x.shape)
    return jnp.where(kept, x * philox.keep_scale(scores.dropout_rate), 0)


def keep_mask(
    seed: jax.Array, origin: jax.Array, rate: float, shape: tuple[int, int, int, int]
) -> jax.Array:
    """bool[B,N,T,S], true where dropout of ``rate`` keeps a probability.

    Entry b, head n, query t and key s are numbered from origin[b] (s32[B,4]). They
    look at word s % 4 of philox4x32(counter=(s // 4, t, n, b), key=seed[b]);
    ``seed`` is u32[B,2] or u32[1,2].
    """
    first = origin.astype(jnp.uint32)[:, :, None, None, None]
    entry, *firsts = (first[:, i] for i in range(4))  # [B,1,1,1] each
    head, query, key = (
        start + jnp.arange(size, dtype=jnp.uint32).reshape(own)
        for start, size, own in zip(
            firsts,
            shape[1:],
            ((1, -1, 1, 1), (1, 1, -1, 1), (1, 1, 1, -1)),
            strict=True,
        )
    )
    group, query, head, entry = (
        jnp.broadcast_to(x, shape) for x in (key // 4, query, head, entry)
    )
    low, high = (seed[:, i].reshape(-1, 1, 1, 1) for i in range(2))
    words = philox.philox4x32((group, query, head, entry), (low, high))
    which = jnp.broadcast_to(key % 4, shape)
    draws = functools.reduce(
        lambda rest, i: jnp.where(which == i, words[i], rest), range(1, 4), words[0]
    )
    limit = philox.threshold(rate)
    if limit >= 1 << 32:
        return jnp.zeros(shape, bool)
    return draws >= jnp.uint32(limit)
