"""Builds the sharding rules of kernels: the only user of ``custom_partitioning``.

A kernel says by letters which axes of its operands and results are the same. An axis
whose letter is in ``shardable`` may be split over devices, each of which computes its
part; a result that lacks the letter is a sum over them. All others are gathered first.
JAX enforces none of this: the callback itself chooses shardings that are legal, from
those that the operands come with, and XLA moves the data to fit.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Axes = tuple[str, ...]


class Letters(NamedTuple):
    """The axes of a kernel's arrays, one string of letters each, such as "abtn".

    Attributes:
      operands: one for each operand; "_" is an axis that is never split.
      results: one for each result.
      shardable: letters that may be split.
      tied: (n, k): letter n is heads in groups, and k the heads that each group shares.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    shardable: str
    tied: tuple[str, str] | None = None


class Part(NamedTuple):
    """What one device computes.

    Attributes:
      mesh: sizes of the mesh axes.
      split: the mesh axes over which each letter is split.
      tied: as in Letters.
    """

    mesh: Mapping[str, int]
    split: Mapping[str, Axes]
    tied: tuple[str, str] | None = None

    def count(self, letter: str) -> int:
        """Into how many parts the axis ``letter`` is split."""
        return math.prod(self.mesh[axis] for axis in self.split.get(letter, ()))

    def place(self, letter: str) -> jax.Array | int:
        """Which of them this device has."""
        axes = self.split.get(letter, ())
        return jax.lax.axis_index(axes) if axes else 0

    def sum(self, x: jax.Array, letters: str) -> jax.Array:
        """x summed over the devices that split ``letters``."""
        named = (axis for each in letters for axis in self.split.get(each, ()))
        axes = tuple(dict.fromkeys(named))  # Tied letters are split over the same.
        return jax.lax.psum(x, axes) if axes else x

    def sum_missing(self, x: jax.Array, letters: str) -> jax.Array:
        """x, whose axes are ``letters``, summed in f32 over devices that split others.

        Heads in groups are tied to those that they share: one stands for both.
        """
        missing = "".join(letter for letter in self.split if letter not in letters)
        if self.tied is not None and set(self.tied) & set(letters) & set(self.split):
            missing = "".join(each for each in missing if each not in self.tied)
        if not missing:
            return x
        return self.sum(x.astype(jnp.float32), missing).astype(x.dtype)


WHOLE = Part({}, {})

Local = Callable[[Part, Sequence[jax.Array]], Sequence[jax.Array]]


def partitioned(
    letters: Letters, local: Local, operands: Sequence[jax.Array]
) -> Sequence[jax.Array]:
    """``local(part, operands)``, split over the devices of a sharded jit.

    ``local`` gives the results of its part, summed over the devices where it has to be.
    """
    if not is_needed():
        return local(WHOLE, operands)
    call = custom_partitioning(lambda *xs: tuple(local(WHOLE, xs)))
    call.def_partition(
        functools.partial(_partition, letters, local),
        infer_sharding_from_operands=functools.partial(_infer, letters),
        sharding_rule=_sharding_rule(letters),
    )
    return call(*operands)


def is_needed() -> bool:
    """Whether the program may be split; that inside ``shard_map`` already is."""
    kinds = set(jax.sharding.get_abstract_mesh().axis_types)
    return jax.device_count() > 1 and kinds != {jax.sharding.AxisType.Manual}


def is_explicit(x: jax.Array) -> bool:
    """Whether the type of x says how it is sharded, as results' types then have to."""
    sharding = getattr(jax.typeof(x), "sharding", None)
    return any(axes is not None for axes in getattr(sharding, "spec", None) or ())


def _sharding_rule(letters: Letters) -> str:
    """The same in Shardy's notation, by which it propagates shardings."""
    fresh = (f"u{i}" for i in range(10**6))

    def side(axes: Sequence[str]) -> str:
        named = (
            " ".join(next(fresh) if a == "_" else a for a in each) for each in axes
        )
        return ", ".join(named)

    return f"{side(letters.operands)} -> {side(letters.results)}"


def _partition(
    letters: Letters, local: Local, mesh: Mesh, operands: Any, results: Any
) -> Any:
    split = choose(letters, dict(mesh.shape), operands)
    part = Part(dict(mesh.shape), split, letters.tied)

    def named(axes: str) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*(split.get(a) for a in axes)))

    return (
        mesh,
        lambda *xs: tuple(local(part, xs)),
        tuple(named(axes) for axes in letters.results),
        tuple(named(axes) for axes in letters.operands),
    )


def _infer(letters: Letters, mesh: Mesh, operands: Any, results: Any) -> Any:
    split = choose(letters, dict(mesh.shape), operands)
    return tuple(
        NamedSharding(mesh, PartitionSpec(*(split.get(a) for a in axes)))
        for axes in letters.results
    )


def choose(
    letters: Letters, mesh: Mapping[str, int], operands: Sequence[Any]
) -> dict[str, Axes]:
    """The mesh axes over which each letter is split.

    A letter takes those of the first operand in which it is split; no mesh axis splits
    two letters, and every part has the same size.
    """
    sizes: dict[str, int] = {}
    split: dict[str, Axes] = {}
    for axes, operand in zip(letters.operands, operands, strict=True):
        for letter, size, over in zip(axes, operand.shape, _spec(operand), strict=True):
            sizes.setdefault(letter, size)
            free = not {axis for used in split.values() for axis in used} & set(over)
            even = size % math.prod(mesh[axis] for axis in over) == 0
            wanted = letter in letters.shardable
            if over and wanted and free and even and letter not in split:
                split[letter] = over
    if letters.tied is not None:
        _tie(letters.tied, sizes, mesh, split)
    return split


def _tie(
    tied: tuple[str, str],
    sizes: Mapping[str, int],
    mesh: Mapping[str, int],
    split: dict[str, Axes],
) -> None:
    """Splits the heads n and the heads k that their groups share alike.

    Where there are fewer k than parts, every part keeps all k and reads one of them.
    """
    n, k = tied
    over = split.get(n) or split.get(k)
    split.pop(n, None)
    split.pop(k, None)
    if over is None:
        return
    parts = math.prod(mesh[axis] for axis in over)
    heads, shared = (sizes.get(letter, 1) for letter in tied)  # "_" where it is 1
    if shared % parts == 0:
        split[n] = split[k] = over
    elif heads % parts == 0 and parts % shared == 0:
        split[n] = over


def _spec(operand: Any) -> tuple[Axes, ...]:
    """The mesh axes that split each axis of an operand."""
    spec = getattr(operand.sharding, "spec", None) or ()
    named = [(each,) if isinstance(each, str) else tuple(each or ()) for each in spec]
    return (*named, *((),) * (len(operand.shape) - len(named)))
