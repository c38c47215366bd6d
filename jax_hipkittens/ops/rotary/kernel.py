"""The HK rotary kernel: what it serves, and the call to it.

Axis letters: B batch, T steps, N heads, D head dimension, P table positions, R rotary
dims.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jax_hipkittens import _checks, _ffi, _partition, _stack
from jax_hipkittens.ops.rotary import reference

DTYPES = (jnp.bfloat16, jnp.float16, jnp.float32)


def check(x: jax.Array, cos: jax.Array) -> None:
    """Raises NotImplementedError unless the kernel serves x [B,T,N,D]."""
    if x.dtype not in DTYPES:
        raise _checks.limit("bfloat16, float16 and float32", f"x {x.dtype}")
    if cos.shape[-1] == 0:
        raise _checks.limit("2 rotary dims or more", "0")
    _ffi.require_family("rotary")


@dataclasses.dataclass(frozen=True)
class Rotary(_stack.Kernel):
    """x T[...,T,N,D], cos and sin f32[...,P,R/2], offsets s32[...] -> y as x.

    ``inverse`` turns by the negative angle.
    """

    interleaved: bool
    inverse: bool = False

    name = "rotary"
    ranks = (3, 2, 2, 0)

    def types(self, operands: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
        x = operands[0]
        return [(x.shape[-3:], x.dtype)]

    def letters(
        self, operands: Sequence[Any]
    ) -> tuple[Sequence[str], Sequence[str], str]:
        return ("tnd", "pr", "pr", ""), ("tnd",), "tn"

    def flat(
        self, part: _partition.Part, operands: Sequence[Any]
    ) -> Sequence[jax.Array]:
        x, cos, sin, offsets = _broadcast(operands)
        length = x.shape[1]
        # Clipping the offsets first keeps the sum from overflowing.
        whole = length * part.count("t")
        first = jnp.clip(offsets, -whole, cos.shape[1]) + part.place("t") * length
        return _ffi.call(
            "rotary",
            [_ffi.result(x, x.shape, x.dtype)],
            *(x, cos, sin, first.astype(jnp.int32)),
            interleaved=self.interleaved,
            inverse=self.inverse,
        )

    def flat_reference(self, operands: Sequence[Any]) -> Sequence[jax.Array]:
        x, cos, sin, offsets = _broadcast(operands)
        sin = -sin if self.inverse else sin
        return [reference.rotary(x, cos, sin, offsets, interleaved=self.interleaved)]


def _broadcast(operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """x and offsets of the whole batch, and tables of it or of one for all."""
    x, cos, sin, offsets = operands
    batch = max(each.shape[0] for each in operands)
    tables = jnp.broadcast_shapes(cos.shape, sin.shape)
    return (
        jnp.broadcast_to(x, (batch, *x.shape[1:])),
        jnp.broadcast_to(cos, tables),
        jnp.broadcast_to(sin, tables),
        jnp.broadcast_to(offsets, (batch,)),
    )
