"""Matrix products by XLA: the implementation "xla"."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

ACTIVATIONS: Mapping[str | None, Callable[[jax.Array], jax.Array]] = {
    None: lambda z: z,
    "gelu": functools.partial(jax.nn.gelu, approximate=True),
    "gelu_exact": functools.partial(jax.nn.gelu, approximate=False),
    "silu": jax.nn.silu,
}


@functools.partial(
    jax.jit, static_argnames=("activation", "precision", "dtype"), inline=True
)
def matmul(
    a: jax.Array,
    b: jax.Array,
    bias: jax.Array | None,
    *,
    activation: str | None,
    precision: Any,
    dtype: Any,
) -> jax.Array:
    """``activation(a @ b + bias)`` as ``dtype``, the epilogue in f32 or wider."""
    if bias is None and activation is None:
        return jnp.matmul(a, b, precision=precision, preferred_element_type=dtype)
    wide = jnp.float64 if a.dtype == jnp.float64 else jnp.float32
    z = jnp.matmul(a, b, precision=precision, preferred_element_type=wide)
    if bias is not None:
        z += jnp.broadcast_to(bias.astype(wide), z.shape)
    return ACTIVATIONS[activation](z).astype(dtype)


def dot_general(
    lhs: jax.Array,
    rhs: jax.Array,
    dimension_numbers: Any,
    *,
    precision: Any,
    preferred_element_type: Any,
    out_sharding: Any,
) -> jax.Array:
    """``jax.lax.dot_general``."""
    return jax.lax.dot_general(
        lhs,
        rhs,
        dimension_numbers,
        precision,
        preferred_element_type,
        out_sharding=out_sharding,
    )
