"""Attention: the public function and its checks."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_hipkittens import _checks, _dispatch
from jax_hipkittens.ops.attention import masks as _masks
from jax_hipkittens.ops.attention import reference, vjp
from jax_hipkittens.ops.attention.masks import Masks
from jax_hipkittens.ops.attention.scores import Operands, Scores

_OP = "attention"
_LAYOUTS = {"BTNH": ("BTND", "TND"), "BNTH": ("BNTD", "NTD")}

_Window = int | tuple[int, int] | None
_Lengths = ArrayLike | Sequence[int] | None
_Alignment = Literal["top_left", "bottom_right"]
_Layout = Literal["BTNH", "BNTH"]

_IMPLEMENTATIONS: dict[str, Callable[..., tuple[jax.Array, jax.Array]]] = {
    "hk": vjp.attention,
    "xla": reference.attention,
}


@overload
def attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: _Lengths = None,
    key_value_seq_lengths: _Lengths = None,
    local_window_size: _Window = None,
    implementation: _dispatch.Implementation = None,
    return_residual: Literal[False] = False,
    causal_alignment: _Alignment = "top_left",
    logits_soft_cap: float | None = None,
    sinks: ArrayLike | None = None,
    alibi_slopes: ArrayLike | None = None,
    query_segment_ids: ArrayLike | None = None,
    key_value_segment_ids: ArrayLike | None = None,
    query_positions: ArrayLike | None = None,
    key_value_positions: ArrayLike | None = None,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    layout: _Layout = "BTNH",
) -> jax.Array: ...


@overload
def attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: _Lengths = None,
    key_value_seq_lengths: _Lengths = None,
    local_window_size: _Window = None,
    implementation: _dispatch.Implementation = None,
    return_residual: Literal[True],
    causal_alignment: _Alignment = "top_left",
    logits_soft_cap: float | None = None,
    sinks: ArrayLike | None = None,
    alibi_slopes: ArrayLike | None = None,
    query_segment_ids: ArrayLike | None = None,
    key_value_segment_ids: ArrayLike | None = None,
    query_positions: ArrayLike | None = None,
    key_value_positions: ArrayLike | None = None,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    layout: _Layout = "BTNH",
) -> tuple[jax.Array, jax.Array]: ...


def attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: _Lengths = None,
    key_value_seq_lengths: _Lengths = None,
    local_window_size: _Window = None,
    implementation: _dispatch.Implementation = None,
    return_residual: bool = False,
    causal_alignment: _Alignment = "top_left",
    logits_soft_cap: float | None = None,
    sinks: ArrayLike | None = None,
    alibi_slopes: ArrayLike | None = None,
    query_segment_ids: ArrayLike | None = None,
    key_value_segment_ids: ArrayLike | None = None,
    query_positions: ArrayLike | None = None,
    key_value_positions: ArrayLike | None = None,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    layout: _Layout = "BTNH",
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Scaled dot-product attention, ``softmax(scale * Q K^T + bias) V``.

    Takes the arguments of ``jax.nn.dot_product_attention`` and gives its results, with
    one difference: a query that sees no key gives zeros, zero gradients and an LSE of
    minus infinity, where ``jax.nn`` gives the mean of all values.

    Axis letters: B batch, T queries, S keys, N query heads, K key/value heads (N is a
    multiple of K, and query head n reads key/value head ``n // (N // K)``), D head
    dimension of query and key, E of value and output.

    Logits, softmax and LSE are computed in f32, the scale is applied in f32, and the
    output is rounded once. HK kernels serve bfloat16, float16 and float32 with D and E
    up to 256; but for a bias's own gradient they never hold T x S numbers, and run
    twice they give the same bits. Derivatives of first order in reverse mode are
    kernels too; forward mode, second derivatives, and the gradient of ALiBi slopes
    are computed by XLA.

    Args:
      query: [B,T,N,D] or [T,N,D], floating point.
      key: [B,S,K,D] or [S,K,D], of the query's dtype.
      value: [B,S,K,E] or [S,K,E], of the query's dtype.
      bias: added to the scaled logits; broadcastable to [B,N,T,S]. Differentiable.
      mask: boolean, True where a key takes part; broadcastable to [B,N,T,S].
      scale: a number or scalar array, differentiable; 1/sqrt(D) if None.
      is_causal: query t sees no key s > t; see ``causal_alignment``.
      query_seq_lengths: s32[B]; later queries give zeros.
      key_value_seq_lengths: s32[B]; later keys are seen by no query.
      local_window_size: (left, right), or one number for both: query t sees only keys
        t - left to t + right.
      implementation: "hk", "xla", several in order, or None for HK where it can serve
        the call and XLA otherwise.
      return_residual: also return the LSE.
      causal_alignment: "top_left" aligns query 0 with key 0, as ``jax.nn`` does.
        "bottom_right" aligns the last query with the last key, as FlashAttention does,
        by adding S - T (of the given lengths, if any) to t in the rules above.
      logits_soft_cap: c > 0 makes each scaled logit x into c * tanh(x / c), before
        slopes and bias are added; known at trace time.
      sinks: [N], floating point, differentiable: one more logit for each head, whose
        value is zero.
      alibi_slopes: [N], floating point: logits of key s lose slope * |t - s|, with t
        as in the rules above.
      query_segment_ids: s32[B,T]; a query sees only keys of its own segment.
      key_value_segment_ids: s32[B,S]; the queries' ids if None and T = S.
      query_positions: s32[B,T], in place of t in the rules above.
      key_value_positions: s32[B,S], in place of s; the queries' if None and T = S.
      dropout_rate: the share of probabilities set to zero, in [0, 1], known at trace
        time; the others are divided by 1 - dropout_rate.
      dropout_key: a JAX random key, typed or raw; needed when ``dropout_rate`` is not
        0. A key gives the same mask in every implementation and under any sharding.
      layout: "BTNH" as above, or "BNTH": query [B,N,T,D], key [B,K,S,D], value
        [B,K,S,E] and output [B,N,T,E].

    Returns:
      The output, as the query with E for D. With ``return_residual`` a pair of it and
      the LSE, f32 [B,T,N] or [T,N] ([B,N,T] or [N,T] in BNTH): the natural logarithm of
      the sum of exponents of a row's logits, its sink included. Unlike that of
      ``jax.nn`` it is f32 and differentiable.

    Raises:
      ValueError: shapes, dtypes or options that do not go together.
      NotImplementedError: none of the implementations asked for can serve the call.

    Sources: Vaswani et al., arXiv:1706.03762; Ainslie et al. (grouped queries),
    arXiv:2305.13245; Dao (LSE and its use in the backward), arXiv:2307.08691; Gemma
    team (soft cap), arXiv:2408.00118; Xiao et al. (sinks), arXiv:2309.17453; Press et
    al. (ALiBi), arXiv:2108.12409.
    """
    _checks.choice(_OP, "layout", layout, ("BTNH", "BNTH"))
    q, k, v = _operands(query, key, value, layout)
    batched = q.ndim == 4
    q, k, v = (x if batched else x[None] for x in (q, k, v))
    sizes = _sizes(q, k, layout)
    return_residual = _checks.flag(_OP, "return_residual", return_residual)
    rate = _checks.dropout_rate(_OP, dropout_rate)
    scores = Scores(
        _position_masks(
            is_causal, causal_alignment, local_window_size, alibi_slopes is not None
        ),
        layout,
        _soft_cap(logits_soft_cap),
        rate,
    )
    segments = _of_tokens(
        "segment_ids", query_segment_ids, key_value_segment_ids, sizes, batched
    )
    positions = _of_tokens(
        "positions", query_positions, key_value_positions, sizes, batched
    )
    out, lse = _dispatch.run(
        _OP,
        implementation,
        _IMPLEMENTATIONS,
        Operands(
            *(q, k, v),
            _lengths(
                "query_seq_lengths", query_seq_lengths, sizes.batch, sizes.queries
            ),
            _lengths(
                "key_value_seq_lengths", key_value_seq_lengths, sizes.batch, sizes.keys
            ),
            _scale(scale, q.shape[-1])[None],
            _origin(sizes.batch),
            _logit_operand("bias", bias, sizes),
            _boolean(_logit_operand("mask", mask, sizes)),
            *(*segments, *positions),
            _of_heads("sinks", sinks, sizes.heads),
            _of_heads("alibi_slopes", alibi_slopes, sizes.heads),
            None if rate == 0 else _checks.dropout_seed(_OP, rate, dropout_key)[None],
        ),
        scores=scores,
    )
    out = out if batched else out[0]
    if not return_residual:
        return out
    lse = lse.transpose(0, 2, 1) if layout == "BTNH" else lse
    return out, lse if batched else lse[0]


class _Sizes(NamedTuple):
    batch: int
    queries: int
    keys: int
    heads: int
    kv_heads: int


def _sizes(q: jax.Array, k: jax.Array, layout: str) -> _Sizes:
    """Of a query and a key of either layout with a batch axis."""
    time, head = (1, 2) if layout == "BTNH" else (2, 1)
    return _Sizes(
        q.shape[0], q.shape[time], k.shape[time], q.shape[head], k.shape[head]
    )


def _operands(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, layout: str
) -> tuple[jax.Array, jax.Array, jax.Array]:
    q = _checks.as_array(_OP, "query", query)
    k = _checks.as_array(_OP, "key", key)
    v = _checks.as_array(_OP, "value", value)
    for name, array in (("query", q), ("key", k), ("value", v)):
        _checks.rank(_OP, name, array, _LAYOUTS[layout])
        _checks.floating(_OP, name, array)
    _checks.same_dtype(_OP, query=q, key=k, value=v)
    _check_shapes(q, k, v, layout)
    return q, k, v


def _check_shapes(q: jax.Array, k: jax.Array, v: jax.Array, layout: str) -> None:
    hint = _layout_hint(q, k, layout)
    ours = "BTND" if layout == "BTNH" else "BNTD"
    theirs = ours.replace("T", "S").replace("N", "K")
    if k.shape[:-1] != v.shape[:-1]:
        raise _checks.mistake(
            _OP,
            f"key [{','.join(theirs)}] and value of one shape but for the last axis",
            f"key {_checks.describe(k)} and value {_checks.describe(v)}",
            hint,
        )
    if q.ndim != k.ndim or q.shape[:-3] != k.shape[:-3] or q.shape[-1] != k.shape[-1]:
        raise _checks.mistake(
            _OP,
            f"query [{','.join(ours)}] and key [{','.join(theirs)}] of the same batch "
            "B and head dimension D",
            f"query {_checks.describe(q)} and key {_checks.describe(k)}",
            hint,
        )
    if q.shape[-1] == 0 or v.shape[-1] == 0:
        raise _checks.mistake(
            _OP,
            "a head dimension of at least 1",
            f"query {_checks.describe(q)} and value {_checks.describe(v)}",
            "an empty head has no logits or no output: leave the call out",
        )
    head = -2 if layout == "BTNH" else -3
    heads, kv_heads = q.shape[head], k.shape[head]
    if kv_heads == 0 or heads % kv_heads:
        raise _checks.mistake(
            _OP,
            "a number of query heads N that is a multiple of the number of key/value "
            "heads K",
            f"N = {heads} of query {_checks.describe(q)} and K = {kv_heads} of key "
            f"{_checks.describe(k)}",
            hint,
        )
    if layout == "BTNH":
        _warn_of_layout(q, k, hint)


def _warn_of_layout(q: jax.Array, k: jax.Array, hint: str) -> None:
    """Warns of right shapes that are more likely heads before time.

    Read as BTND, self-attention in BNTD has as many key/value heads as query heads,
    more of them than positions, and T a multiple of S.
    """
    queries, heads = q.shape[-3:-1]
    keys, kv_heads = k.shape[-3:-1]
    grouped = keys > 0 and queries % keys == 0
    if heads == kv_heads and 1 < queries < heads and grouped and heads >= 32:
        _dispatch.warn_once(
            f"{_OP}: query {_checks.describe(q)} and key {_checks.describe(k)}: {hint}"
        )


def _layout_hint(q: jax.Array, k: jax.Array, layout: str) -> str:
    """Advice for shapes with more heads than positions, which is rarely meant."""
    if layout == "BNTH":
        return "the layout asked for is BNTH: heads before time"
    if q.shape[-2] > q.shape[-3] and k.shape[-2] > k.shape[-3]:
        return (
            "the layout is BTND, and these shapes look like BNTD: swap axes with "
            f'jnp.swapaxes(x, {q.ndim - 3}, {q.ndim - 2}), or pass layout="BNTH"'
        )
    return "the layout is BTND: time before heads"


def _scale(scale: ArrayLike | None, dim: int) -> Any:
    if scale is None:
        return np.float64(1 / np.sqrt(dim))
    if _checks.is_number(scale):
        return np.float64(float(scale))  # type: ignore[arg-type]
    array = _checks.as_array(_OP, "scale", scale)
    if array.ndim != 0 or not jnp.issubdtype(array.dtype, jnp.floating):
        raise _checks.mistake(
            _OP,
            "scale to be one floating-point number",
            _checks.describe(array),
            "scale the query for a scale per head or position",
        )
    return array


def _soft_cap(cap: Any) -> float | None:
    if cap is None:
        return None
    f32 = jnp.finfo(jnp.float32)
    if not (_checks.is_number(cap) and float(f32.tiny) <= cap <= float(f32.max)):
        raise _checks.mistake(
            _OP,
            "logits_soft_cap to be an f32 number above 0, known at trace time",
            repr(cap),
            "pass None for no cap",
        )
    return float(cap)


def _origin(batch: int) -> jax.Array:
    """s32[B,4]: this call is the whole of its problem."""
    entries = jnp.arange(batch, dtype=jnp.int32)
    return jnp.stack([entries, *[jnp.zeros_like(entries)] * 3], axis=-1)


def _of_heads(name: str, value: ArrayLike | None, heads: int) -> jax.Array | None:
    """[N] as [1,N]."""
    if value is None:
        return None
    array = _checks.as_array(_OP, name, value)
    _checks.floating(_OP, name, array)
    _checks.shape(_OP, name, array, (heads,), "[N]", "give one number per query head")
    return array[None]


def _of_tokens(
    name: str, of_query: Any, of_key: Any, sizes: _Sizes, batched: bool
) -> tuple[jax.Array | None, jax.Array | None]:
    """Numbers s32[B,T] of the queries and s32[B,S] of the keys, or neither."""
    if of_query is None and of_key is None:
        return None, None
    of_query, of_key = (
        x if y is None else y for x, y in ((of_key, of_query), (of_query, of_key))
    )
    return (
        _tokens(
            f"query_{name}", of_query, (sizes.batch, sizes.queries), "[B,T]", batched
        ),
        _tokens(
            f"key_value_{name}", of_key, (sizes.batch, sizes.keys), "[B,S]", batched
        ),
    )


def _tokens(
    name: str, value: Any, shape: tuple[int, int], axes: str, batched: bool
) -> jax.Array:
    array = _checks.as_array(_OP, name, value)
    if not batched and array.ndim == 1:
        array = array[None]
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise _checks.mistake(
            _OP,
            f"{name} of dtype int32",
            _checks.describe(array),
            "cast it with .astype(jnp.int32)",
        )
    advice = "give both the queries' and the keys', each one number per token"
    _checks.shape(_OP, name, array, shape, axes, advice)
    return array.astype(jnp.int32)


def _lengths(name: str, lengths: _Lengths, batch: int, size: int) -> jax.Array | None:
    """Lengths s32[B], clipped to [0, size]."""
    if lengths is None:
        return None
    array = _checks.as_array(_OP, name, _clip_on_host(lengths, size))
    if array.dtype not in (jnp.int32, jnp.int64):
        raise _checks.mistake(
            _OP,
            f"{name} of dtype int32",
            _checks.describe(array),
            "cast it with .astype(jnp.int32)",
        )
    advice = f"give one length up to {size} per entry"
    _checks.shape(_OP, name, array, (batch,), "[B]", advice)
    return jnp.clip(array, 0, size).astype(jnp.int32)


def _clip_on_host(lengths: Any, size: int) -> Any:
    """Lengths that are no JAX array clipped to [0, size], before int32 wraps them."""
    if isinstance(lengths, jax.Array):
        return lengths
    if isinstance(lengths, Sequence) and any(isinstance(n, jax.Array) for n in lengths):
        return lengths
    array = np.asarray(lengths)
    if not np.issubdtype(array.dtype, np.integer) and array.dtype != np.object_:
        return lengths
    wide = array.dtype.itemsize >= 4 and array.dtype != np.uint32
    clipped = np.clip(array, 0, size)
    return clipped.astype(np.int32) if wide else clipped


def _logit_operand(
    name: str, operand: ArrayLike | None, sizes: _Sizes
) -> jax.Array | None:
    """``operand`` with leading axes added, once it broadcasts to [B,N,T,S]."""
    if operand is None:
        return None
    array = _checks.as_array(_OP, name, operand)
    if name == "bias":
        _checks.floating(_OP, name, array)
    full = (sizes.batch, sizes.heads, sizes.queries, sizes.keys)
    shape = (1,) * (4 - array.ndim) + array.shape
    fits = len(shape) == 4 and all(
        size in (1, whole) for size, whole in zip(shape, full, strict=True)
    )
    if not fits:
        raise _checks.mistake(
            _OP,
            f"{name} broadcastable to [B,N,T,S] = {full}",
            _checks.describe(array),
            "give each axis its full size or 1",
        )
    return array.reshape(shape)


def _boolean(mask: jax.Array | None) -> jax.Array | None:
    if mask is not None and mask.dtype != jnp.bool_:
        raise _checks.mistake(
            _OP,
            "a boolean mask, True where a key takes part",
            _checks.describe(mask),
            "compare it (mask != 0), or pass an additive mask as bias",
        )
    return mask


def _position_masks(
    is_causal: Any,
    causal_alignment: _Alignment,
    local_window_size: _Window,
    has_slopes: bool = False,
) -> Masks:
    is_causal = _checks.flag(_OP, "is_causal", is_causal)
    _checks.choice(
        _OP, "causal_alignment", causal_alignment, ("top_left", "bottom_right")
    )
    window = _window(local_window_size)
    bottom_right = causal_alignment == "bottom_right"
    if bottom_right and not is_causal and (window is not None or has_slopes):
        raise _checks.mistake(
            _OP,
            "is_causal=True with a window or slopes aligned bottom_right",
            "is_causal=False",
            "without causality they are aligned top_left",
        )
    if not is_causal:
        return Masks(_masks.NONE, window)
    return Masks(_masks.BOTTOM_RIGHT if bottom_right else _masks.TOP_LEFT, window)


def _window(local_window_size: Any) -> tuple[int, int] | None:
    if local_window_size is None:
        return None
    given = local_window_size
    try:
        if not isinstance(given, (list, tuple)):
            given = (given, given)
        left, right = (operator.index(side) for side in given)
    except (TypeError, ValueError):
        left = right = -1
    if left < 0 or right < 0:
        raise _checks.mistake(
            _OP,
            "local_window_size to be a number or a pair (left, right) of numbers, each "
            "at least 0",
            repr(local_window_size),
            "for a side without limit give the length of the keys",
        )
    return left, right
