"""Attention by HK kernels: what they can serve, and the calls to them.

Axis letters: B batch, T queries, S keys, N query heads, K key/value heads, D head
dimension of query and key, E of value and output. T and N are exchanged in the layout
BNTH, and S and K.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from jax_hipkittens import _checks, _ffi, _partition, _stack
from jax_hipkittens.ops.attention import reference
from jax_hipkittens.ops.attention.scores import Operands, Scores

MAX_HEAD_DIM = 256
DTYPES = ("bfloat16", "float16", "float32")

# The operands' axes without those of the batch. bias and mask may have size 1 instead.
_LETTERS = Operands(
    query="tnd",
    key="skd",
    value="ske",
    query_lengths="",
    key_lengths="",
    scale="",
    origin="_",
    bias="nts",
    mask="nts",
    query_segments="t",
    key_segments="s",
    query_positions="t",
    key_positions="s",
    sinks="n",
    slopes="n",
    seed="_",
)


def require(query: jax.Array, value: jax.Array) -> None:
    """Raises NotImplementedError, naming the limit, unless HK can serve the call."""
    _ffi.require_family("attention")
    if query.dtype.name not in DTYPES:
        raise _checks.limit(f"attention in {', '.join(DTYPES)}", query.dtype.name)
    for dim in (query.shape[-1], value.shape[-1]):
        if dim > MAX_HEAD_DIM:
            raise _checks.limit(
                f"attention of head dimension up to {MAX_HEAD_DIM}", str(dim)
            )


class _Sizes(NamedTuple):
    queries: int
    keys: int
    heads: int
    kv_heads: int


@dataclasses.dataclass(frozen=True)
class _Attention(_stack.Kernel):
    """The operands are query, key, value, what a direction adds, and the others."""

    scores: Scores

    tied = ("n", "k")

    def axes(self, letters: str) -> str:
        """Letters of an array in the kernel's layout, given those in BTNH."""
        if self.scores.layout == "BNTH" and len(letters) == 3 and letters != "nts":
            return letters[1] + letters[0] + letters[2]
        return letters

    def sizes(self, operands: Operands) -> _Sizes:
        """Of operands with or without leading axes."""
        query, key = operands.query.shape[-3:-1], operands.key.shape[-3:-1]
        if self.scores.layout == "BNTH":
            query, key = query[::-1], key[::-1]
        return _Sizes(query[0], key[0], query[1], key[1])

    def whole(
        self, part: _partition.Part, operands: Operands, rows: Sequence[Any] = ()
    ) -> tuple[Operands, list[jax.Array]]:
        """Operands as the handlers take them: [B,...], or [1,...] where that serves.

        The second are ``rows``, which a direction adds, likewise.
        """
        batch = max(x.shape[0] for x in (*operands, *rows) if x is not None)

        def full(x: jax.Array) -> jax.Array:
            return jnp.broadcast_to(x, (batch, *x.shape[1:]))

        origin = full(operands.origin)
        if self.scores.dropout_rate > 0:
            heads = self.sizes(operands).heads
            origin = origin.at[:, 1].add(part.place("n") * heads)
        names = "query key value query_lengths key_lengths scale"
        names += " query_segments key_segments query_positions key_positions"
        given = {name: getattr(operands, name) for name in names.split()}
        filled = operands._replace(
            origin=origin,
            **{name: None if x is None else full(x) for name, x in given.items()},
        )
        return filled, [full(x) for x in rows]

    def one_kv_head(
        self, part: _partition.Part, operands: Operands
    ) -> tuple[Operands, jax.Array | int | None]:
        """Operands with the one key/value head that this device's queries read.

        That is where there are fewer of those heads than devices: device i of P reads
        head i * K // P. The second is that number, or None if all heads are read.
        """
        kv_heads = self.sizes(operands).kv_heads
        if part.count("n") == part.count("k") or kv_heads == 1:
            return operands, None
        head = part.place("n") * kv_heads // part.count("n")
        axis = self._head_axis
        key, value = (
            jax.lax.dynamic_slice_in_dim(x, head, 1, axis)
            for x in (operands.key, operands.value)
        )
        return operands._replace(key=key, value=value), head

    @property
    def _head_axis(self) -> int:
        return 1 if self.scores.layout == "BNTH" else 2

    def attributes(self, operands: Operands) -> dict[str, int | float]:
        """The static attributes; a window wider than the sequences is cut to them."""
        scores, sizes = self.scores, self.sizes(operands)
        left, right = scores.masks.window or (-1, -1)
        reach = sizes.queries + sizes.keys
        if operands.query_positions is not None or scores.shifted:
            reach = 2**30
        return {
            "causal": scores.masks.causal,
            "window_left": min(left, reach),
            "window_right": min(right, reach),
            "layout": int(scores.layout == "BNTH"),
            "soft_cap": float(scores.soft_cap or 0.0),
            "dropout_rate": float(scores.dropout_rate),
        }


@dataclasses.dataclass(frozen=True)
class Forward(_Attention):
    """Gives out as the query with E for D, and lse f32[...,N,T]."""

    name = "attention_forward"
    ranks: ClassVar[tuple[int, ...]] = tuple(len(axes) for axes in _LETTERS)

    def types(self, operands: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
        given = Operands(*operands)
        sizes = self.sizes(given)
        query = given.query
        out = (*query.shape[-3:-1], given.value.shape[-1])
        return [(out, query.dtype), ((sizes.heads, sizes.queries), jnp.float32)]

    def letters(
        self, operands: Sequence[Any]
    ) -> tuple[Sequence[str], Sequence[str], str]:
        return [self.axes(x) for x in _LETTERS], [self.axes("tne"), "nt"], "nk"

    def flat(
        self, part: _partition.Part, operands: Sequence[Any]
    ) -> Sequence[jax.Array]:
        given, _ = self.whole(part, Operands(*operands))
        given, _ = self.one_kv_head(part, given)
        query, sizes = given.query, self.sizes(given)
        batch = query.shape[0]
        return _ffi.call(
            "attention_forward",
            (
                _ffi.result(
                    query, (*query.shape[:3], given.value.shape[3]), query.dtype
                ),
                _ffi.result(query, (batch, sizes.heads, sizes.queries), jnp.float32),
            ),
            *_filled(given),
            **self.attributes(given),
        )

    def flat_reference(self, operands: Sequence[Any]) -> Sequence[jax.Array]:
        given, _ = self.whole(_partition.WHOLE, Operands(*operands))
        return reference.attention(given, scores=self.scores)


@dataclasses.dataclass(frozen=True)
class Backward(_Attention):
    """Gives dq, dk, dv as their primals, and dbias f32 of the bias's shape if asked.

    The operands after query, key and value are out, lse, dout and dlse.
    """

    with_bias: bool

    name = "attention_backward"
    ranks: ClassVar[tuple[int, ...]] = (3, 3, 3, 3, 2, 3, 2, *Forward.ranks[3:])

    @property
    def summed_like(self) -> Mapping[int, int]:  # type: ignore[override]
        bias = 4 + Operands._fields.index("bias")
        return {3: bias} if self.with_bias else {}

    def types(self, operands: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
        given, _ = _split(operands)
        primals = [given.query, given.key, given.value]
        types = [(tuple(x.shape[-3:]), x.dtype) for x in primals]
        if self.with_bias:
            types.append((tuple(given.bias.shape[-3:]), jnp.float32))
        return types

    def letters(
        self, operands: Sequence[Any]
    ) -> tuple[Sequence[str], Sequence[str], str]:
        own = [self.axes(x) for x in _LETTERS]
        out = self.axes("tne")
        results = [*own[:3], "nts"] if self.with_bias else own[:3]
        return [*own[:3], out, "nt", out, "nt", *own[3:]], results, "nk"

    def flat(
        self, part: _partition.Part, operands: Sequence[Any]
    ) -> Sequence[jax.Array]:
        primals, rows = self.whole(part, *_split(operands))
        given, head = self.one_kv_head(part, primals)
        bias = given.bias.shape if self.with_bias else (0, 0, 0, 0)
        dq, dk, dv, dbias = _ffi.call(
            "attention_backward",
            [
                *(_ffi.result(x, x.shape, x.dtype) for x in given[:3]),
                _ffi.result(given.query, bias, jnp.float32),
            ],
            *(*given[:3], *rows, *_filled(given)[3:]),
            **self.attributes(given),
        )
        if head is not None:
            dk, dv = (
                jax.lax.dynamic_update_slice_in_dim(
                    jnp.zeros_like(whole), x, head, self._head_axis
                )
                for whole, x in ((primals.key, dk), (primals.value, dv))
            )
        return (dq, dk, dv, dbias) if self.with_bias else (dq, dk, dv)

    def flat_reference(self, operands: Sequence[Any]) -> Sequence[jax.Array]:
        given, rows = self.whole(_partition.WHOLE, *_split(operands))
        _, _, d_out, d_lse = rows

        def outputs(query: Any, key: Any, value: Any, bias: Any) -> Any:
            changed = given._replace(query=query, key=key, value=value, bias=bias)
            return reference.attention(changed, scores=self.scores)

        primals = given.query, given.key, given.value, given.bias
        _, pull = jax.vjp(outputs, *primals)
        dq, dk, dv, dbias = pull((d_out, d_lse))
        found = [dq, dk, dv]
        return [*found, dbias.astype(jnp.float32)] if self.with_bias else found


def _split(operands: Sequence[Any]) -> tuple[Operands, Sequence[Any]]:
    """The forward's operands, and (out, lse, dout, dlse)."""
    return Operands(*operands[:3], *operands[7:]), operands[3:7]


def _filled(operands: Operands) -> list[jax.Array]:
    """Operands with empty arrays for absent ones."""
    types = {"mask": jnp.bool_, "sinks": jnp.float32, "slopes": jnp.float32}
    types |= {"bias": jnp.float32, "seed": jnp.uint32}
    ranks = dict(zip(Operands._fields, Forward.ranks, strict=True))
    return [
        jnp.zeros((0,) * (ranks[name] + 1), types.get(name, jnp.int32))
        if x is None
        else x
        for name, x in operands._asdict().items()
    ]
