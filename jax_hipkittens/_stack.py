"""Makes a kernel and its gradient kernel one function that JAX can transform.

From the outside in: differentiation in both modes and to any order (``jax.custom_jvp``
around the primitive ``linear``), vmap (the primitive ``call``, by leading axes that
every :class:`Kernel` takes any number of), sharding (``_partition``), and the FFI call.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero

from jax_hipkittens import _checks, _dispatch, _partition, _primitives, _targets

Arrays = Sequence[Any]
"""Arrays in an order of their own; None where an optional one is absent."""

Kinds = Mapping[int, jax.ShapeDtypeStruct]
"""Shapes and dtypes of some of an op's operands, by their places."""

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One kernel with all that is known of it at trace time; equal by value.

    Each operand has the number of axes in ``ranks``, and before them as many leading
    axes as all others have, of their sizes or of size 1. Results have the leading axes
    of all operands together.

    Attributes:
      present: which operands are there; absent ones are None.
      strict: it must not be replaced by XLA on any platform.
    """

    present: tuple[bool, ...]
    strict: bool

    # Given by each subclass.
    name: ClassVar[str] = ""
    ranks: ClassVar[tuple[int, ...]] = ()
    tied: ClassVar[tuple[str, str] | None] = None  # as in _partition.Letters
    sums_over_devices: ClassVar[bool] = False  # by itself, in ``flat``
    summed_like: ClassVar[Mapping[int, int]] = {}
    """Results summed to the leading axes of an operand: its place by that of each."""

    def types(self, operands: Arrays) -> list[tuple[Shape, Any]]:
        """Shape without leading axes, and dtype, of every result."""
        raise NotImplementedError

    def letters(self, operands: Arrays) -> tuple[Sequence[str], Sequence[str], str]:
        """Letters of operands and results without leading axes, and the shardable."""
        raise NotImplementedError

    def flat(self, part: _partition.Part, operands: Arrays) -> Sequence[jax.Array]:
        """The kernel call, on operands whose leading axes are one, of size B or 1."""
        raise NotImplementedError

    def flat_reference(self, operands: Arrays) -> Sequence[jax.Array]:
        """The same by plain JAX."""
        raise NotImplementedError

    def gpu_limit(self, operands: Arrays) -> str | None:
        """Why no kernel for GPUs serves these operands, or None."""
        return "HK has no kernel for GPUs"

    # What primitives.call takes: flat operands.

    def results(self, operands: Sequence[Any]) -> list[tuple[Shape, Any]]:
        restored = self._restored(operands)
        leads = self._result_leads(restored)
        types = self.types(restored)
        return [
            ((*lead, *shape), dtype)
            for lead, (shape, dtype) in zip(leads, types, strict=True)
        ]

    def host(self, operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
        if _targets.simulated() is not None:
            return self.gpu(operands)
        return self._by_kernels(operands)

    def gpu(self, operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
        limit = self.gpu_limit(self._restored(operands))
        if limit is not None:
            return self._instead(operands, limit)
        return self._by_kernels(operands)

    def _by_kernels(self, operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
        letters = self._letters(operands)

        def local(
            part: _partition.Part, operands: Sequence[jax.Array]
        ) -> Sequence[jax.Array]:
            found = self._local(part, operands)
            if self.sums_over_devices:
                return found
            return [
                part.sum_missing(x, axes)
                for x, axes in zip(found, letters.results, strict=True)
            ]

        return _partition.partitioned(letters, local, operands)

    def reference(self, operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
        reason = "HK has no kernel for the platform of this program"
        return self._instead(operands, reason)

    def _instead(
        self, operands: Sequence[jax.Array], reason: str
    ) -> Sequence[jax.Array]:
        if self.strict:
            raise NotImplementedError(
                f"{self.name}: {reason}; implementation=None falls back to XLA."
            )
        _dispatch.warn_once(f"{self.name}: {reason}, so it falls back to XLA")
        return self.flattened(self.flat_reference, operands)

    def batched(
        self, operands: Sequence[jax.Array], axes: Sequence[int | None]
    ) -> tuple[Sequence[jax.Array], Sequence[int]]:
        size = next(
            x.shape[axis]
            for x, axis in zip(operands, axes, strict=True)
            if axis is not None
        )
        moved = [
            x[None] if axis is None else jnp.moveaxis(x, axis, 0)
            for x, axis in zip(operands, axes, strict=True)
        ]
        restored = self._restored(moved)
        for i in self.summed_like.values():  # Each of the mapped has a sum of its own.
            if restored[i] is not None:
                shape = (size, *restored[i].shape[1:])
                restored[i] = jnp.broadcast_to(restored[i], shape)
        results = run(self, restored)
        return results, [0] * len(results)

    def flattened(
        self,
        function: Callable[[Arrays], Sequence[jax.Array]],
        operands: Sequence[jax.Array],
    ) -> list[jax.Array]:
        """``function`` of the operands with their leading axes made one."""
        restored = self._restored(operands)
        lead = self._leading(restored)
        flat = [
            None if x is None else _flatten(x, lead, rank)
            for x, rank in zip(restored, self.ranks, strict=True)
        ]
        own = self._result_leads(restored)
        return [
            _unflatten(x, lead, to) for x, to in zip(function(flat), own, strict=True)
        ]

    def _local(
        self, part: _partition.Part, operands: Sequence[jax.Array]
    ) -> Sequence[jax.Array]:
        if 0 in self._leading(self._restored(operands)):
            return [jnp.zeros(*result) for result in self.results(operands)]
        return self.flattened(functools.partial(self.flat, part), operands)

    def _restored(self, operands: Sequence[Any]) -> list[Any]:
        given = iter(operands)
        return [next(given) if there else None for there in self.present]

    def _lead(self, operands: Arrays, i: int) -> Shape:
        return tuple(operands[i].shape[: len(operands[i].shape) - self.ranks[i]])

    def _leading(self, operands: Arrays) -> Shape:
        """The sizes of the leading axes, broadcast over the operands."""
        given = (i for i, x in enumerate(operands) if x is not None)
        leads = [self._lead(operands, i) for i in given]
        pairs = zip(*leads, strict=True)
        return tuple(0 if 0 in sizes else max(sizes) for sizes in pairs)

    def _result_leads(self, operands: Arrays) -> list[Shape]:
        lead = self._leading(operands)
        count = len(self.types(operands))
        like = self.summed_like
        return [
            self._lead(operands, like[i]) if i in like else lead for i in range(count)
        ]

    def _letters(self, operands: Sequence[Any]) -> _partition.Letters:
        restored = self._restored(operands)
        own, results, shardable = self.letters(restored)
        lead = _LEADING[: len(self._leading(restored))]
        return _partition.Letters(
            tuple(
                _named(lead + axes, x.shape)
                for axes, x in zip(own, restored, strict=True)
                if x is not None
            ),
            tuple(
                _named(lead + axes, shape) if i in self.summed_like else lead + axes
                for i, (axes, (shape, _)) in enumerate(
                    zip(results, self.results(operands), strict=True)
                )
            ),
            lead + shardable,
            self.tied,
        )


# Kernels name their own axes by small letters.
_LEADING = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _flatten(x: jax.Array, lead: Shape, rank: int) -> jax.Array:
    """x [lead..., rest...] as [B, rest...], or [1, rest...] if it has no such axes."""
    rest = x.shape[x.ndim - rank :]
    own = x.shape[: x.ndim - rank]
    if own != lead and any(size != 1 for size in own):
        x = jnp.broadcast_to(x, lead + rest)
    return x.reshape(math.prod(x.shape[: x.ndim - rank]), *rest)


def _unflatten(x: jax.Array, lead: Shape, to: Shape) -> jax.Array:
    """x [B,...] as [lead...,...], summed to the leading axes ``to`` of size 1."""
    if to == lead or x.shape[0] == math.prod(to):
        return x.reshape(*to, *x.shape[1:])
    axes = tuple(i for i, size in enumerate(to) if size != lead[i])
    return x.reshape(*lead, *x.shape[1:]).sum(axes, keepdims=True)


def _named(letters: str, shape: Shape) -> str:
    """``letters`` with "_" for axes of size 1, which broadcast."""
    pairs = zip(letters, shape, strict=True)
    return "".join("_" if size == 1 else letter for letter, size in pairs)


def run(kernel: Kernel, operands: Arrays) -> list[jax.Array]:
    """The results of ``kernel``, which vary in ``shard_map`` as any operand does."""
    given = [x for x in operands if x is not None]
    return _primitives.call(kernel, _primitives.equally_varying(given))


class Op:
    """A differentiable function of operands; subclasses are frozen and equal by value.

    It gives ``outputs`` results, and on demand more, which only gradients need.

    Attributes:
      residual_name: the name that ``jax.checkpoint``'s policies know residuals by.
      outputs: how many results are outputs.
      saved: which results gradients need.
    """

    residual_name = ""
    outputs = 1
    saved: tuple[int, ...] = ()

    def run(self, operands: Arrays, with_more: bool) -> list[jax.Array]:
        """The outputs, and the results after them that only gradients need."""
        raise NotImplementedError

    def residuals(
        self, operands: Arrays, results: Arrays, wanted: Sequence[int]
    ) -> Arrays:
        """What is kept for gradients of the operands ``wanted``."""
        raise NotImplementedError

    def tangent(
        self, residuals: Arrays, tangents: Arrays, wanted: Sequence[int]
    ) -> Sequence[jax.Array]:
        """The outputs' tangents by plain JAX, from those of the operands ``wanted``."""
        raise NotImplementedError

    def pullback(
        self, residuals: Arrays, cotangents: Arrays, wanted: Kinds
    ) -> Sequence[jax.Array]:
        """Cotangents of the operands ``wanted`` by kernels; one of None is zero."""
        raise NotImplementedError


def apply(op: Op, operands: Arrays) -> tuple[jax.Array, ...]:
    """The outputs of ``op``, under every transformation of JAX.

    Raises:
      NotImplementedError: an operand has a sharding in its type.
    """
    given = [x for x in operands if x is not None]
    for x in given:
        if _partition.is_explicit(x):
            raise _checks.limit(
                "arrays whose mesh axes are of type Auto or Manual",
                f"{jax.typeof(x)} of Explicit axes",
            )
    varied = iter(_primitives.equally_varying(given))
    return _apply(
        op, False, tuple(None if x is None else next(varied) for x in operands)
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _apply(op: Op, with_more: bool, operands: Arrays) -> tuple[jax.Array, ...]:
    results = op.run(operands, with_more)
    return tuple(results if with_more else results[: op.outputs])


@functools.partial(_apply.defjvp, symbolic_zeros=True)
def _apply_jvp(op: Op, with_more: bool, primals: Any, tangents: Any) -> Any:
    (operands,), (dots,) = primals, tangents
    results = list(_apply(op, True, operands))
    for i in op.saved:
        results[i] = checkpoint_name(results[i], op.residual_name)
    wanted = tuple(i for i, dot in enumerate(dots) if _is_active(dot))
    leaves, tree = jax.tree.flatten(list(op.residuals(operands, results, wanted)))
    derivative = _Derivative(
        op, wanted, tree, tuple(_kind(operands[i]) for i in wanted)
    )
    changes = _primitives.linear(
        derivative,
        leaves,
        [dots[i] for i in wanted],
        [jax.typeof(x) for x in results[: op.outputs]],
    )
    more = results[op.outputs :] if with_more else []
    return (
        (*results[: op.outputs], *more),
        (*changes, *(_primitives.zeros_like(x) for x in more)),
    )


def _is_active(tangent: Any) -> bool:
    return tangent is not None and not isinstance(tangent, SymbolicZero)


def _kind(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@dataclasses.dataclass(frozen=True)
class _Derivative:
    """The derivative of ``op`` in the operands ``wanted``, of the types ``kinds``."""

    op: Op
    wanted: tuple[int, ...]
    tree: Any
    kinds: tuple[Any, ...]

    def forward(self, residuals: Any, tangents: Any) -> Sequence[jax.Array]:
        kept = jax.tree.unflatten(self.tree, residuals)
        return tuple(self.op.tangent(kept, tangents, self.wanted))

    def transpose(self, residuals: Any, cotangents: Any) -> Sequence[jax.Array]:
        return _pullback(self, tuple(residuals), tuple(cotangents))

    def by_kernels(self, residuals: Any, cotangents: Any) -> Sequence[jax.Array]:
        kept = jax.tree.unflatten(self.tree, residuals)
        kinds = dict(zip(self.wanted, self.kinds, strict=True))
        return tuple(self.op.pullback(kept, cotangents, kinds))

    def by_reference(self, residuals: Any, cotangents: Any) -> Sequence[jax.Array]:
        """The transpose of ``tangent``, which JAX can differentiate again."""
        shown = [i for i, c in enumerate(cotangents) if c is not None]

        def some(*tangents: jax.Array) -> Any:
            results = self.forward(residuals, tangents)
            return tuple(results[i] for i in shown)

        zeros = [jnp.zeros(kind.shape, kind.dtype) for kind in self.kinds]
        # In shard_map they vary as the operands did, or their cotangents are summed.
        zeros = _primitives.equally_varying([*zeros, *residuals])[: len(zeros)]
        _, pull = jax.vjp(some, *zeros)
        return tuple(pull(tuple(cotangents[i] for i in shown)))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _pullback(derivative: _Derivative, residuals: Any, cotangents: Any) -> Any:
    return derivative.by_kernels(residuals, cotangents)


@_pullback.defjvp
def _pullback_jvp(derivative: _Derivative, primals: Any, tangents: Any) -> Any:
    """By the reference: kernels have no second derivatives.

    Residuals that are results depend on the operands too; ``tangent`` reads only those
    whose own derivatives are right, so its derivative is the whole one.
    """
    results = _pullback(derivative, *primals)
    _, changes = jax.jvp(derivative.by_reference, primals, tangents)
    return results, changes
