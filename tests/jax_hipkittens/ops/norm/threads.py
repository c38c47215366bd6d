"""Prints a digest of the norms' results; run in processes of one and two CPUs."""

import jax

import jax_hipkittens as hk
from tests.jax_hipkittens import bits

SHAPES = [(1000, 130), (3, 5000)]
DTYPES = ("bfloat16", "float16", "float32")


def results(op, shape, dtype):
    keys = jax.random.split(jax.random.key(0), 5)
    x, residual, dy, dh = (jax.random.normal(k, shape, dtype) for k in keys[:4])
    weight, bias = jax.random.normal(keys[4], (2, shape[1]))

    def run(x, residual, weight, bias):
        return op(
            x,
            weight,
            bias,
            residual=residual,
            dropout_rate=0.3,
            dropout_key=jax.random.key(1),
            implementation="hk",
        )

    values, pullback = jax.vjp(run, x, residual, weight, bias)
    return values, pullback((dy, dh))


def main():
    """Forward and backward of every op, shape and dtype."""
    print(
        bits.digest(
            [
                jax.jit(results, static_argnums=(0, 1, 2))(op, shape, dtype)
                for op in (hk.layer_norm, hk.rms_norm)
                for shape in SHAPES
                for dtype in DTYPES
            ]
        )
    )
