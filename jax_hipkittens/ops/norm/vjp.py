"""The derivative of the norms by HK kernels: the implementation "hk"."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jax_hipkittens import _stack
from jax_hipkittens.ops.norm import kernel, reference

# With jax.checkpoint's policy save_only_these_names(RESIDUAL_NAME) the backward does
# not run the forward again.
RESIDUAL_NAME = "jax_hipkittens.norm"


def norm(
    x: jax.Array,
    weight: jax.Array | None,
    bias: jax.Array | None,
    residual: jax.Array | None,
    seed: jax.Array,
    *,
    strict: bool,
    **config: Any,
) -> tuple[jax.Array, jax.Array]:
    """As ``reference.norm``, by HK kernels.

    Raises:
      NotImplementedError: the kernels cannot serve the call.
    """
    kernel.check(x)
    # The casts' own rules bring the f32 gradients back to the weights' dtypes.
    vectors = (None if v is None else v.astype(jnp.float32) for v in (weight, bias))
    op = _Norm(kernel.Config(**config), strict)
    y, h = _stack.apply(op, (x, residual, *vectors, seed))
    return y, h


@dataclasses.dataclass(frozen=True)
class _Norm(_stack.Op):
    """Outputs y and h; mean (of layer norms) and rstd are for gradients.

    h is x itself without residual and dropout. With them it replaces x in gradients,
    so that x is not kept.
    """

    config: kernel.Config
    strict: bool

    residual_name = RESIDUAL_NAME
    outputs = 2

    @property
    def saved(self) -> tuple[int, ...]:  # type: ignore[override]
        return (1, 2, 3) if self.config.kind == "layer" else (1, 2)

    def run(self, operands: _stack.Arrays, with_more: bool) -> list[jax.Array]:
        present = tuple(x is not None for x in operands)
        forward = kernel.Forward(
            present, self.strict, self.config, operands[0].ndim - 1
        )
        y, *rest = _stack.run(forward, operands)
        return [y, *rest] if forward.makes_h else [y, operands[0], *rest]

    def residuals(
        self, operands: _stack.Arrays, results: _stack.Arrays, wanted: Sequence[int]
    ) -> _stack.Arrays:
        _, h, *statistics = results
        mean = statistics[0] if self.config.kind == "layer" else None
        return (h, mean, statistics[-1], operands[2], operands[4])

    def tangent(
        self, residuals: _stack.Arrays, tangents: _stack.Arrays, wanted: Sequence[int]
    ) -> Sequence[jax.Array]:
        h, _, _, weight, seed = residuals
        given = dict(zip(wanted, tangents, strict=True))
        d_hidden = jnp.zeros_like(h)
        if {0, 1} & given.keys():
            d_hidden = reference.hidden(
                given.get(0, d_hidden), given.get(1), seed, self.config.dropout_rate
            )
        config = self.config._replace(dropout_rate=0.0)._asdict()

        def of_hidden(h: jax.Array, weight: Any) -> jax.Array:
            return reference.norm(h, weight, None, None, None, **config)[0]

        primals, dots = (h, weight), (d_hidden, given.get(2))
        if weight is not None and 2 not in given:
            dots = d_hidden, jnp.zeros_like(weight)
        _, dy = jax.jvp(of_hidden, primals, dots)
        if 3 in given:
            d_bias = given[3].reshape((1,) * (h.ndim - 1) + given[3].shape)
            dy = dy + d_bias.astype(dy.dtype)
        return [dy, d_hidden]

    def pullback(
        self, residuals: _stack.Arrays, cotangents: _stack.Arrays, wanted: _stack.Kinds
    ) -> Sequence[jax.Array]:
        h, mean, rstd, weight, seed = residuals
        dy, dh = cotangents
        dy = jnp.zeros_like(h) if dy is None else dy
        operands = (h, weight, mean, rstd, dy, dh, seed)
        backward = kernel.Backward(
            tuple(x is not None for x in operands),
            self.strict,
            self.config,
            h.ndim - 1,
            3 in wanted,
        )
        dx, *rest = _stack.run(backward, operands)
        found: dict[int, jax.Array] = {0: dx}
        found[1] = rest.pop(0) if self.config.dropout_rate > 0 else dx
        if weight is not None:
            found[2] = rest.pop(0)
        if 3 in wanted:
            found[3] = rest.pop(0)
        return [found[i] for i in wanted]
