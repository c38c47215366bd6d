"""What goes into attention besides query, key and value."""

from typing import Any, NamedTuple

from jax_hipkittens.ops.attention.masks import Masks


class Scores(NamedTuple):
    """How logits and probabilities are made, as far as it is known at trace time.

    For query t and key s of head n, with x = scale * dot(q, k)::

        x = soft_cap * tanh(x / soft_cap)                     if there is a soft cap
        x = x - slopes[n] * |position of t - position of s|   if there are slopes
        logit = x + bias                                      where s is visible to t

    The sink of a head is one more logit, whose value is zero. Dropout drops
    probabilities, after the softmax.

    Attributes:
      masks: causality and the window.
      layout: "BTNH" or "BNTH".
      soft_cap: above 0, or None.
      dropout_rate: in [0, 1].
      shifted: positions do not start at 0: ``Operands.origin`` says where.
    """

    masks: Masks
    layout: str = "BTNH"
    soft_cap: float | None = None
    dropout_rate: float = 0.0
    shifted: bool = False


class Operands(NamedTuple):
    """Attention's arrays, batch axis first; all but the first six may be None.

    Attributes:
      query, key, value: [B,T,N,D], [B,S,K,D], [B,S,K,E], or T and N, S and K
        exchanged.
      query_lengths, key_lengths: s32[B], within [0, T] and [0, S].
      scale: f32[B].
      origin: s32[B,4]: numbers of the batch entry, the first head, the first query and
        the first key in the whole of which these arrays are a part.
      bias, mask: [B,N,T,S], each size whole or 1; the mask is boolean.
      query_segments, key_segments: s32[B,T] and s32[B,S].
      query_positions, key_positions: s32[B,T] and s32[B,S], in place of indices.
      sinks, slopes: f32[B,N]; B may be 1.
      seed: u32[B,2]; B may be 1.
    """

    query: Any
    key: Any
    value: Any
    query_lengths: Any
    key_lengths: Any
    scale: Any
    origin: Any
    bias: Any = None
    mask: Any = None
    query_segments: Any = None
    key_segments: Any = None
    query_positions: Any = None
    key_positions: Any = None
    sinks: Any = None
    slopes: Any = None
    seed: Any = None
