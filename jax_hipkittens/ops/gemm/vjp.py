"""Matrix products by HK kernels and their gradient rule: the implementation "hk".

Every product, backward ones included, is one kernel call that reads its operands as
they lie. Only first derivatives: the kernels themselves have no derivative.

Axis letters: B batch, M rows of a, N columns of b, K contracted.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from jax_hipkittens.ops.gemm import kernel, reference
from jax_hipkittens.ops.gemm.kernel import Gemm
from jax_hipkittens.ops.gemm.layout import Contraction, left_operand, right_operand

# What the forward kernel computed, for the policies of jax.checkpoint.
RESIDUAL_NAME = "jax_hipkittens.gemm"


class Residuals(NamedTuple):
    """What the backward needs of the forward.

    Attributes:
      a: [Ba,M,K] or [Ba,K,M].
      b: [Bb,K,N] or [Bb,N,K].
      bias: [N] or None.
      z: the pre-activation [B,M,N]; None without an activation.
    """

    a: jax.Array
    b: jax.Array
    bias: jax.Array | None
    z: jax.Array | None


def matmul(
    a: jax.Array,
    b: jax.Array,
    bias: jax.Array | None,
    *,
    activation: str | None,
    precision: Any,
    dtype: np.dtype[Any],
) -> jax.Array:
    """As ``reference.matmul``, by an HK kernel.

    Raises:
      NotImplementedError: HK kernels cannot serve the call.
    """
    kernel.require(a, b, dtype, precision, bias)
    rows = a.shape[-2:-1]
    columns = b.shape[-1:] if b.ndim > 1 else ()
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    left = _matrices(a if a.ndim > 1 else a[None, :], batch)
    right = _matrices(b if b.ndim > 1 else b[:, None], batch)
    if right.shape[0] == 1:
        left = left.reshape(1, left.shape[0] * left.shape[1], left.shape[2])
    c = _gemm(Gemm(False, False, dtype, activation), left, right, bias)
    return c.reshape(batch + rows + columns)


def dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    dimension_numbers: Any,
    *,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> jax.Array:
    """As ``jax.lax.dot_general``, by an HK kernel.

    Raises:
      NotImplementedError: HK kernels cannot serve the call.
    """
    dtype = lhs.dtype
    if preferred_element_type is not None:
        dtype = np.dtype(preferred_element_type)
    kernel.require(lhs, rhs, dtype, precision)
    if out_sharding is not None:
        raise NotImplementedError(
            f"HK kernels take no out_sharding, but received {out_sharding}"
        )
    axes = Contraction.of(lhs.ndim, rhs.ndim, dimension_numbers)
    a, trans_a = left_operand(lhs, axes)
    b, trans_b = right_operand(rhs, axes)
    c = _gemm(Gemm(trans_a, trans_b, dtype), a, b, None)
    return c.reshape(axes.result_shape(lhs.shape, rhs.shape))


def _matrices(x: jax.Array, batch: tuple[int, ...]) -> jax.Array:
    """[..., R, C] -> [prod(batch), R, C], or [1, R, C] if x is one matrix."""
    if math.prod(x.shape[:-2]) != 1:
        x = jnp.broadcast_to(x, batch + x.shape[-2:])
    return x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:])


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _gemm(
    static: Gemm, a: jax.Array, b: jax.Array, bias: jax.Array | None
) -> jax.Array:
    return kernel.gemm(a, b, bias, static)[0]


def _gemm_forward(
    static: Gemm, a: jax.Array, b: jax.Array, bias: jax.Array | None
) -> tuple[jax.Array, Residuals]:
    if static.activation is None:
        return kernel.gemm(a, b, bias, static)[0], Residuals(a, b, bias, None)
    c, z = kernel.gemm(a, b, bias, static, with_preactivation=True)
    return c, Residuals(a, b, bias, checkpoint_name(z, RESIDUAL_NAME))


def _gemm_backward(
    static: Gemm, residuals: Residuals, d_c: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array | None]:
    a, b, bias, z = residuals
    d_z = d_c
    if z is not None:
        d_z = _activation_cotangent(static.activation, z, d_c)
    d_bias = None
    if bias is not None:
        d_bias = _sum_rows(d_z, bias.dtype)
    d_z = d_z.astype(d_c.dtype)
    return (
        _left_cotangent(static, a, b, d_z),
        _right_cotangent(static, a, b, d_z),
        d_bias,
    )


_gemm.defvjp(_gemm_forward, _gemm_backward)


@functools.partial(jax.jit, static_argnums=0)
def _activation_cotangent(
    activation: str | None, z: jax.Array, d_c: jax.Array
) -> jax.Array:
    """The cotangent of the pre-activation, in f32: the bias sums it unrounded.

    Beyond 100 on either side slopes are 0 or 1 in f32, and their formulas overflow.
    """
    near = jnp.clip(z.astype(jnp.float32), -100, 100)
    _, pull = jax.vjp(reference.ACTIVATIONS[activation], near)
    (d_z,) = pull(d_c.astype(jnp.float32))
    return d_z


def _left_cotangent(
    static: Gemm, a: jax.Array, b: jax.Array, d_c: jax.Array
) -> jax.Array:
    """The cotangent of a: ``d_c @ op(b)^T``, or its transpose if a lies [K,M]."""
    if static.trans_a:
        return _product(b, d_c, static.trans_b, True, a)
    return _product(d_c, b, False, not static.trans_b, a)


def _right_cotangent(
    static: Gemm, a: jax.Array, b: jax.Array, d_c: jax.Array
) -> jax.Array:
    """The cotangent of b: ``op(a)^T @ d_c``, or its transpose if b lies [N,K]."""
    if static.trans_b:
        return _product(d_c, a, True, static.trans_a, b)
    return _product(a, d_c, not static.trans_a, False, b)


def _product(
    x: jax.Array, y: jax.Array, trans_x: bool, trans_y: bool, primal: jax.Array
) -> jax.Array:
    """op(x) @ op(y) with the shape and dtype of ``primal``, summed over the batch.

    The kernel wants one dtype: operands that differ, as when the result of the forward
    was f32 and its operands were not, meet in f32, as in ``jax.lax``.
    """
    dtype = x.dtype if x.dtype == y.dtype else jnp.float32
    summed = primal.shape[0] == 1 and max(x.shape[0], y.shape[0]) != 1
    static = Gemm(trans_x, trans_y, np.dtype(jnp.float32) if summed else primal.dtype)
    (c,) = kernel.gemm(x.astype(dtype), y.astype(dtype), None, static)
    if not summed:
        return c
    rows = c.reshape(c.shape[0], 1, math.prod(primal.shape))
    return _sum_rows(rows, primal.dtype).reshape(primal.shape)


def _sum_rows(x: jax.Array, dtype: Any) -> jax.Array:
    """[B,M,N] -> [N]. XLA's own sums depend on the number of threads; this one not."""
    rows = x.reshape(1, x.shape[0] * x.shape[1], x.shape[2])
    ones = jnp.ones((1, 1, rows.shape[1]), x.dtype)
    (total,) = kernel.gemm(ones, rows, None, Gemm(False, False, np.dtype(dtype)))
    return total[0, 0]
