"""What the HK rotary kernel serves, and the call to it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jax_hipkittens import _checks, _ffi

DTYPES = (jnp.bfloat16, jnp.float16, jnp.float32)


class Config(NamedTuple):
    """What is known at trace time; ``inverse`` turns by the negative angle."""

    interleaved: bool
    inverse: bool = False


def check(x: jax.Array, cos: jax.Array) -> None:
    """Raises NotImplementedError unless the kernel serves x [B,T,N,D]."""
    if x.dtype not in DTYPES:
        raise _checks.limit("bfloat16, float16 and float32", f"x {x.dtype}")
    if cos.shape[-1] == 0:
        raise _checks.limit("2 rotary dims or more", "0")
    _ffi.require()


def rotary(
    config: Config, x: jax.Array, cos: jax.Array, sin: jax.Array, offsets: jax.Array
) -> jax.Array:
    """x T[B,T,N,D], cos and sin f32[B or 1,P,R/2], offsets s32[B] -> y T[B,T,N,D]."""
    (y,) = _ffi.call(
        "rotary",
        [_ffi.result(x, x.shape, x.dtype)],
        x,
        cos,
        sin,
        offsets,
        interleaved=config.interleaved,
        inverse=config.inverse,
    )
    return y
