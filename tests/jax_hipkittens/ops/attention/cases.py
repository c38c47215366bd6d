"""Inputs of attention and runs of one implementation on them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jax_hipkittens as hk
from tests.jax_hipkittens.ops.attention import oracle


class Case(NamedTuple):
    """Sizes and options of one call."""

    batch: int = 1
    queries: int = 65
    keys: int = 65
    heads: int = 4
    kv_heads: int = 2
    dim: int = 32
    options: dict[str, Any] = {}

    def __str__(self):
        options = "".join(f"-{k}={v}" for k, v in self.options.items())
        b, t, s, n, k, d = self[:6]
        return f"B{b}T{t}S{s}N{n}K{k}D{d}{options}".replace(" ", "")

    @property
    def query_shape(self):
        return self.batch, self.queries, self.heads, self.dim

    @property
    def key_shape(self):
        return self.batch, self.keys, self.kv_heads, self.dim

    def visible(self):
        options = {k: v for k, v in self.options.items() if k != "scale"}
        return oracle.visible(self.batch, self.queries, self.keys, **options)

    def scale(self):
        return self.options.get("scale", self.dim**-0.5)


class Inputs(NamedTuple):
    query: jax.Array
    key: jax.Array
    value: jax.Array
    d_out: jax.Array
    d_lse: jax.Array


def draw(case, dtype, seed=0):
    """Standard normal operands and cotangents."""
    rng = np.random.default_rng(seed)
    q, k = case.query_shape, case.key_shape
    arrays = [rng.standard_normal(s, np.float32) for s in (q, k, k, q, q[:3])]
    return Inputs(*(jnp.asarray(x, dtype) for x in arrays[:4]), jnp.asarray(arrays[4]))


def run(case, implementation, inputs):
    """(out, lse, d_query, d_key, d_value), compiled."""
    return compiled(case, implementation)(inputs)


def compiled(case, implementation):
    """The function of ``Inputs`` that ``run`` calls."""
    options = {
        name: jnp.asarray(value, jnp.int32) if name.endswith("lengths") else value
        for name, value in case.options.items()
    }

    def op(query, key, value):
        return hk.attention(
            *(query, key, value),
            **options,
            implementation=implementation,
            return_residual=True,
        )

    @jax.jit
    def value_and_gradients(inputs):
        (out, lse), pullback = jax.vjp(op, *inputs[:3])
        return out, lse, *pullback((inputs.d_out, inputs.d_lse))

    return value_and_gradients


def exact(case, inputs):
    """What ``run`` should give, in float64."""
    return oracle.attention(*_oracle_arguments(case, inputs))


def noise(case, inputs):
    """The rounding noise of each of the results of ``run``.

    A gradient is a sum of terms that cancel, every one of them computed in f32: it is
    known to the roundoff of the sum of their absolute values.
    """
    roundoff = 2.0**-24
    terms = oracle.gradient_terms(*_oracle_arguments(case, inputs))
    return 0.0, 0.0, *(roundoff * term for term in terms)


def _oracle_arguments(case, inputs):
    q, k, v, d_out, d_lse = inputs
    return q, k, v, case.scale(), case.visible(), d_out, d_lse
