"""Attention by HK kernels and its derivative: the implementation "hk"."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jax_hipkittens import _stack
from jax_hipkittens.ops.attention import kernel
from jax_hipkittens.ops.attention.scores import Operands, Scores
from jax_hipkittens.ops.gemm import matmul

# What the forward kernel computed, for the policies of jax.checkpoint: with
# save_only_these_names(RESIDUAL_NAME) the backward does not run the forward again.
RESIDUAL_NAME = "jax_hipkittens.attention"

_QUERY, _KEY, _VALUE = range(3)
_SCALE, _BIAS, _SINKS, _SLOPES = map(
    Operands._fields.index, ("scale", "bias", "sinks", "slopes")
)


def attention(
    operands: Operands, *, scores: Scores, strict: bool
) -> tuple[jax.Array, jax.Array]:
    """As ``reference.attention``, by HK kernels.

    Raises:
      NotImplementedError: HK kernels cannot serve the call.
    """
    kernel.require(operands.query, operands.value)
    out, lse = _stack.apply(_Attention(scores, strict), whole(operands, scores))
    return out, lse


def whole(operands: Operands, scores: Scores) -> Operands:
    """Operands with what may be left out filled in, of the handlers' dtypes."""
    axis = 2 if scores.layout == "BNTH" else 1

    def full(given: Any, of: jax.Array) -> jax.Array:
        if given is not None:
            return given
        return jnp.full(of.shape[:1], of.shape[axis], jnp.int32)

    def as_f32(x: Any) -> Any:
        return None if x is None else x.astype(jnp.float32)

    bias = operands.bias
    if bias is not None and bias.dtype != operands.query.dtype:
        bias = bias.astype(jnp.float32)
    return operands._replace(
        query_lengths=full(operands.query_lengths, operands.query),
        key_lengths=full(operands.key_lengths, operands.key),
        scale=jnp.asarray(operands.scale, jnp.float32),
        bias=bias,
        sinks=as_f32(operands.sinks),
        slopes=as_f32(operands.slopes),
    )


@dataclasses.dataclass(frozen=True)
class _Attention(_stack.Op):
    """Outputs out and lse, both kept for gradients, as are all operands."""

    scores: Scores
    strict: bool

    residual_name = RESIDUAL_NAME
    outputs = 2
    saved = (0, 1)

    def run(self, operands: _stack.Arrays, with_more: bool) -> list[jax.Array]:
        return _stack.run(self._forward(operands), operands)

    def _forward(self, operands: _stack.Arrays) -> kernel.Forward:
        present = tuple(x is not None for x in operands)
        return kernel.Forward(present, self.strict, self.scores)

    def residuals(
        self, operands: _stack.Arrays, results: _stack.Arrays, wanted: Sequence[int]
    ) -> _stack.Arrays:
        return (*operands, *results)

    def tangent(
        self, residuals: _stack.Arrays, tangents: _stack.Arrays, wanted: Sequence[int]
    ) -> Sequence[jax.Array]:
        operands = residuals[:-2]
        of_wanted = self._reference(operands, wanted)
        return jax.jvp(of_wanted, [operands[i] for i in wanted], list(tangents))[1]

    def _reference(self, operands: _stack.Arrays, wanted: Sequence[int]) -> Any:
        """The outputs by plain JAX, as a function of the operands ``wanted``."""

        def of_wanted(*values: jax.Array) -> tuple[jax.Array, ...]:
            given = list(operands)
            for i, value in zip(wanted, values, strict=True):
                given[i] = value
            return self._by_reference(given)

        return of_wanted

    def _by_reference(self, operands: _stack.Arrays) -> tuple[jax.Array, ...]:
        forward = self._forward(operands)
        present = [x for x in operands if x is not None]
        return tuple(forward.flattened(forward.flat_reference, present))

    def pullback(
        self, residuals: _stack.Arrays, cotangents: _stack.Arrays, wanted: _stack.Kinds
    ) -> Sequence[jax.Array]:
        *operands, out, lse = residuals
        d_out, d_lse = (
            jnp.zeros_like(x) if c is None else c
            for x, c in zip((out, lse), cotangents, strict=True)
        )
        rows = out, lse, d_out, d_lse
        found: dict[int, jax.Array] = {}
        if {_QUERY, _KEY, _VALUE, _BIAS} & wanted.keys():
            results = self._backward(operands, rows, with_bias=_BIAS in wanted)
            found |= zip((_QUERY, _KEY, _VALUE, _BIAS), results, strict=False)
        if _SCALE in wanted:
            found[_SCALE] = self._scale_cotangent(operands, d_out, d_lse)
        if _SINKS in wanted:
            found[_SINKS] = self._sink_cotangent(Operands(*operands), *rows)
        if _SLOPES in wanted:  # Rarely learnt: not worth a kernel.
            slopes = [operands[_SLOPES]]
            _, pull = jax.vjp(self._reference(operands, [_SLOPES]), *slopes)
            (found[_SLOPES],) = pull((d_out, d_lse))
        return [found[i].astype(kind.dtype) for i, kind in wanted.items()]

    def _backward(
        self, operands: _stack.Arrays, rows: Sequence[jax.Array], *, with_bias: bool
    ) -> list[jax.Array]:
        given = (*operands[:3], *rows, *operands[3:])
        present = tuple(x is not None for x in given)
        backward = kernel.Backward(present, self.strict, self.scores, with_bias)
        return _stack.run(backward, given)

    def _scale_cotangent(
        self, operands: _stack.Arrays, d_out: jax.Array, d_lse: jax.Array
    ) -> jax.Array:
        """The cotangent of the scale: sum over t, s of dlogit[t, s] * dot(q[t], k[s]).

        The kernel gives ``scale * dlogit @ k`` as the query's cotangent. Run once more
        in f32 on ``scale * query`` with a scale of one, it gives ``dlogit @ k``, whose
        product with the query is right for every scale, zero included. The forward runs
        again too: in this sum over all queries the rounding of its output would show.
        """
        given = Operands(*operands)
        query, key, value = (x.astype(jnp.float32) for x in operands[:3])
        wide = given._replace(
            query=query * given.scale.reshape(-1, 1, 1, 1),
            key=key,
            value=value,
            scale=jnp.ones_like(given.scale),
            bias=None if given.bias is None else given.bias.astype(jnp.float32),
        )
        out, lse = self.run(wide, False)
        rows = out, lse, d_out.astype(jnp.float32), d_lse
        d_logit_key = self._backward(wide, rows, with_bias=False)[0]
        products = (query * d_logit_key).reshape(-1, query.shape[-1])
        return _sum(products).reshape(given.scale.shape)

    def _sink_cotangent(
        self,
        operands: Operands,
        out: jax.Array,
        lse: jax.Array,
        d_out: jax.Array,
        d_lse: jax.Array,
    ) -> jax.Array:
        """Per head, sum over b, t of P_sink * (d_lse - sum over e of d_out * out).

        P_sink = exp(sink - lse) is the sink's probability.
        """
        dots = jnp.einsum(
            "...e,...e->...", d_out, out, preferred_element_type=jnp.float32
        )
        if self.scores.layout == "BTNH":
            dots = dots.swapaxes(1, 2)
        seen = lse != -jnp.inf
        sinks = operands.sinks[:, :, None]
        probability = jnp.where(seen, jnp.exp(sinks - jnp.where(seen, lse, 0)), 0)
        terms = probability * (d_lse - dots)  # [B,N,T]
        by_head = terms.swapaxes(0, 1).reshape(terms.shape[1], -1)
        ones = jnp.ones(by_head.shape[1], terms.dtype)
        total = matmul(by_head, ones, implementation="hk")
        return total.reshape(operands.sinks.shape)


def _sum(x: jax.Array) -> jax.Array:
    """Sum of f32 [R, C]. XLA's own depends on the number of threads; matmul's not."""
    by_column = matmul(jnp.ones(x.shape[0], x.dtype), x, implementation="hk")
    return matmul(jnp.ones(x.shape[1], x.dtype), by_column, implementation="hk")
