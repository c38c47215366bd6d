"""The gradient rule of attention by HK kernels: the implementation "hk".

Only first derivatives: the kernels themselves have no derivative.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from jax_hipkittens import _checks
from jax_hipkittens.ops.attention import kernel
from jax_hipkittens.ops.attention.masks import Masks
from jax_hipkittens.ops.gemm import matmul

# What the forward kernel computed, for the policies of jax.checkpoint: with
# save_only_these_names(RESIDUAL_NAME) the backward does not run the forward again.
RESIDUAL_NAME = "jax_hipkittens.attention"


class Static(NamedTuple):
    """What is known at trace time."""

    masks: Masks
    scale_is_constant: bool


class Residuals(NamedTuple):
    """What the backward needs of the forward; shapes as in ``kernel.backward``."""

    query: jax.Array
    key: jax.Array
    value: jax.Array
    scale: jax.Array
    query_lengths: jax.Array
    key_lengths: jax.Array
    out: jax.Array
    lse: jax.Array


_Outputs = tuple[jax.Array, jax.Array]


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
    """As ``reference.attention``, by HK kernels.

    Raises:
      NotImplementedError: HK kernels cannot serve the call.
    """
    kernel.require(query, key, bias, mask)
    batch, queries = query.shape[:2]
    if query_lengths is None:
        query_lengths = jnp.full((batch,), queries, jnp.int32)
    if key_lengths is None:
        key_lengths = jnp.full((batch,), key.shape[1], jnp.int32)
    static = Static(masks, _checks.is_number(scale))
    out, lse = _attention(
        static,
        *(query, key, value, jnp.asarray(scale, jnp.float32)),
        *(query_lengths, key_lengths),
    )
    return out, lse if with_lse else None


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(
    static: Static,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    scale: jax.Array,
    query_lengths: jax.Array,
    key_lengths: jax.Array,
) -> _Outputs:
    return kernel.forward(
        query, key, value, scale, query_lengths, key_lengths, static.masks
    )


def _attention_forward(
    static: Static,
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    scale: jax.Array,
    query_lengths: jax.Array,
    key_lengths: jax.Array,
) -> tuple[_Outputs, Residuals]:
    operands = query, key, value, scale, query_lengths, key_lengths
    out, lse = (
        checkpoint_name(x, RESIDUAL_NAME)
        for x in kernel.forward(*operands, static.masks)
    )
    return (out, lse), Residuals(*operands, out, lse)


def _attention_backward(
    static: Static, residuals: Residuals, cotangents: _Outputs
) -> tuple[jax.Array | None, ...]:
    d_query, d_key, d_value = _backward(residuals, cotangents, static.masks)
    d_scale = None  # zero: nothing depends on a constant
    if not static.scale_is_constant:
        d_scale = _scale_cotangent(residuals, cotangents, static.masks)
    return d_query, d_key, d_value, d_scale, None, None


_attention.defvjp(_attention_forward, _attention_backward)


def _backward(
    residuals: Residuals, cotangents: _Outputs, masks: Masks
) -> tuple[jax.Array, jax.Array, jax.Array]:
    query, key, value, scale, query_lengths, key_lengths, out, lse = residuals
    return kernel.backward(
        *(query, key, value, out, lse, *cotangents),
        *(scale, query_lengths, key_lengths, masks),
    )


def _scale_cotangent(
    residuals: Residuals, cotangents: _Outputs, masks: Masks
) -> jax.Array:
    """The cotangent of the scale: sum over t, s of dlogit[t, s] * dot(q[t], k[s]).

    The kernel gives ``scale * dlogit @ k`` as the query's cotangent. Run once more in
    f32 on ``scale * query`` with a scale of one, it gives ``dlogit @ k``, whose product
    with the query is right for every scale, zero included. The forward runs again too:
    in this sum over all queries the rounding of its output would show. Where nobody
    asks for this cotangent, jit removes the calls.
    """
    query, key, value = (x.astype(jnp.float32) for x in residuals[:3])
    operands = (
        query * residuals.scale,
        key,
        value,
        jnp.ones_like(residuals.scale),
        residuals.query_lengths,
        residuals.key_lengths,
    )
    wide = Residuals(*operands, *kernel.forward(*operands, masks))
    d_out, d_lse = cotangents
    d_logit_key, _, _ = _backward(wide, (d_out.astype(jnp.float32), d_lse), masks)
    products = query * d_logit_key
    return _sum(products.reshape(-1, products.shape[-1]))


def _sum(x: jax.Array) -> jax.Array:
    """Sum of f32 [R, C]. XLA's own depends on the number of threads; matmul's not."""
    by_column = matmul(jnp.ones(x.shape[0], x.dtype), x, implementation="hk")
    return matmul(jnp.ones(x.shape[1], x.dtype), by_column, implementation="hk")
