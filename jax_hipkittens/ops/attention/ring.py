"""Ring attention: attention over a sequence that lies split over devices.

Every device keeps its queries. Keys and values travel around the ring of devices, one
block to each at a time, and the results of the blocks are merged by their LSE. The
backward is a second ring, in which the keys' and values' cotangents travel along.

Axis letters as in ``api``: B batch, T queries and S keys of one device, N query heads,
K key/value heads, D head dimension of query and key, E of value. P devices.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike

from jax_hipkittens import _checks, _dispatch, _primitives, _stack
from jax_hipkittens.ops.attention import api, kernel, reference, vjp
from jax_hipkittens.ops.attention import masks as _masks
from jax_hipkittens.ops.attention.scores import Operands, Scores

_OP = "ring_attention"

Axes = str | tuple[str, ...]
Order = Literal["contiguous", "zigzag"]

_Blocks = Sequence[jax.Array]
_Carry = TypeVar("_Carry")


class Ring(NamedTuple):
    """The devices over which a sequence is split, and the tokens that each has.

    Attributes:
      axis: the mesh axis, or axes.
      size: P.
      order: "contiguous" or "zigzag".
    """

    axis: Axes
    size: int
    order: str

    def positions(self, device: Any, length: int) -> jax.Array:
        """s32[length]: numbers in the whole sequence of the tokens that device has."""
        step = jnp.arange(length, dtype=jnp.int32)
        if self.order == "contiguous":
            return device * length + step
        half = length // 2
        mirrored = (2 * self.size - 1 - device) * half + step - half
        return jnp.where(step < half, device * half + step, mirrored)

    def all_positions(self, length: int) -> np.ndarray:
        """Those of all devices, one after another."""
        if self.order == "contiguous":
            return np.arange(self.size * length, dtype=np.int32)
        return zigzag_order(self.size * length, self.size)

    def send(self, blocks: _Blocks) -> list[jax.Array]:
        """The blocks of the device before, as ours go to the one after."""
        to_next = [(i, (i + 1) % self.size) for i in range(self.size)]
        return [jax.lax.ppermute(x, self.axis, to_next) for x in blocks]

    def walk(
        self,
        blocks: _Blocks,
        first: Callable[[_Blocks, jax.Array], _Carry],
        following: Callable[[_Carry, _Blocks, jax.Array], _Carry],
    ) -> _Carry:
        """What ``following`` makes of ``first``, block by block of all devices.

        Both are given a block and the device that it is of, our own first. While they
        run, the next block is on its way. It is a loop and not one block of code, in
        which all blocks could be on their way, and in memory, at once.
        """
        here = jax.lax.axis_index(self.axis)
        if self.size == 1:
            return first(blocks, here)
        arriving = self.send(blocks)
        carry = first(blocks, here)

        def step(state: Any, i: jax.Array) -> tuple[Any, None]:
            carry, blocks = state
            arriving = self.send(blocks)
            return (following(carry, blocks, (here - i) % self.size), arriving), None

        if self.size > 2:
            steps = jnp.arange(1, self.size - 1, dtype=jnp.int32)
            (carry, arriving), _ = jax.lax.scan(step, (carry, arriving), steps)
        return following(carry, arriving, (here + 1) % self.size)


def zigzag_order(length: int, parts: int) -> np.ndarray:
    """The order of tokens that gives each of ``parts`` devices equal causal work.

    Of 2P chunks of a sequence, device i of P has the chunks i and 2P-1-i. Tokens
    ``x[:, zigzag_order(T, P)]`` split into P parts lie so; ``np.argsort`` of the order
    leads back.

    Returns:
      s32[length], the number in the sequence of every token.

    Raises:
      ValueError: ``length`` is not a multiple of ``2 * parts``, or no integer.
    """
    whole = all(isinstance(x, (int, np.integer)) for x in (length, parts))
    if not whole or length < 0 or parts < 1 or length % (2 * parts):
        raise _checks.mistake(
            "zigzag_order",
            "a length that is a multiple of 2 * parts",
            f"length {length} and parts {parts}",
            "pad the sequence",
        )
    chunks = np.arange(length, dtype=np.int32).reshape(2 * parts, -1)
    pairs = [[i, 2 * parts - 1 - i] for i in range(parts)]
    return chunks[pairs].reshape(length)


def ring_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    axis_name: Axes,
    is_causal: bool = False,
    order: Order = "contiguous",
    scale: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    logits_soft_cap: float | None = None,
    return_residual: bool = False,
    implementation: _dispatch.Implementation = None,
) -> Any:
    """Attention over a sequence that is split over devices; for ``jax.shard_map``.

    :func:`attention` of the whole sequence, of which every device gives and gets its
    part. Keys and values pass from device to device while each computes, so that none
    holds more than two parts of them at a time. The gradients, of first order in
    reverse mode, come by a second ring, and keep no more than this device's query, key,
    value, output and LSE. Forward mode and second derivatives gather all keys and
    values, and are computed by XLA. Run twice, the kernels give the same bits.

    Axis letters: B batch, T queries and S keys of one device, N query heads, K
    key/value heads, D head dimension of query and key, E of value; P devices.

    Args:
      query: [B,T,N,D], floating point.
      key: [B,S,K,D], of the query's dtype.
      value: [B,S,K,E], of the query's dtype.
      axis_name: the mesh axis over which the sequence is split, or several.
      is_causal: a query sees no key after it in the whole sequence.
      order: which tokens a device has. "contiguous": device i has the i-th of P parts.
        "zigzag": of 2P parts it has the i-th and the (2P-1-i)-th, which gives all
        devices equal work when causal; see :func:`zigzag_order`.
      scale: as in :func:`attention`.
      local_window_size: as in :func:`attention`, over the whole sequence.
      logits_soft_cap: as in :func:`attention`.
      return_residual: also return the LSE.
      implementation: "hk", "xla" (which gathers all keys and values), several in order,
        or None for HK where it can serve the call and XLA otherwise.

    Returns:
      The output [B,T,N,E]; with ``return_residual`` a pair of it and the LSE
      f32[B,T,N]. A query that sees no key gives zeros, and an LSE of minus infinity.

    Raises:
      ValueError: shapes, dtypes or options that do not go together, or an axis that is
        not one of a mesh in ``shard_map``.
      NotImplementedError: none of the implementations asked for can serve the call.

    Sources: Liu et al., arXiv:2310.01889; Brandon et al. (balanced causal work),
    arXiv:2311.09431.
    """
    q, k, v = _operands(_OP, query, key, value)
    ring = _ring(axis_name, order)
    if order == "zigzag":
        _require_halves(q, k)
    scores = Scores(
        api._position_masks(is_causal, "top_left", local_window_size),
        soft_cap=api._soft_cap(logits_soft_cap),
    )
    of_query = of_key = None
    if scores.masks != (_masks.NONE, None):
        here = jax.lax.axis_index(ring.axis)
        of_query, of_key = (ring.positions(here, x.shape[1])[None] for x in (q, k))
    out, lse = _dispatch.run(
        _OP,
        implementation,
        _IMPLEMENTATIONS,
        Operands(
            *(q, k, v),
            query_lengths=None,
            key_lengths=None,
            scale=api._scale(scale, q.shape[-1])[None],
            origin=api._origin(q.shape[0]),
            query_positions=of_query,
            key_positions=of_key,
        ),
        scores=scores,
        ring=ring,
    )
    if not _checks.flag(_OP, "return_residual", return_residual):
        return out
    return out, lse.transpose(0, 2, 1)


def _operands(
    op: str, query: ArrayLike, key: ArrayLike, value: ArrayLike
) -> tuple[jax.Array, jax.Array, jax.Array]:
    arrays = {"query": query, "key": key, "value": value}
    for (name, array), layout in zip(
        arrays.items(), ("BTND", "BSKD", "BSKE"), strict=True
    ):
        _checks.rank(op, name, _checks.as_array(op, name, array), (layout,))
    return api._operands(query, key, value, "BTNH")


def _ring(axis_name: Any, order: Any) -> Ring:
    _checks.choice(_OP, "order", order, ("contiguous", "zigzag"))
    axis = tuple(axis_name) if isinstance(axis_name, (list, tuple)) else axis_name
    try:
        return Ring(axis, jax.lax.axis_size(axis), order)
    except (NameError, TypeError) as error:
        known = jax.sharding.get_abstract_mesh().manual_axes
        raise _checks.mistake(
            _OP,
            "axis_name to be a mesh axis of the shard_map around the call",
            f"{axis_name!r} where the axes are {known}",
            "call it inside jax.shard_map, or use ring_attention_sharded",
        ) from error


def _require_halves(query: jax.Array, key: jax.Array) -> None:
    for name, array in (("query", query), ("key", key)):
        if array.shape[1] % 2:
            raise _checks.mistake(
                _OP,
                f'{name} of an even number of tokens per device, for order="zigzag"',
                _checks.describe(array),
                'pad the sequence, or use order="contiguous"',
            )


def _by_kernels(
    operands: Operands, *, scores: Scores, ring: Ring, strict: bool
) -> tuple[jax.Array, jax.Array]:
    kernel.require(operands.query, operands.value)
    op = _RingAttention(scores, strict, ring)
    out, lse = _stack.apply(op, _varying(vjp.whole(operands, scores), ring))
    return out, lse


def _by_reference(
    operands: Operands, *, scores: Scores, ring: Ring
) -> tuple[jax.Array, jax.Array]:
    return reference.attention(_gathered(_varying(operands, ring), ring), scores=scores)


_IMPLEMENTATIONS: dict[str, Callable[..., tuple[jax.Array, jax.Array]]] = {
    "hk": _by_kernels,
    "xla": _by_reference,
}


def _varying(operands: Operands, ring: Ring) -> Operands:
    """Operands that vary over the ring, those included that all devices share."""
    here = jax.lax.axis_index(ring.axis)
    given = [x for x in operands if x is not None]
    varied = iter(_primitives.equally_varying([*given, here]))
    return Operands(*(None if x is None else next(varied) for x in operands))


def _gathered(operands: Operands, ring: Ring) -> Operands:
    """Operands with the keys and values of all devices."""
    key, value = (
        jax.lax.all_gather(x, ring.axis, axis=1, tiled=True)
        for x in (operands.key, operands.value)
    )
    lengths, positions = operands.key_lengths, operands.key_positions
    if positions is not None:
        positions = jnp.asarray(ring.all_positions(operands.key.shape[1]))[None]
    return operands._replace(
        key=key,
        value=value,
        key_lengths=None if lengths is None else lengths * ring.size,
        key_positions=positions,
    )


@dataclasses.dataclass(frozen=True)
class _RingAttention(vjp._Attention):
    """Outputs, residuals and derivatives are those of attention to all keys."""

    ring: Ring

    def run(self, operands: _stack.Arrays, with_more: bool) -> list[jax.Array]:
        given = Operands(*operands)

        def of_block(blocks: _Blocks, device: jax.Array) -> list[jax.Array]:
            one = self._with_block(given, blocks, device)
            out, lse = super(_RingAttention, self).run(one, with_more)
            return [out.astype(jnp.float32), lse]

        def merged(
            carry: list[jax.Array], blocks: _Blocks, device: jax.Array
        ) -> list[jax.Array]:
            return _merged(carry, of_block(blocks, device))

        out, lse = self.ring.walk((given.key, given.value), of_block, merged)
        return [out.astype(given.query.dtype), lse]

    def _with_block(
        self, operands: Operands, blocks: _Blocks, device: jax.Array
    ) -> Operands:
        """Operands with the keys and values of ``device``."""
        key, value = blocks
        positions = operands.key_positions
        if positions is not None:
            positions = self.ring.positions(device, key.shape[1])[None]
        return operands._replace(key=key, value=value, key_positions=positions)

    def _by_reference(self, operands: _stack.Arrays) -> tuple[jax.Array, ...]:
        return super()._by_reference(_gathered(Operands(*operands), self.ring))

    def _backward(
        self, operands: _stack.Arrays, rows: Sequence[jax.Array], *, with_bias: bool
    ) -> list[jax.Array]:
        """Sums in f32; those of keys and values are one step behind the blocks.

        A sum leaves with the block that comes after the one it is of, so that it too
        has a step's time to arrive.
        """
        given = Operands(*operands)

        def of_block(blocks: _Blocks, device: jax.Array) -> list[jax.Array]:
            one = self._with_block(given, blocks, device)
            found = super(_RingAttention, self)._backward(one, rows, with_bias=False)
            return [x.astype(jnp.float32) for x in found]

        def summed(
            carry: list[jax.Array], blocks: _Blocks, device: jax.Array
        ) -> list[jax.Array]:
            d_query, *travelling = carry
            sums = [d_query, *self.ring.send(travelling)]
            found = of_block(blocks, device)
            return [x + y for x, y in zip(sums, found, strict=True)]

        d_query, *travelling = self.ring.walk(
            (given.key, given.value), of_block, summed
        )
        return [
            d_query,
            *(self.ring.send(travelling) if self.ring.size > 1 else travelling),
        ]


def _merged(left: _Blocks, right: _Blocks) -> list[jax.Array]:
    """(out f32[B,T,N,E], lse f32[B,N,T]) of two sets of keys, from those of each."""
    lse = jnp.logaddexp(left[1], right[1])
    # A row without keys, of LSE -inf, has zeros on both sides.
    finite = jnp.where(lse == -jnp.inf, 0, lse)
    shares = (
        jnp.exp(part[1] - finite).swapaxes(1, 2)[..., None] for part in (left, right)
    )
    terms = [out * share for (out, _), share in zip((left, right), shares, strict=True)]
    return [terms[0] + terms[1], lse]


def ring_attention_sharded(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    mesh: Mesh | AbstractMesh,
    axis_name: Axes,
    batch_axes: Axes | None = None,
    head_axes: Axes | None = None,
    is_causal: bool = False,
    order: Order = "contiguous",
    scale: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    logits_soft_cap: float | None = None,
    return_residual: bool = False,
    implementation: _dispatch.Implementation = None,
) -> Any:
    """:func:`ring_attention` on whole arrays, tokens in their natural order; for jit.

    Args:
      query: [B,T,N,D] with T the whole sequence; T is a multiple of P, or of 2P under
        order "zigzag".
      key: [B,S,K,D], likewise.
      value: [B,S,K,E].
      mesh: the mesh that has the axes.
      axis_name: the mesh axis over which the sequence is split, or several.
      batch_axes: the mesh axis or axes over which B is split.
      head_axes: the mesh axis or axes over which N and K are split.
      is_causal: as in :func:`ring_attention`.
      order: "zigzag" balances causal work: tokens move to where the order has them
        and back, by collective permutations.
      scale: as in :func:`attention`.
      local_window_size: as in :func:`attention`.
      logits_soft_cap: as in :func:`attention`.
      return_residual: also return the LSE.
      implementation: as in :func:`ring_attention`.

    Returns:
      As :func:`attention`, split as the query.

    Raises:
      ValueError: as :func:`ring_attention`, or sizes that the mesh axes do not divide.
      NotImplementedError: none of the implementations asked for can serve the call.
    """
    op = "ring_attention_sharded"
    q, k, v = _operands(op, query, key, value)
    return_residual = _checks.flag(op, "return_residual", return_residual)
    _checks.choice(op, "order", order, ("contiguous", "zigzag"))
    spec = _spec(op, mesh, axis_name, batch_axes, head_axes)
    for name, array in (("query", q), ("key", k)):
        _require_divisible(op, name, array, mesh, spec, order)

    def local(
        query: jax.Array, key: jax.Array, value: jax.Array, scale: Any
    ) -> tuple[jax.Array, ...]:
        ring = _ring(axis_name, order)
        given = [query, key, value]
        if order == "zigzag":
            given = [_to_zigzag(x, ring) for x in given]
        results = ring_attention(
            *given,
            axis_name=ring.axis,
            is_causal=is_causal,
            order=order,
            scale=scale,
            local_window_size=local_window_size,
            logits_soft_cap=logits_soft_cap,
            return_residual=True,
            implementation=implementation,
        )
        if order == "zigzag":
            results = tuple(_from_zigzag(x, ring) for x in results)
        return results

    q, k, v = (_resharded(x, mesh, spec) for x in (q, k, v))
    traced = scale is not None and not _checks.is_number(scale)
    known = None if traced else scale
    mapped = jax.shard_map(
        local if traced else lambda q, k, v: local(q, k, v, known),
        mesh=mesh,
        in_specs=(spec,) * 3 + (PartitionSpec(),) * traced,
        out_specs=(spec, PartitionSpec(*spec[:3])),
    )
    out, lse = mapped(q, k, v, *([scale] if traced else []))
    return (out, lse) if return_residual else out


def _spec(
    op: str, mesh: Any, axis_name: Any, batch_axes: Any, head_axes: Any
) -> PartitionSpec:
    if not isinstance(mesh, (Mesh, AbstractMesh)):
        raise _checks.mistake(
            op, "mesh to be a jax.sharding.Mesh", f"{mesh!r}", "see jax.make_mesh"
        )
    sides = {
        "axis_name": axis_name,
        "batch_axes": batch_axes,
        "head_axes": head_axes,
    }
    names = [name for axes in sides.values() for name in _names(axes)]
    unknown = [name for name in names if name not in mesh.shape]
    if unknown:
        raise _checks.mistake(
            op,
            f"axes of the mesh, which has {tuple(mesh.shape)}",
            ", ".join(f"{side}={axes!r}" for side, axes in sides.items()),
            "name axes that it has",
        )
    if len(set(names)) < len(names) or not _names(axis_name):
        raise _checks.mistake(
            op,
            f"axis_name, batch_axes and head_axes to be different axes of the mesh, "
            f"which has {tuple(mesh.shape)}",
            ", ".join(f"{side}={axes!r}" for side, axes in sides.items()),
            "give each axis to one of them",
        )
    return PartitionSpec(batch_axes, axis_name, head_axes, None)


def _resharded(x: jax.Array, mesh: Any, spec: PartitionSpec) -> jax.Array:
    """x as ``shard_map`` demands it over mesh axes whose type is explicit."""
    explicit = {
        name
        for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if kind == AxisType.Explicit
    }
    if not explicit:
        return x
    kept = (tuple(a for a in _names(axes) if a in explicit) for axes in spec)
    return jax.sharding.reshard(x, NamedSharding(mesh, PartitionSpec(*kept)))


def _names(axes: Any) -> tuple[str, ...]:
    return (axes,) if isinstance(axes, str) else tuple(axes or ())


def _require_divisible(
    op: str, name: str, array: jax.Array, mesh: Any, spec: PartitionSpec, order: str
) -> None:
    letters = "BTN" if name == "query" else "BSK"
    for i, axes in enumerate(spec[:3]):
        parts = int(np.prod([mesh.shape[each] for each in _names(axes)], dtype=int))
        if i == 1 and order == "zigzag":
            parts *= 2
        if array.shape[i] % parts:
            raise _checks.mistake(
                op,
                f"{name} with {letters[i]} a multiple of {parts}, as the mesh axes "
                f"{axes!r} split it"
                + (' in order="zigzag"' if i == 1 and order == "zigzag" else ""),
                _checks.describe(array),
                "pad it, or split it over fewer devices",
            )


# Chunks of the sequence by where they lie: device d has 2d and 2d + 1 in the natural
# order, and d and 2P-1-d in zigzag order. So every device sends one even chunk and one
# odd chunk, and receives one of each: two permutations.


def _moves(ring: Ring, odd: int) -> list[tuple[int, int]]:
    """(from, to) of the even or odd chunks, from natural to zigzag order."""
    chunks = ((d, 2 * d + odd) for d in range(ring.size))
    return [(d, min(chunk, 2 * ring.size - 1 - chunk)) for d, chunk in chunks]


def _to_zigzag(x: jax.Array, ring: Ring) -> jax.Array:
    even, odd = (
        jax.lax.ppermute(half, ring.axis, _moves(ring, i))
        for i, half in enumerate(jnp.split(x, 2, axis=1))
    )
    return _ordered(even, odd, ring)


def _from_zigzag(x: jax.Array, ring: Ring) -> jax.Array:
    first, second = jnp.split(x, 2, axis=1)
    swapped = _ordered(first, second, ring)
    halves = [
        jax.lax.ppermute(half, ring.axis, [(to, d) for d, to in _moves(ring, i)])
        for i, half in enumerate(jnp.split(swapped, 2, axis=1))
    ]
    return jnp.concatenate(halves, axis=1)


def _ordered(even: jax.Array, odd: jax.Array, ring: Ring) -> jax.Array:
    """The two chunks one after the other, those of odd devices exchanged."""
    exchanged = jax.lax.axis_index(ring.axis) % 2 == 1
    return jnp.where(
        exchanged,
        jnp.concatenate([odd, even], axis=1),
        jnp.concatenate([even, odd], axis=1),
    )
