"""Inputs of attention and runs of one implementation on them."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jax_hipkittens as hk
from jax_hipkittens.ops import philox
from jax_hipkittens.ops.attention import reference
from tests.jax_hipkittens.ops.attention import oracle

NAMES = "out", "lse", "d_query", "d_key", "d_value"
DIFFERENTIABLE = "bias", "sinks", "alibi_slopes"


class Case(NamedTuple):
    """Sizes and options of one call."""

    batch: int = 1
    queries: int = 65
    keys: int = 65
    heads: int = 4
    kv_heads: int = 2
    dim: int = 32
    options: dict[str, Any] = {}
    value_dim: int | None = None  # dim, unless given

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

    @property
    def value_shape(self):
        return *self.key_shape[:3], self.value_dim or self.dim

    @property
    def differentiable(self):
        """The options that have a gradient besides query, key and value."""
        return [name for name in DIFFERENTIABLE if name in self.options]

    @property
    def names(self):
        """Of what ``run`` gives."""
        return [*NAMES, *(f"d_{name}" for name in self.differentiable)]

    def visible(self):
        return oracle.visible(*self[:3], **self.options)

    def extras(self):
        of_query, of_key = oracle.positions(*self[:3], **self.options)
        lengths = self.options.get("query_seq_lengths", [self.queries] * self.batch)
        rate = self.options.get("dropout_rate", 0.0)
        return oracle.Extras(
            self.options.get("bias"),
            self.options.get("logits_soft_cap"),
            self.options.get("alibi_slopes"),
            np.abs(of_query[:, :, None] - of_key[:, None]),
            self.options.get("sinks"),
            None if rate == 0 else self.kept() * philox.keep_scale(rate),
            np.arange(self.queries) < np.reshape(lengths, (-1, 1)),
        )

    def kept(self):
        """bool[B,N,T,S], the probabilities that dropout keeps."""
        seed = jax.random.bits(self.options["dropout_key"], (2,), jnp.uint32)
        origin = np.zeros((self.batch, 4), np.int32)
        origin[:, 0] = np.arange(self.batch)
        shape = self.batch, self.heads, self.queries, self.keys
        rate = self.options["dropout_rate"]
        return np.asarray(
            reference.keep_mask(seed[None], jnp.asarray(origin), rate, shape)
        )

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
    q, k, v = case.query_shape, case.key_shape, case.value_shape
    shapes = q, k, v, (*q[:3], v[3]), q[:3]
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    return Inputs(*(jnp.asarray(x, dtype) for x in arrays[:4]), jnp.asarray(arrays[4]))


def run(case, implementation, inputs):
    """Results as ``case.names`` has them, compiled."""
    return compiled(case, implementation)(inputs)


def compiled(case, implementation):
    """The function of ``Inputs`` that ``run`` calls."""
    options = {
        name: jnp.asarray(value, jnp.int32) if name.endswith("lengths") else value
        for name, value in case.options.items()
    }

    learnt = tuple(options.pop(name) for name in case.differentiable)
    swap = options.get("layout") == "BNTH"

    def op(query, key, value, *learnt):
        given = query, key, value
        out, lse = hk.attention(
            *(x.swapaxes(1, 2) if swap else x for x in given),
            **options,
            **dict(zip(case.differentiable, learnt, strict=True)),
            implementation=implementation,
            return_residual=True,
        )
        return (out.swapaxes(1, 2), lse.swapaxes(1, 2)) if swap else (out, lse)

    @jax.jit
    def value_and_gradients(inputs):
        (out, lse), pullback = jax.vjp(op, *inputs[:3], *learnt)
        return out, lse, *pullback((inputs.d_out, inputs.d_lse))

    return value_and_gradients


def exact(case, inputs):
    """What ``run`` should give, in float64."""
    return oracle.attention(*_oracle_arguments(case, inputs))


def noise(case, inputs):
    """The rounding noise of each of the results of ``run``.

    A gradient is a sum of terms that cancel, every one of them computed in f32: it is
    known to the roundoff of the sum of their absolute values. Those of
    ``DIFFERENTIABLE`` are sums over rows, in which the output's own rounding shows.
    """
    terms = oracle.gradient_terms(*_oracle_arguments(case, inputs))
    coarse = float(jnp.finfo(inputs.query.dtype).eps) / 2
    return [
        (2.0**-24 if name in NAMES else coarse) * getattr(terms, name)
        for name in case.names
    ]


def _oracle_arguments(case, inputs):
    q, k, v, d_out, d_lse = inputs
    return q, k, v, case.scale(), case.visible(), d_out, d_lse, case.extras()
