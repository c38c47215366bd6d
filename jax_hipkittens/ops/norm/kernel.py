"""The HK norm kernels: what they serve, and the calls to them.

Axis letters: G groups, each with a weight, bias and seed of its own; H normalised
elements. ``rows...`` are any number of axes of rows.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from jax_hipkittens import _checks, _ffi, _partition, _stack
from jax_hipkittens.ops.norm import reference

DTYPES = (jnp.bfloat16, jnp.float16, jnp.float32)

Kind = Literal["layer", "rms"]
_KIND = {"layer": 0, "rms": 1}
_ROWS = "abcdefghijklmnopqrstuvw"


class Config(NamedTuple):
    """What is known at trace time. "rms" leaves the mean in place."""

    kind: Kind
    epsilon: float
    dropout_rate: float


def check(x: jax.Array) -> None:
    """Raises NotImplementedError unless the kernels serve x [..., H]."""
    if x.dtype not in DTYPES:
        raise _checks.limit("bfloat16, float16 and float32", f"x {x.dtype}")
    if x.shape[-1] == 0:
        raise _checks.limit("rows of 1 element or more", f"x {_checks.describe(x)}")
    if x.ndim > len(_ROWS):
        raise _checks.limit(f"arrays of up to {len(_ROWS)} axes", f"{x.ndim} axes")
    _ffi.require_family("norm")


@dataclasses.dataclass(frozen=True)
class _Norm(_stack.Kernel):
    config: Config
    row_axes: int

    @property
    def rows(self) -> str:
        """The letters of the row axes."""
        return _ROWS[: self.row_axes]

    def grouped(
        self, part: _partition.Part, arrays: Sequence[Any], vectors: Sequence[Any]
    ) -> tuple[list[Any], list[Any], jax.Array]:
        """Operands as the handlers take them, and the groups' origins.

        Arrays [G,rows...,...] become [R,...]. Vectors [G or 1,...] serve the groups,
        of which dropout needs more where a device's rows do not follow each other.
        """
        groups = _groups((*arrays, *vectors))
        rows = next(x.shape[1 : 1 + self.row_axes] for x in arrays if x is not None)
        flat = [
            None
            if x is None
            else jnp.broadcast_to(x, (groups, *x.shape[1:])).reshape(
                groups * math.prod(rows), *x.shape[1 + self.row_axes :]
            )
            for x in arrays
        ]
        inner = any(part.count(letter) > 1 for letter in self.rows[1:])
        if not inner or self.config.dropout_rate == 0:
            first = part.place(self.rows[0]) * math.prod(rows) if rows else 0
            return flat, list(vectors), _origins(first, groups)
        per_group = math.prod(rows[:-1])
        first = jnp.tile(self._first_rows(part, rows).reshape(-1), groups)
        repeated = [
            x if x is None or x.shape[0] == 1 else jnp.repeat(x, per_group, axis=0)
            for x in vectors
        ]
        return flat, repeated, _origins(first, groups * per_group)

    def _first_rows(self, part: _partition.Part, rows: tuple[int, ...]) -> jax.Array:
        """[rows[:-1]...]: the row numbers, in the whole array, of runs of rows."""
        number = jnp.zeros((), jnp.uint32)
        for axis, (letter, size) in enumerate(zip(self.rows, rows, strict=True)):
            start = jnp.asarray(part.place(letter), jnp.uint32) * size
            steps = jnp.arange(size if axis + 1 < len(rows) else 1, dtype=jnp.uint32)
            whole = jnp.uint32(size * part.count(letter))
            number = number[..., None] * whole + start + steps
        return number


def _groups(operands: Sequence[Any]) -> int:
    """How many groups operands [G or 1,...] have together."""
    return max(x.shape[0] for x in operands if x is not None)


def _origins(first: Any, groups: int) -> jax.Array:
    """u32[G,2]: low and high words of the number of each group's first row."""
    low = jnp.broadcast_to(jnp.asarray(first).astype(jnp.uint32), (groups,))
    return jnp.stack([low, jnp.zeros_like(low)], axis=-1)


@dataclasses.dataclass(frozen=True)
class Forward(_Norm):
    """x T[...,rows...,H], residual as x, weight and bias f32[...,H], seed u32[...,2].

    Gives y as x; h as x where dropout or a residual makes it differ from x; mean
    f32[...,rows...] of layer norms; rstd f32[...,rows...].
    """

    name = "norm_forward"

    @property
    def ranks(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.row_axes + 1, self.row_axes + 1, 1, 1, 1)

    @property
    def makes_h(self) -> bool:
        return self.present[1] or self.config.dropout_rate > 0

    def _kept(self, y: Any, h: Any, mean: Any, rstd: Any) -> list[Any]:
        found = [y, h if self.makes_h else None]
        found += [mean if self.config.kind == "layer" else None, rstd]
        return [each for each in found if each is not None]

    def types(self, operands: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
        x = operands[0]
        shape = x.shape[x.ndim - self.row_axes - 1 :]
        row = (shape[:-1], jnp.float32)
        return self._kept((shape, x.dtype), (shape, x.dtype), row, row)

    def letters(
        self, operands: Sequence[Any]
    ) -> tuple[Sequence[str], Sequence[str], str]:
        x = self.rows + "z"
        own = (x, x, "z", "z", "_")
        return own, self._kept(x, x, self.rows, self.rows), self.rows

    def flat(
        self, part: _partition.Part, operands: Sequence[Any]
    ) -> Sequence[jax.Array]:
        shape = (_groups(operands), *operands[0].shape[1:])
        arrays, vectors, origins = self.grouped(part, operands[:2], operands[2:])
        given = (*arrays, *vectors, origins)
        y, h, mean, rstd = call_forward(self.config, given, makes_h=self.makes_h)
        rows = shape[:-1]
        results = self._kept(y, h, mean, rstd)
        shapes = self._kept(shape, shape, rows, rows)
        return [x.reshape(to) for x, to in zip(results, shapes, strict=True)]

    def flat_reference(self, operands: Sequence[Any]) -> Sequence[jax.Array]:
        x, residual, weight, bias, seed = operands
        groups = _groups(operands)
        x = jnp.broadcast_to(x, (groups, *x.shape[1:]))
        return jax.vmap(
            lambda *given: self._kept(
                *reference.norm_with_statistics(*given, **self.config._asdict())
            ),
            in_axes=tuple(
                _axis(each, groups) for each in (x, weight, bias, residual, seed)
            ),
        )(*(_shared(each, groups) for each in (x, weight, bias, residual, seed)))


def _axis(x: Any, groups: int) -> int | None:
    return None if x is None or x.shape[0] != groups else 0


def _shared(x: Any, groups: int) -> Any:
    return x if x is None or x.shape[0] == groups else x[0]


@dataclasses.dataclass(frozen=True)
class Backward(_Norm):
    """h T[...,rows...,H], weight f32[...,H], mean and rstd, dy, dh as h, seed.

    Gives dx as h; dresidual as h where dropout makes it differ from dx; dweight and
    dbias f32[...,H] where there is one.
    """

    has_bias: bool

    name = "norm_backward"

    @property
    def ranks(self) -> tuple[int, ...]:  # type: ignore[override]
        rows = self.row_axes
        return (rows + 1, 1, rows, rows, rows + 1, rows + 1, 1)

    def _kept(self, dx: Any, dresidual: Any, dweight: Any, dbias: Any) -> list[Any]:
        found = [dx, dresidual if self.config.dropout_rate > 0 else None]
        found += [
            dweight if self.present[1] else None,
            dbias if self.has_bias else None,
        ]
        return [each for each in found if each is not None]

    def types(self, operands: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
        h = operands[0]
        shape = h.shape[h.ndim - self.row_axes - 1 :]
        vector = (shape[-1:], jnp.float32)
        return self._kept((shape, h.dtype), (shape, h.dtype), vector, vector)

    def letters(
        self, operands: Sequence[Any]
    ) -> tuple[Sequence[str], Sequence[str], str]:
        h = self.rows + "z"
        own = (h, "z", self.rows, self.rows, h, h, "_")
        return own, self._kept(h, h, "z", "z"), self.rows

    def flat(
        self, part: _partition.Part, operands: Sequence[Any]
    ) -> Sequence[jax.Array]:
        h, weight, mean, rstd, dy, dh, seed = operands
        groups = _groups(operands)
        arrays, (weight, seed), origins = self.grouped(
            part, (h, mean, rstd, dy, dh), (weight, seed)
        )
        dx, dresidual, dweight, dbias = call_backward(
            self.config,
            (*arrays, weight, seed, origins),
            sums=1 if groups == 1 else origins.shape[0],
            has_bias=self.has_bias,
        )

        results = self._kept(dx, dresidual, dweight, dbias)
        count = 2 if self.config.dropout_rate > 0 else 1
        return [
            *(x.reshape(groups, *h.shape[1:]) for x in results[:count]),
            *(_summed(x, groups) for x in results[count:]),
        ]

    def flat_reference(self, operands: Sequence[Any]) -> Sequence[jax.Array]:
        h, weight, _, _, dy, dh, seed = operands
        groups = _groups(operands)
        h = jnp.broadcast_to(h, (groups, *h.shape[1:]))

        def one(h: Any, weight: Any, dy: Any, dh: Any, seed: Any) -> list[jax.Array]:
            found = reference.pull_back(
                h, weight, dy, dh, seed, **self.config._asdict()
            )
            return self._kept(*found)

        given = (h, weight, dy, dh, seed)
        return jax.vmap(one, in_axes=tuple(_axis(x, groups) for x in given))(
            *(_shared(x, groups) for x in given)
        )


def _summed(x: jax.Array, groups: int) -> jax.Array:
    """Vectors [G,H] of more groups than the caller's ``groups``, summed to those."""
    split = x.reshape(groups, x.shape[0] // groups, x.shape[1])
    return x if split.shape[1] == 1 else split.sum(axis=1)


def call_forward(
    config: Config, operands: Sequence[Any], *, makes_h: bool
) -> tuple[jax.Array, ...]:
    """y, h, mean and rstd; those that there are none of are empty.

    ``operands`` are x and residual T[R,H], R rows in G groups of equal size, weight and
    bias f32[G or 1,H], seed u32[G or 1,2] and origins u32[G,2].
    """
    x, residual, weight, bias, seed, origins = operands
    rows = x.shape[0]
    return _ffi.call(
        "norm_forward",
        [
            _ffi.result(x, x.shape, x.dtype),
            _ffi.result(x, x.shape if makes_h else (0, 0), x.dtype),
            _ffi.result(x, (rows if config.kind == "layer" else 0,), jnp.float32),
            _ffi.result(x, (rows,), jnp.float32),
        ],
        x,
        _or_empty(residual, (0, 0), x.dtype),
        _or_empty(weight, (0, 0), jnp.float32),
        _or_empty(bias, (0, 0), jnp.float32),
        seed,
        origins,
        groups=origins.shape[0],
        kind=_KIND[config.kind],
        epsilon=float(config.epsilon),
        dropout_rate=float(config.dropout_rate),
    )


def call_backward(
    config: Config, operands: Sequence[Any], *, sums: int, has_bias: bool
) -> tuple[jax.Array, ...]:
    """dx, dresidual T[R,H], dweight, dbias f32[sums,H]; empty where not asked for.

    ``operands`` are h T[R,H], mean and rstd f32[R], dy, dh T[R,H], weight, seed and
    origins as in ``call_forward``. ``sums`` is the number of groups, or 1 for one sum
    over them all.
    """
    h, mean, rstd, dy, dh, weight, seed, origins = operands
    vector = (sums, h.shape[-1])
    return _ffi.call(
        "norm_backward",
        [
            _ffi.result(h, h.shape, h.dtype),
            _ffi.result(h, h.shape if config.dropout_rate > 0 else (0, 0), h.dtype),
            _ffi.result(h, (0, 0) if weight is None else vector, jnp.float32),
            _ffi.result(h, vector if has_bias else (0, 0), jnp.float32),
        ],
        h,
        _or_empty(weight, (0, 0), jnp.float32),
        _or_empty(mean, (0,), jnp.float32),
        rstd,
        dy,
        _or_empty(dh, (0, 0), h.dtype),
        seed,
        origins,
        groups=origins.shape[0],
        kind=_KIND[config.kind],
        dropout_rate=float(config.dropout_rate),
    )


def _or_empty(
    array: jax.Array | None, shape: tuple[int, ...], dtype: jax.typing.DTypeLike
) -> jax.Array:
    return jnp.zeros(shape, dtype) if array is None else array
