"""Attention over packed sequences, and over a cache of keys and values."""

import inspect
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jax_hipkittens import _checks
from jax_hipkittens.ops.attention.api import attention


def attention_varlen(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    cu_seqlens_q: ArrayLike,
    cu_seqlens_k: ArrayLike | None = None,
    *,
    is_causal: bool = False,
    causal_alignment: Literal["top_left", "bottom_right"] = "top_left",
    **options: Any,
) -> Any:
    """Attention of sequences that lie one after another, each to itself alone.

    Sequence i has the queries from ``cu_seqlens_q[i]`` up to ``cu_seqlens_q[i + 1]``
    (not included), and so with keys. Tokens after the last sequence are padding: such
    queries give zeros, and nobody sees such keys.

    Axis letters: T queries, S keys, N query heads, K key/value heads, D head dimension
    of query and key, E of value; I sequences.

    Args:
      query: [T,N,D].
      key: [S,K,D].
      value: [S,K,E].
      cu_seqlens_q: s32[I+1], increasing from 0; their values are not checked.
      cu_seqlens_k: s32[I+1]; the queries' if None.
      is_causal: positions count from the start of each sequence.
      causal_alignment: as in :func:`attention`, for each sequence.
      options: what else :func:`attention` takes, but for lengths, segments, positions
        and the layout.

    Returns:
      The output [T,N,E]; with ``return_residual`` a pair of it and the LSE f32[T,N].

    Raises:
      ValueError: shapes, dtypes or options that do not go together.
      NotImplementedError: none of the implementations asked for can serve the call.
    """
    op = "attention_varlen"
    _require_known(op, options)
    given_arrays = {"query": query, "key": key, "value": value}
    arrays = [_checks.as_array(op, name, x) for name, x in given_arrays.items()]
    layouts = ("TND",), ("SKD",), ("SKE",)
    for name, array, layout in zip(given_arrays, arrays, layouts, strict=True):
        _checks.rank(op, name, array, layout)
    for name in ("segment_ids", "positions", "seq_lengths"):
        given = [f"{side}_{name}" for side in ("query", "key_value")]
        _refuse(op, options, given, "the sequences' bounds say it already")
    _refuse(op, options, ["layout"], "packed arrays are [T,N,D]")
    alignments = "top_left", "bottom_right"
    _checks.choice(op, "causal_alignment", causal_alignment, alignments)
    is_causal = _checks.flag(op, "is_causal", is_causal)
    starts_q = _bounds(op, "cu_seqlens_q", cu_seqlens_q)
    starts_k = starts_q
    if cu_seqlens_k is not None:
        starts_k = _bounds(op, "cu_seqlens_k", cu_seqlens_k)
    _checks.shape(
        op,
        "cu_seqlens_k",
        starts_k,
        starts_q.shape,
        "[I+1]",
        "give as many as queries have",
    )
    query_ids, query_steps = _tokens(starts_q, arrays[0].shape[0], -1)
    key_ids, key_steps = _tokens(starts_k, arrays[1].shape[0], -2)
    if is_causal and causal_alignment == "bottom_right":
        longer = jnp.diff(starts_k) - jnp.diff(starts_q)
        if longer.size:
            query_steps += longer[jnp.maximum(query_ids, 0)]
    if is_causal:  # Positions have the alignment in them.
        causal_alignment = "top_left"
    return attention(
        *(query, key, value),
        is_causal=is_causal,
        causal_alignment=causal_alignment,
        query_segment_ids=query_ids,
        key_value_segment_ids=key_ids,
        query_positions=query_steps,
        key_value_positions=key_steps,
        key_value_seq_lengths=starts_k[-1:],
        **options,
    )


def _require_known(op: str, options: dict[str, Any]) -> None:
    known = inspect.signature(attention).parameters
    for name in options:
        if name not in known:
            raise TypeError(f"{op}() got an unexpected keyword argument {name!r}")


def _refuse(op: str, options: dict[str, Any], names: list[str], advice: str) -> None:
    for name in names:
        if options.get(name) is not None:
            raise _checks.mistake(op, f"no {name}", "one", advice)


def _bounds(op: str, name: str, value: ArrayLike) -> jax.Array:
    array = _checks.as_array(op, name, value)
    whole = jnp.issubdtype(array.dtype, jnp.integer)
    if array.ndim != 1 or array.shape[0] == 0 or not whole:
        raise _checks.mistake(
            op,
            f"{name} of shape [I+1] and dtype int32",
            _checks.describe(array),
            "give 0 and the end of every sequence",
        )
    return array.astype(jnp.int32)


def _tokens(starts: jax.Array, count: int, padding: int) -> tuple[jax.Array, jax.Array]:
    """Each token's sequence, or ``padding`` after the last, and its step in it."""
    token = jnp.arange(count, dtype=jnp.int32)
    sequence = jnp.searchsorted(starts, token, side="right").astype(jnp.int32) - 1
    inside = sequence < starts.shape[0] - 1
    return jnp.where(inside, sequence, padding), token - starts[sequence]


def attention_decode(
    query: ArrayLike,
    key_cache: ArrayLike,
    value_cache: ArrayLike,
    lengths: ArrayLike,
    **options: Any,
) -> Any:
    """Attention of the last tokens of each sequence to a cache of keys and values.

    The T queries are the last T of a sequence's ``lengths[b]`` tokens, whose keys and
    values are in the cache already: query t sees the keys up to its own,
    ``lengths[b] - T + t``. What is in the cache beyond is not read.

    Axis letters: B batch, T new tokens (one or few), S places in the cache, N query
    heads, K key/value heads, D head dimension of query and key, E of value.

    Args:
      query: [B,T,N,D].
      key_cache: [B,S,K,D].
      value_cache: [B,S,K,E].
      lengths: s32[B], up to S. A query before the first token gives zeros.
      options: what else :func:`attention` takes, but for causality,
        lengths and positions.

    Returns:
      The output [B,T,N,E]; with ``return_residual`` a pair of it and the LSE
      f32[B,T,N].

    Raises:
      ValueError: shapes, dtypes or options that do not go together.
      NotImplementedError: none of the implementations asked for can serve the call.
    """
    op = "attention_decode"
    _require_known(op, options)
    fixed = ["is_causal", "causal_alignment", "query_seq_lengths"]
    fixed += ["key_value_seq_lengths", "query_positions", "key_value_positions"]
    _refuse(op, options, fixed, "queries are the last tokens")
    tokens = _checks.as_array(op, "query", query)
    _checks.rank(op, "query", tokens, ("BTND",))
    _require_lengths(op, lengths, tokens)
    return attention(
        *(query, key_cache, value_cache),
        is_causal=True,
        causal_alignment="bottom_right",
        key_value_seq_lengths=lengths,
        **options,
    )


def _require_lengths(op: str, lengths: Any, query: jax.Array) -> None:
    advice = "give how many tokens of each cache there are"
    if lengths is None:
        raise _checks.mistake(op, "lengths s32[B]", "None", advice)
    array = _checks.as_array(op, "lengths", lengths)
    if not jnp.issubdtype(array.dtype, jnp.integer) or array.shape != query.shape[:1]:
        expected = f"lengths s32[B] with B={query.shape[0] if query.ndim else 0}"
        raise _checks.mistake(op, expected, _checks.describe(array), advice)
