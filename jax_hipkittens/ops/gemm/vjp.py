"""Matrix products by HK kernels and their derivative: the implementation "hk".

Every product, backward ones included, is one kernel call that reads its operands as
they lie.
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_hipkittens import _stack
from jax_hipkittens.ops.gemm import kernel, reference
from jax_hipkittens.ops.gemm.kernel import Gemm
from jax_hipkittens.ops.gemm.layout import Contraction, left_operand, right_operand

# What the forward kernel computed, for the policies of jax.checkpoint.
RESIDUAL_NAME = "jax_hipkittens.gemm"


def matmul(
    a: jax.Array,
    b: jax.Array,
    bias: jax.Array | None,
    *,
    activation: str | None,
    precision: Any,
    dtype: np.dtype[Any],
    strict: bool,
) -> jax.Array:
    """As ``reference.matmul``, by an HK kernel.

    Raises:
      NotImplementedError: HK kernels cannot serve the call.
    """
    kernel.require(a, b, dtype, precision, bias)
    rows, columns = min(a.ndim - 1, 1), min(b.ndim - 1, 1)
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if math.prod(b.shape[:-2]) == 1 and len(batch) == max(a.ndim - 2, 0):
        # One matrix b: a's batch axes are more rows.
        b = b.reshape(b.shape[-2:])
        rows, batch = a.ndim - 1, ()
    else:
        a, b = _with_batch(a, batch), _with_batch(b, batch)
        bias = None if bias is None else bias.reshape((1,) * len(batch) + bias.shape)
    present = (True, True, bias is not None)
    gemm = Gemm(present, strict, rows, columns, 1, False, False, dtype, activation)
    return _stack.apply(_Product(gemm), (a, b, bias))[0]


def dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    dimension_numbers: Any,
    *,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
    strict: bool,
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
    counts = len(axes.lhs_free), len(axes.rhs_free), len(axes.lhs_contracted)
    gemm = Gemm((True, True, False), strict, *counts, trans_a, trans_b, dtype)
    return _stack.apply(_Product(gemm), (a, b, None))[0]


def _with_batch(x: jax.Array, batch: tuple[int, ...]) -> jax.Array:
    """[..., R, C] -> [batch..., R, C], or [1..., R, C] if x is one matrix."""
    if math.prod(x.shape[:-2]) == 1:
        return x.reshape((1,) * len(batch) + x.shape[-2:])
    return jnp.broadcast_to(x, batch + x.shape[-2:])


@dataclasses.dataclass(frozen=True)
class _Product(_stack.Op):
    """The outputs are c; with an activation, gradients need z too.

    Each operand's leading axes are those of c, or all of size 1.
    """

    gemm: Gemm

    residual_name = RESIDUAL_NAME

    @property
    def saved(self) -> tuple[int, ...]:  # type: ignore[override]
        return () if self.gemm.activation is None else (1,)

    def run(self, operands: _stack.Arrays, with_more: bool) -> list[jax.Array]:
        with_z = with_more and self.gemm.activation is not None
        return _stack.run(dataclasses.replace(self.gemm, with_z=with_z), operands)

    def residuals(
        self, operands: _stack.Arrays, results: _stack.Arrays, wanted: Sequence[int]
    ) -> _stack.Arrays:
        a, b, bias = operands
        linear = self.gemm.activation is None
        keep_a, keep_b = not linear or 1 in wanted, not linear or 0 in wanted
        z = None if linear else results[1]
        return (a if keep_a else None, b if keep_b else None, bias, z)

    def tangent(
        self, residuals: _stack.Arrays, tangents: _stack.Arrays, wanted: Sequence[int]
    ) -> Sequence[jax.Array]:
        a, b, bias, _ = residuals
        given = dict(zip(wanted, tangents, strict=True))
        terms = []
        if 0 in given:
            terms.append(self._sums(given[0], b))
        if 1 in given:
            terms.append(self._sums(a, given[1]))
        if 2 in given:
            terms.append(self._over_rows(given[2]))
        dz = functools.reduce(jnp.add, terms)
        if self.gemm.activation is None:
            return [dz.astype(self.gemm.dtype)]
        z = self._sums(a, b)
        if bias is not None:
            z = z + self._over_rows(bias)
        slope = _slope(self.gemm.activation, z)
        return [(slope * dz).astype(self.gemm.dtype)]

    def _sums(self, a: jax.Array, b: jax.Array) -> jax.Array:
        """op(a) @ op(b) in f32 by plain JAX."""
        plain = dataclasses.replace(
            self.gemm,
            present=(True, True, False),
            activation=None,
            dtype=np.dtype(np.float32),
        )
        return plain.flattened(plain.flat_reference, (a, b))[0]

    def _over_rows(self, bias: jax.Array) -> jax.Array:
        """bias [...,n...] as f32 [...,1...,n...], to be added to the rows."""
        lead = bias.shape[: bias.ndim - self.gemm.n]
        columns = bias.shape[bias.ndim - self.gemm.n :]
        shape = (*lead, *(1,) * self.gemm.m, *columns)
        return bias.astype(jnp.float32).reshape(shape)

    def pullback(
        self, residuals: _stack.Arrays, cotangents: _stack.Arrays, wanted: _stack.Kinds
    ) -> Sequence[jax.Array]:
        a, b, _, z = residuals
        (d_c,) = cotangents
        d_z = d_c
        if z is not None:
            d_z = _activation_cotangent(self.gemm.activation, z, d_c)
        found: dict[int, Any] = {}
        if 2 in wanted:  # sums d_z unrounded
            found[2] = self._bias_cotangent(d_z, wanted[2])
        d_z = d_z.astype(d_c.dtype)
        if 0 in wanted:
            found[0] = self._left_cotangent(d_z, b, wanted[0])
        if 1 in wanted:
            found[1] = self._right_cotangent(d_z, a, wanted[1])
        return [found[i] for i in wanted]

    def _left_cotangent(self, d_z: jax.Array, b: jax.Array, a: Any) -> jax.Array:
        """The cotangent of a: ``d_z @ op(b)^T``, or its transpose if a is."""
        g = self.gemm
        if g.trans_a:
            return self._product((b, g.trans_b), (d_z, True), (g.k, g.m, g.n), a)
        return self._product((d_z, False), (b, not g.trans_b), (g.m, g.k, g.n), a)

    def _right_cotangent(self, d_z: jax.Array, a: jax.Array, b: Any) -> jax.Array:
        """The cotangent of b: ``op(a)^T @ d_z``, or its transpose if b is."""
        g = self.gemm
        if g.trans_b:
            return self._product((d_z, True), (a, g.trans_a), (g.n, g.k, g.m), b)
        return self._product((a, not g.trans_a), (d_z, False), (g.k, g.n, g.m), b)

    def _product(
        self,
        left: tuple[jax.Array, bool],
        right: tuple[jax.Array, bool],
        counts: tuple[int, int, int],
        primal: Any,
    ) -> jax.Array:
        """op(x) @ op(y) with the shape and dtype of ``primal``, summed over the batch.

        Their dtypes differ where the result of the forward was f32 and its operands
        were not.
        """
        (x, trans_x), (y, trans_y) = left, right
        m, n, k = counts
        lead = len(primal.shape) - m - n
        batch = jnp.broadcast_shapes(x.shape[:lead], y.shape[:lead])
        summed = batch != primal.shape[:lead]
        if summed and trans_x and not trans_y:  # The batch can be contracted as well.
            x = jnp.broadcast_to(x, batch + x.shape[lead:])
            y = jnp.broadcast_to(y, batch + y.shape[lead:])
            k, summed = k + lead, False
        out = np.dtype(jnp.float32) if summed else primal.dtype
        gemm = Gemm(
            (True, True, False), self.gemm.strict, m, n, k, trans_x, trans_y, out
        )
        (c,) = _stack.run(gemm, (x, y, None))
        if summed:
            c = _sum_leading(c, lead, primal.dtype, self.gemm.strict)
        return c.reshape(primal.shape)

    def _bias_cotangent(self, d_z: jax.Array, bias: Any) -> jax.Array:
        summed = d_z.ndim - self.gemm.n
        total = _sum_leading(d_z, summed, bias.dtype, self.gemm.strict)
        return total.reshape(bias.shape)


def _slope(activation: str | None, z: jax.Array) -> jax.Array:
    """The activation's derivative at z, in f32.

    Beyond 100 on either side it is 0 or 1 in f32, and the formulas overflow.
    """
    near = jnp.clip(z.astype(jnp.float32), -100, 100)
    return jax.jvp(reference.ACTIVATIONS[activation], (near,), (jnp.ones_like(near),))[
        1
    ]


@functools.partial(jax.jit, static_argnums=0)
def _activation_cotangent(
    activation: str | None, z: jax.Array, d_c: jax.Array
) -> jax.Array:
    """In f32; compiled as one also outside of jit, so that its bits are the same."""
    return _slope(activation, z) * d_c.astype(jnp.float32)


def _sum_leading(x: jax.Array, axes: int, dtype: Any, strict: bool) -> jax.Array:
    """x summed over its first axes. XLA's own sums depend on the number of threads."""
    if axes == 0:
        return x.astype(dtype)
    ones = jnp.ones(x.shape[:axes], jnp.bfloat16 if x.dtype == jnp.float32 else x.dtype)
    counts = 0, x.ndim - axes, axes
    gemm = Gemm((True, True, False), strict, *counts, False, False, np.dtype(dtype))
    return _stack.run(gemm, (ones, x, None))[0]
