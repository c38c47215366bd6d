"""HK ops for ``flax.linen``.

- ``attention_fn`` for ``MultiHeadDotProductAttention`` and ``MultiHeadAttention``;
- ``dot_general`` for ``Dense``, ``DenseGeneral`` and attention's projections;
- ``LayerNorm`` and ``RMSNorm`` in place of Flax's, with the same parameters.

Example::

    from flax import linen as nn
    from jax_hipkittens.flax import linen as hk_nn

    nn.MultiHeadAttention(
        num_heads=8,
        attention_fn=functools.partial(hk_nn.attention_fn, is_causal=True),
        qkv_dot_general=hk_nn.dot_general,
        out_dot_general=hk_nn.dot_general,
    )
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.linen import dtypes

import jax_hipkittens as hk
from jax_hipkittens import _dispatch
from jax_hipkittens import dot_general as dot_general
from jax_hipkittens.flax import _attention, _norm


def attention_fn(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    bias: Any = None,
    mask: Any = None,
    broadcast_dropout: bool = True,
    dropout_rng: Any = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: nn.Module | None = None,
    force_fp32_for_softmax: bool = False,
    einsum_dot_general: Any = None,
    qk_attn_weights_einsum: Any = None,
    attn_weights_value_einsum: Any = None,
    *,
    is_causal: bool = False,
    local_window_size: _attention.Window = None,
    implementation: _dispatch.Implementation = None,
) -> jax.Array:
    """``flax.linen.dot_product_attention`` on HK kernels.

    Softmax is always in f32 and products accumulate in f32, so ``precision`` and
    ``force_fp32_for_softmax`` change nothing. A mask, whatever its dtype, keeps keys
    where it is not 0. Causal attention is quicker by
    ``functools.partial(attention_fn, is_causal=True)``, which skips keys, than by a
    mask. A query without any key gives zeros. Dropout drops the share that Flax drops,
    but other weights; with ``broadcast_dropout=True``, where batch and heads share one
    mask, Flax's own attention runs, as it does for ``module`` (sowing the weights) and
    custom einsums.

    Args:
      query: [batch..., T, N, D].
      key: [batch..., S, K, D]; N is a multiple of K.
      value: [batch..., S, K, D].
      bias: broadcastable to [batch..., N, T, S], added to the logits.
      mask: broadcastable to [batch..., N, T, S].
      broadcast_dropout: as Flax.
      dropout_rng: as Flax.
      dropout_rate: as Flax.
      deterministic: as Flax.
      dtype: of the computation and the result; None infers it from the operands.
      precision: as Flax.
      module: as Flax.
      force_fp32_for_softmax: as Flax.
      einsum_dot_general: as Flax.
      qk_attn_weights_einsum: as Flax.
      attn_weights_value_einsum: as Flax.
      is_causal: query t sees the keys s <= t.
      local_window_size: as in ``jax_hipkittens.attention``.
      implementation: as in ``jax_hipkittens.attention``.

    Returns:
      [batch..., T, N, D].
    """

    rate = 0.0 if deterministic else dropout_rate

    def ours() -> jax.Array:
        q, k, v = dtypes.promote_dtype(query, key, value, dtype=dtype)
        return _attention.attention(
            *(q, k, v, bias, mask, is_causal, local_window_size),
            *(rate, dropout_rng, implementation),
        )

    def flaxs() -> jax.Array:
        combined = _attention.position_mask(
            mask, query, key, is_causal, local_window_size
        )
        return nn.dot_product_attention(
            query,
            key,
            value,
            bias,
            combined,
            broadcast_dropout,
            dropout_rng,
            dropout_rate,
            deterministic,
            dtype,
            precision,
            module,
            force_fp32_for_softmax,
            einsum_dot_general,
            qk_attn_weights_einsum,
            attn_weights_value_einsum,
        )

    flax_only = _attention.shared_dropout(broadcast_dropout, rate)
    if module is not None:
        flax_only = "module, to sow the weights in"
    elif einsum_dot_general or qk_attn_weights_einsum or attn_weights_value_einsum:
        flax_only = "a custom einsum"
    return _attention.run(flax_only, ours, flaxs, implementation)


class LayerNorm(nn.LayerNorm):
    """``flax.linen.LayerNorm`` on HK kernels, with the same parameters.

    The variance always takes two passes: ``use_fast_variance`` is not used. Axes
    other than the last, ``axis_name``, a mask and ``force_float32_reductions=False``
    run Flax's own module.

    Attributes:
      implementation: as in ``jax_hipkittens.layer_norm``.
    """

    implementation: _dispatch.Implementation = None

    @nn.compact
    def __call__(self, x: Any, *, mask: Any = None) -> jax.Array:
        """Normalises x [..., H]."""
        x = jnp.asarray(x)
        return _norm.run(
            "LayerNorm",
            _flax_only(self, x, mask),
            lambda: _apply(self, hk.layer_norm, x, self.use_bias),
            lambda: nn.LayerNorm.__call__(self, x, mask=mask),
            self.implementation,
        )


class RMSNorm(nn.RMSNorm):
    """``flax.linen.RMSNorm`` on HK kernels, with the same parameters.

    Axes other than the last, ``axis_name``, a mask and
    ``force_float32_reductions=False`` run Flax's own module.

    Attributes:
      implementation: as in ``jax_hipkittens.rms_norm``.
    """

    implementation: _dispatch.Implementation = None

    @nn.compact
    def __call__(self, x: Any, *, mask: Any = None) -> jax.Array:
        """Normalises x [..., H]."""
        x = jnp.asarray(x)
        return _norm.run(
            "RMSNorm",
            _flax_only(self, x, mask),
            lambda: _apply(self, hk.rms_norm, x, False),
            lambda: nn.RMSNorm.__call__(self, x, mask=mask),
            self.implementation,
        )


def _flax_only(module: Any, x: jax.Array, mask: Any) -> str | None:
    return _norm.limit(
        x,
        module.reduction_axes,
        module.feature_axes,
        module.axis_name,
        mask,
        module.force_float32_reductions,
    )


def _apply(module: Any, op: Any, x: jax.Array, use_bias: bool) -> jax.Array:
    shape = x.shape[-1:]
    scale = bias = None
    if module.use_scale:
        scale = module.param("scale", module.scale_init, shape, module.param_dtype)
    if use_bias:
        bias = module.param("bias", module.bias_init, shape, module.param_dtype)
    dtype = dtypes.canonicalize_dtype(x, scale, bias, dtype=module.dtype)
    return _norm.norm(op, x, scale, bias, dtype, module.epsilon, module.implementation)
