"""The derivative of rotary by HK kernels: the implementation "hk".

The map is linear in x and orthogonal, so x's cotangent is the cotangent of y turned
back.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jax_hipkittens import _stack
from jax_hipkittens.ops.rotary import kernel, reference

RESIDUAL_NAME = "jax_hipkittens.rotary"


def rotary(
    x: jax.Array,
    cos: jax.Array,
    sin: jax.Array,
    offsets: jax.Array,
    *,
    interleaved: bool,
    strict: bool,
) -> jax.Array:
    """As ``reference.rotary``, by an HK kernel; differentiable in x, cos and sin.

    Raises:
      NotImplementedError: the kernel cannot serve the call.
    """
    kernel.check(x, cos)
    # The casts' own rules bring the f32 gradients back to the tables' dtypes.
    tables = cos.astype(jnp.float32), sin.astype(jnp.float32)
    op = _Rotary(kernel.Rotary((True,) * 4, strict, interleaved))
    return _stack.apply(op, (x, *tables, offsets))[0]


@dataclasses.dataclass(frozen=True)
class _Rotary(_stack.Op):
    kernel: kernel.Rotary

    residual_name = RESIDUAL_NAME

    def run(self, operands: _stack.Arrays, with_more: bool) -> list[jax.Array]:
        return _stack.run(self.kernel, operands)

    def residuals(
        self, operands: _stack.Arrays, results: _stack.Arrays, wanted: Sequence[int]
    ) -> _stack.Arrays:
        x, cos, sin, offsets = operands
        return (x if {1, 2} & set(wanted) else None, cos, sin, offsets)

    def tangent(
        self, residuals: _stack.Arrays, tangents: _stack.Arrays, wanted: Sequence[int]
    ) -> Sequence[jax.Array]:
        x, cos, sin, offsets = residuals
        inputs = {0: x, 1: cos, 2: sin}
        if x is None:  # It is linear in x: the tangent does not depend on x itself.
            inputs[0] = jnp.zeros_like(tangents[0])

        def of_wanted(*values: jax.Array) -> jax.Array:
            given = inputs | dict(zip(wanted, values, strict=True))
            return self._reference(given[0], given[1], given[2], offsets)

        primals = [inputs[i] for i in wanted]
        return [jax.jvp(of_wanted, primals, list(tangents))[1]]

    def _reference(
        self, x: jax.Array, cos: jax.Array, sin: jax.Array, offsets: jax.Array
    ) -> jax.Array:
        return reference.rotary(
            x, cos, sin, offsets, interleaved=self.kernel.interleaved
        )

    def pullback(
        self, residuals: _stack.Arrays, cotangents: _stack.Arrays, wanted: _stack.Kinds
    ) -> Sequence[jax.Array]:
        x, cos, sin, offsets = residuals
        (dy,) = cotangents
        found: dict[int, Any] = {}
        if 0 in wanted:
            back = dataclasses.replace(self.kernel, inverse=True)
            found[0] = _stack.run(back, (dy, cos, sin, offsets))[0]
        if x is not None:
            found[1], found[2] = _table_gradients(
                self.kernel.interleaved, x, cos, offsets, dy
            )
        return [found[i] for i in wanted]


def _table_gradients(
    interleaved: bool,
    x: jax.Array,
    table: jax.Array,
    offsets: jax.Array,
    dy: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Cotangents of cos and sin: sums over heads, added up at each row's position."""
    rotated = 2 * table.shape[-1]
    x0, x1 = reference.split_pairs(x[..., :rotated].astype(jnp.float32), interleaved)
    dy0, dy1 = reference.split_pairs(dy[..., :rotated].astype(jnp.float32), interleaved)
    positions = reference.positions(offsets, x.shape[1], table.shape[1])
    batch = jnp.arange(x.shape[0])[:, None] if table.shape[0] > 1 else 0

    def scatter(pairs: jax.Array) -> jax.Array:
        rows = jnp.sum(pairs, axis=2)  # [B,T,N,R/2] -> [B,T,R/2]
        return jnp.zeros_like(table).at[batch, positions].add(rows)

    return scatter(dy0 * x0 + dy1 * x1), scatter(dy1 * x0 - dy0 * x1)
