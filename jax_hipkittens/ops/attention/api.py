"""Attention: the public function and its checks."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_hipkittens import _checks, _dispatch
from jax_hipkittens.ops.attention import masks as _masks
from jax_hipkittens.ops.attention import reference, vjp
from jax_hipkittens.ops.attention.masks import Masks

_OP = "attention"
_LAYOUTS = ("BTND", "TND")

_Window = int | tuple[int, int] | None
_Lengths = ArrayLike | Sequence[int] | None
_Alignment = Literal["top_left", "bottom_right"]

_IMPLEMENTATIONS: dict[str, Callable[..., tuple[jax.Array, jax.Array | None]]] = {
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
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Scaled dot-product attention, ``softmax(scale * Q K^T + bias) V``.

    Takes the arguments of ``jax.nn.dot_product_attention`` and gives its results, with
    one difference: a query that sees no key gives zeros, zero gradients and an LSE of
    minus infinity, where ``jax.nn`` gives the mean of all values.

    Axis letters: B batch, T queries, S keys, N query heads, K key/value heads (N is a
    multiple of K, and query head n reads key/value head ``n // (N // K)``), D head
    dimension.

    Logits, softmax and LSE are computed in f32, the scale is applied in f32, and the
    output is rounded once. HK kernels serve bfloat16, float16 and float32 with D up to
    256 and neither bias nor mask; they never hold T x S numbers, and run twice they
    give the same bits. First derivatives only.

    Args:
      query: [B,T,N,D] or [T,N,D], floating point.
      key: [B,S,K,D] or [S,K,D], of the query's dtype.
      value: of the key's shape and dtype.
      bias: added to the scaled logits; broadcastable to [B,N,T,S].
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

    Returns:
      The output, of the query's shape and dtype. With ``return_residual`` a pair of it
      and the LSE, f32 [B,T,N] or [T,N]: the natural logarithm of the sum of exponents
      of a row's logits. Unlike that of ``jax.nn`` it is f32 and differentiable.

    Raises:
      ValueError: shapes, dtypes or options that do not go together.
      NotImplementedError: none of the implementations asked for can serve the call.

    Sources: Vaswani et al., arXiv:1706.03762; Ainslie et al. (grouped queries),
    arXiv:2305.13245; Dao (LSE and its use in the backward), arXiv:2307.08691.
    """
    q, k, v = _operands(query, key, value)
    batched = q.ndim == 4
    q, k, v = (x if batched else x[None] for x in (q, k, v))
    masks = _position_masks(is_causal, causal_alignment, local_window_size)
    return_residual = _checks.flag(_OP, "return_residual", return_residual)
    out, lse = _dispatch.run(
        _OP,
        implementation,
        _IMPLEMENTATIONS,
        *(q, k, v),
        _logit_operand("bias", bias, q, k),
        _boolean(_logit_operand("mask", mask, q, k)),
        _scale(scale, q.shape[-1]),
        _lengths("query_seq_lengths", query_seq_lengths, q, "T"),
        _lengths("key_value_seq_lengths", key_value_seq_lengths, k, "S"),
        masks=masks,
        with_lse=return_residual,
    )
    out = out if batched else out[0]
    if lse is None:
        return out
    lse = lse.transpose(0, 2, 1)
    return out, lse if batched else lse[0]


def _operands(
    query: ArrayLike, key: ArrayLike, value: ArrayLike
) -> tuple[jax.Array, jax.Array, jax.Array]:
    q = _checks.as_array(_OP, "query", query)
    k = _checks.as_array(_OP, "key", key)
    v = _checks.as_array(_OP, "value", value)
    for name, array in (("query", q), ("key", k), ("value", v)):
        _checks.rank(_OP, name, array, _LAYOUTS)
        _checks.floating(_OP, name, array)
    _checks.same_dtype(_OP, query=q, key=k, value=v)
    _check_shapes(q, k, v)
    return q, k, v


def _check_shapes(q: jax.Array, k: jax.Array, v: jax.Array) -> None:
    hint = _layout_hint(q, k)
    if k.shape != v.shape:
        raise _checks.mistake(
            _OP,
            "key and value of one shape [B,S,K,D]",
            f"key {_checks.describe(k)} and value {_checks.describe(v)}",
            hint,
        )
    if q.ndim != k.ndim or q.shape[:-3] != k.shape[:-3] or q.shape[-1] != k.shape[-1]:
        raise _checks.mistake(
            _OP,
            "query [B,T,N,D] and key [B,S,K,D] of the same batch B and head dimension "
            "D",
            f"query {_checks.describe(q)} and key {_checks.describe(k)}",
            hint,
        )
    if q.shape[-1] == 0:
        raise _checks.mistake(
            _OP,
            "a head dimension of at least 1",
            f"query {_checks.describe(q)}",
            "an empty head has no logits: leave the call out",
        )
    heads, kv_heads = q.shape[-2], k.shape[-2]
    if kv_heads == 0 or heads % kv_heads:
        raise _checks.mistake(
            _OP,
            "a number of query heads N that is a multiple of the number of key/value "
            "heads K",
            f"N = {heads} of query {_checks.describe(q)} and K = {kv_heads} of key "
            f"{_checks.describe(k)}",
            hint,
        )
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


def _layout_hint(q: jax.Array, k: jax.Array) -> str:
    """Advice for shapes with more heads than positions, which is rarely meant."""
    if q.shape[-2] > q.shape[-3] and k.shape[-2] > k.shape[-3]:
        return (
            "the layout is BTND, and these shapes look like BNTD: swap axes with "
            f"jnp.swapaxes(x, {q.ndim - 3}, {q.ndim - 2})"
        )
    return "the layout is BTND: time before heads"


def _scale(scale: ArrayLike | None, dim: int) -> jax.Array | float:
    if scale is None:
        return float(1 / np.sqrt(dim))
    if _checks.is_number(scale):
        return float(scale)  # type: ignore[arg-type]
    array = _checks.as_array(_OP, "scale", scale)
    if array.ndim != 0 or not jnp.issubdtype(array.dtype, jnp.floating):
        raise _checks.mistake(
            _OP,
            "scale to be one floating-point number",
            _checks.describe(array),
            "scale the query for a scale per head or position",
        )
    return array


def _lengths(
    name: str, lengths: _Lengths, of: jax.Array, axis: str
) -> jax.Array | None:
    """Lengths s32[B], clipped to [0, size of axis 1 of ``of``]."""
    if lengths is None:
        return None
    array = _checks.as_array(_OP, name, _clip_on_host(lengths, of.shape[1]))
    if array.dtype not in (jnp.int32, jnp.int64):
        raise _checks.mistake(
            _OP,
            f"{name} of dtype int32",
            _checks.describe(array),
            "cast it with .astype(jnp.int32)",
        )
    _checks.shape(
        _OP, name, array, of.shape[:1], "[B]", f"give one length up to {axis} per entry"
    )
    return jnp.clip(array, 0, of.shape[1]).astype(jnp.int32)


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
    name: str, operand: ArrayLike | None, q: jax.Array, k: jax.Array
) -> jax.Array | None:
    """``operand`` with leading axes added, once it broadcasts to [B,N,T,S]."""
    if operand is None:
        return None
    array = _checks.as_array(_OP, name, operand)
    full = (q.shape[0], q.shape[2], q.shape[1], k.shape[1])
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
    is_causal: Any, causal_alignment: _Alignment, local_window_size: _Window
) -> Masks:
    is_causal = _checks.flag(_OP, "is_causal", is_causal)
    _checks.choice(
        _OP, "causal_alignment", causal_alignment, ("top_left", "bottom_right")
    )
    window = _window(local_window_size)
    bottom_right = causal_alignment == "bottom_right"
    if bottom_right and not is_causal and window is not None:
        raise _checks.mistake(
            _OP,
            "is_causal=True with a window aligned bottom_right",
            "is_causal=False",
            "windows of attention that is not causal are aligned top_left",
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
