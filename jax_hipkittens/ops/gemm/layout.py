"""Lays the operands of ``dot_general`` out as matrices, without copies where it can.

A contraction is a batch of matrix products once each operand's axes are put in the
order batch, free, contracted or batch, contracted, free: the kernel reads either. An
operand whose axes lie in neither order is transposed by XLA first.
"""

from typing import Any, NamedTuple

import jax

Axes = tuple[int, ...]


class Contraction(NamedTuple):
    """The axes of both operands by their role, batch and contracted ones in pairs."""

    lhs_batch: Axes
    lhs_free: Axes
    lhs_contracted: Axes
    rhs_batch: Axes
    rhs_free: Axes
    rhs_contracted: Axes

    @classmethod
    def of(cls, lhs_ndim: int, rhs_ndim: int, dimension_numbers: Any) -> "Contraction":
        """The roles in ``dimension_numbers``, contracted pairs in the lhs's order."""
        (lhs_contracted, rhs_contracted), (lhs_batch, rhs_batch) = dimension_numbers
        pairs = sorted(zip(lhs_contracted, rhs_contracted, strict=True))
        lhs_contracted = tuple(left for left, _ in pairs)
        rhs_contracted = tuple(right for _, right in pairs)
        return cls(
            tuple(lhs_batch),
            _others(lhs_ndim, (*lhs_batch, *lhs_contracted)),
            lhs_contracted,
            tuple(rhs_batch),
            _others(rhs_ndim, (*rhs_batch, *rhs_contracted)),
            rhs_contracted,
        )


def left_operand(lhs: jax.Array, axes: Contraction) -> tuple[jax.Array, bool]:
    """``lhs`` as (a, trans_a): [batch, free, contracted] and False, or the last two
    exchanged and True."""
    return _ordered(lhs, axes.lhs_batch, axes.lhs_free, axes.lhs_contracted)


def right_operand(rhs: jax.Array, axes: Contraction) -> tuple[jax.Array, bool]:
    """``rhs`` as (b, trans_b): [batch, contracted, free] and False, or the last two
    exchanged and True."""
    return _ordered(rhs, axes.rhs_batch, axes.rhs_contracted, axes.rhs_free)


def _others(ndim: int, taken: Axes) -> Axes:
    return tuple(axis for axis in range(ndim) if axis not in taken)


def _ordered(
    x: jax.Array, batch: Axes, rows: Axes, columns: Axes
) -> tuple[jax.Array, bool]:
    if (*batch, *columns, *rows) == tuple(range(x.ndim)) and rows and columns:
        return x, True
    # A transposition in the order that x has already is none.
    return x.transpose(*batch, *rows, *columns), False
