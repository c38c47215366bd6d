"""The differentiation rule of the HK norm kernels."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero

from jax_hipkittens.ops.norm import kernel

# Every residual carries this name, so that under jax.checkpoint with the policy
# save_only_these_names(RESIDUAL_NAME) the backward does not run the forward again.
RESIDUAL_NAME = "jax_hipkittens.norm"


class Residuals(NamedTuple):
    """What the backward reads: ``hidden`` is h T[R,H], which the forward normalised.

    The input x itself is not kept: with dropout or a residual, h replaces it.
    """

    hidden: jax.Array
    mean: jax.Array
    rstd: jax.Array
    weight: jax.Array | None
    bias: jax.Array | None
    seed: jax.Array


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def norm(
    config: kernel.Config,
    x: jax.Array,
    residual: jax.Array | None,
    weight: jax.Array | None,
    bias: jax.Array | None,
    seed: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """(y, h) of x T[R,H], with f32 weight and bias [H] and a seed u32[2]."""
    out = kernel.forward(config, x, residual, weight, bias, seed)
    return out.y, x if out.h is None else out.h


def _forward(
    config: kernel.Config, *primals: Any
) -> tuple[tuple[jax.Array, jax.Array], Residuals]:
    # With symbolic zeros, every leaf comes as a (value, perturbed) pair.
    x, residual, weight, bias, seed = jax.tree.map(
        lambda primal: primal.value,
        primals,
        is_leaf=lambda leaf: hasattr(leaf, "value"),
    )
    out = kernel.forward(config, x, residual, weight, bias, seed)
    hidden = x if out.h is None else out.h
    residuals = Residuals(
        checkpoint_name(hidden, RESIDUAL_NAME),
        checkpoint_name(out.mean, RESIDUAL_NAME),
        checkpoint_name(out.rstd, RESIDUAL_NAME),
        weight,
        bias,
        seed,
    )
    return (out.y, hidden), residuals


def _backward(
    config: kernel.Config, saved: Residuals, cotangents: tuple[Any, Any]
) -> tuple[jax.Array | None, ...]:
    dy, dh = cotangents
    grads = kernel.backward(
        config,
        saved.hidden,
        saved.mean,
        saved.rstd,
        saved.weight,
        saved.seed,
        saved.bias is not None,
        jnp.zeros_like(saved.hidden) if isinstance(dy, SymbolicZero) else dy,
        None if isinstance(dh, SymbolicZero) else dh,
    )
    return grads.dx, grads.dresidual, grads.dweight, grads.dbias, None


norm.defvjp(_forward, _backward, symbolic_zeros=True)
