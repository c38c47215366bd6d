"""HK ops for ``flax.nnx``.

- ``attention_fn`` for ``MultiHeadAttention``;
- ``dot_general`` for ``Linear``, ``LinearGeneral`` and attention's projections;
- ``LayerNorm`` and ``RMSNorm`` in place of Flax's, with the same parameters.

Example::

    from flax import nnx
    from jax_hipkittens.flax import nnx as hk_nnx

    nnx.MultiHeadAttention(
        num_heads=8,
        in_features=512,
        attention_fn=hk_nnx.attention_fn,
        qkv_dot_general=hk_nnx.dot_general,
        out_dot_general=hk_nnx.dot_general,
        decode=False,
        rngs=nnx.Rngs(0),
    )
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from flax.nnx.nn import dtypes

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
    module: nnx.Module | None = None,
    promote_dtype: Any = dtypes.promote_dtype,
    is_causal: bool = False,
    *,
    local_window_size: _attention.Window = None,
    implementation: _dispatch.Implementation = None,
) -> jax.Array:
    """``flax.nnx.dot_product_attention`` on HK kernels.

    Softmax is always in f32 and products accumulate in f32, so ``precision`` changes
    nothing. A mask, whatever its dtype, keeps keys where it is not 0. Causal attention
    is quicker when asked for by ``is_causal=True`` in the module's call, which skips
    keys, than by a mask. A query without any key gives zeros. Dropout drops the share
    that Flax drops, but other weights; with ``broadcast_dropout=True``, where batch and
    heads share one mask, Flax's own attention runs, as it does for ``module`` (sowing
    the weights).

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
      promote_dtype: as Flax.
      is_causal: query t sees the keys s <= t.
      local_window_size: as in ``jax_hipkittens.attention``.
      implementation: as in ``jax_hipkittens.attention``.

    Returns:
      [batch..., T, N, D].
    """

    rate = 0.0 if deterministic else dropout_rate

    def ours() -> jax.Array:
        q, k, v = promote_dtype((query, key, value), dtype=dtype)
        return _attention.attention(
            *(q, k, v, bias, mask, is_causal, local_window_size),
            *(rate, dropout_rng, implementation),
        )

    def flaxs() -> jax.Array:
        combined = _attention.position_mask(
            mask, query, key, is_causal, local_window_size
        )
        return nnx.dot_product_attention(
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
            promote_dtype,
        )

    flax_only = _attention.shared_dropout(broadcast_dropout, rate)
    if module is not None:
        flax_only = "module, to sow the weights in"
    return _attention.run(flax_only, ours, flaxs, implementation)


class LayerNorm(nnx.LayerNorm):
    """``flax.nnx.LayerNorm`` on HK kernels, with the same parameters.

    Takes Flax's arguments and ``implementation``, as in
    ``jax_hipkittens.layer_norm``. The variance always takes two passes:
    ``use_fast_variance`` is not used. Axes other than the last, ``axis_name`` and a
    mask run Flax's own module.
    """

    def __init__(
        self,
        num_features: int,
        *,
        implementation: _dispatch.Implementation = None,
        **arguments: Any,
    ) -> None:
        super().__init__(num_features, **arguments)
        self.implementation = _static(implementation)

    def __call__(self, x: Any, *, mask: Any = None) -> jax.Array:
        """Normalises x [..., H]."""
        x = jnp.asarray(x)
        return _norm.run(
            "LayerNorm",
            _flax_only(self, x, mask),
            lambda: _layer_norm(self, x),
            lambda: nnx.LayerNorm.__call__(self, x, mask=mask),
            self.implementation,
        )


class RMSNorm(nnx.RMSNorm):
    """``flax.nnx.RMSNorm`` on HK kernels, with the same parameters.

    Takes Flax's arguments and ``implementation``, as in ``jax_hipkittens.rms_norm``.
    Axes other than the last, ``axis_name`` and a mask run Flax's own module.
    """

    def __init__(
        self,
        num_features: int,
        *,
        implementation: _dispatch.Implementation = None,
        **arguments: Any,
    ) -> None:
        super().__init__(num_features, **arguments)
        self.implementation = _static(implementation)

    def __call__(self, x: Any, mask: Any = None) -> jax.Array:
        """Normalises x [..., H]."""
        x = jnp.asarray(x)
        return _norm.run(
            "RMSNorm",
            _flax_only(self, x, mask),
            lambda: _rms_norm(self, x),
            lambda: nnx.RMSNorm.__call__(self, x, mask=mask),
            self.implementation,
        )


def _static(implementation: _dispatch.Implementation) -> Any:
    """A module's attribute must be hashable to be static."""
    if implementation is None or isinstance(implementation, str):
        return implementation
    return tuple(implementation)


def _flax_only(module: Any, x: jax.Array, mask: Any) -> str | None:
    return _norm.limit(
        x, module.reduction_axes, module.feature_axes, module.axis_name, mask
    )


def _value(variable: Any) -> Any:
    return None if variable is None else variable[...]


def _layer_norm(module: LayerNorm, x: jax.Array) -> jax.Array:
    operands = (x, _value(module.scale), _value(module.bias))
    x, scale, bias = module.promote_dtype(operands, dtype=module.dtype)
    dtype = dtypes.canonicalize_dtype(x, scale, bias, dtype=module.dtype)
    return _norm.norm(
        hk.layer_norm, x, scale, bias, dtype, module.epsilon, module.implementation
    )


def _rms_norm(module: RMSNorm, x: jax.Array) -> jax.Array:
    operands = (x, _value(module.scale))
    x, scale = module.promote_dtype(operands, dtype=module.dtype)
    dtype = dtypes.canonicalize_dtype(x, scale, dtype=module.dtype)
    return _norm.norm(
        hk.rms_norm, x, scale, None, dtype, module.epsilon, module.implementation
    )
