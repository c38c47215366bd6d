"""Prints a digest of rotary's results; run in processes of one and two CPUs."""

import functools

import jax
import jax.numpy as jnp

import jax_hipkittens as hk
from tests.jax_hipkittens import bits


def results(interleaved, dtype):
    x = jax.random.normal(jax.random.key(0), (3, 300, 5, 96), dtype)
    cos, sin = hk.rotary_tables(400, 64)
    op = functools.partial(
        hk.rotary,
        offset=jnp.array([0, 7, 100]),
        interleaved=interleaved,
        implementation="hk",
    )
    y, pullback = jax.vjp(op, x, cos, sin)
    return y, pullback(y)


def main():
    """Forward and backward of both pairings in every dtype."""
    print(
        bits.digest(
            [
                jax.jit(results, static_argnums=(0, 1))(interleaved, dtype)
                for interleaved in (False, True)
                for dtype in ("bfloat16", "float16", "float32")
            ]
        )
    )
