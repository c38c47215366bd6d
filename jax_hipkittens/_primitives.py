"""The two JAX primitives beneath every op.

``call`` runs a kernel on the platforms that have one, the CPU and ROCm, and plain JAX
on every other. It has a rule for vmap, and none for differentiation.

``linear`` is what differentiation puts beside it: a function that is linear in some of
its operands, together with its transpose. Forward mode evaluates the function, reverse
mode the transpose, and either may be a kernel. ``jax.custom_vjp`` would do for reverse
mode, but raises in forward mode; ``jax.custom_jvp`` differentiates the tangent itself.
"""

import functools
from collections.abc import Hashable, Sequence
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from jax_hipkittens import _partition

Array = jax.Array
_Static = TypeVar("_Static")


class Kernel(Hashable, Protocol):
    """What ``call`` runs; compared and hashed by value.

    ``operands`` and what ``host`` returns are flat, without absent ones.
    """

    @property
    def name(self) -> str: ...
    def results(self, operands: Sequence[Any]) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of each result, from the operands' types."""
        ...

    def host(self, operands: Sequence[Array]) -> Sequence[Array]:
        """On a CPU: by the kernel for the host, or for the chip that is simulated."""
        ...

    def gpu(self, operands: Sequence[Array]) -> Sequence[Array]:
        """On an AMD GPU: by its kernel, or by plain JAX if there is none."""
        ...

    def reference(self, operands: Sequence[Array]) -> Sequence[Array]:
        """By plain JAX, for platforms without a kernel."""
        ...

    def batched(
        self, operands: Sequence[Array], axes: Sequence[int | None]
    ) -> tuple[Sequence[Array], Sequence[int]]:
        """Over one more mapped axis: the results, and where that axis is in each."""
        ...


class Linear(Hashable, Protocol):
    """What ``linear`` evaluates and transposes; compared and hashed by value."""

    def forward(
        self, residuals: Sequence[Array], tangents: Sequence[Array]
    ) -> Sequence[Array]:
        """The results, linear in ``tangents``."""
        ...

    def transpose(
        self, residuals: Sequence[Array], cotangents: Sequence[Array | None]
    ) -> Sequence[Array]:
        """A cotangent of each tangent, from those of the results; None is zero."""
        ...


def _like(kind: Any, shape: Sequence[int], dtype: Any) -> Any:
    """The type ``kind``, with its mesh axes in ``shard_map``, of other shape."""
    return kind.update(shape=tuple(shape), dtype=np.dtype(dtype), weak_type=False)


def varying(x: Any) -> frozenset[str]:
    """The mesh axes of ``shard_map`` over which x may differ."""
    kind = jax.typeof(x)
    manual = getattr(kind, "mat", kind)  # JAX 0.9 has it on the type itself
    return frozenset(getattr(manual, "varying", getattr(manual, "vma", ())))


def equally_varying(operands: Sequence[Array]) -> list[Array]:
    """``operands``, each made to vary over the mesh axes that any of them varies over.

    A cast's transpose sums over the axes it added, so that the gradient of a weight
    which all devices share is the sum of what each of them found.
    """
    union = frozenset().union(*(varying(x) for x in operands))
    return [_vary(x, union - varying(x)) for x in operands]


def _vary(x: Array, axes: frozenset[str]) -> Array:
    return jax.lax.pcast(x, tuple(sorted(axes)), to="varying") if axes else x


def zeros_like(x: Array) -> Array:
    """Zeros of the type of x, its mesh axes in ``shard_map`` included."""
    return _vary(jnp.zeros(x.shape, x.dtype), varying(x))


# call ---------------------------------------------------------------------------------

_call = Primitive("jax_hipkittens_call")
_call.multiple_results = True


def call(kernel: Kernel, operands: Sequence[Array]) -> list[Array]:
    """The results of ``kernel`` for ``operands``, all of which vary alike."""
    types = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in operands)
    traced = None
    if _partition.is_needed():
        traced = _traced(kernel, types, _tracing_context())
    return _call.bind(*operands, kernel=kernel, traced=traced)


def _tracing_context() -> tuple[Any, ...]:
    """What else a trace depends on: a jaxpr made in one context is wrong in another."""
    settings = "jax_use_shardy_partitioner", "jax_enable_x64"
    return (
        jax.sharding.get_abstract_mesh(),
        *(getattr(jax.config, name, None) for name in settings),
    )


@functools.lru_cache(maxsize=1024)
def _traced(kernel: Kernel, types: tuple[Any, ...], context: Any) -> Any:
    """The host's part as a jaxpr: JAX has to see that it needs to know the devices."""
    return jax.make_jaxpr(lambda *xs: kernel.host(xs))(*types)


@_call.def_abstract_eval
def _call_types(*operands: Any, kernel: Kernel, traced: Any) -> list[Any]:
    return [_like(operands[0], *result) for result in kernel.results(operands)]


@functools.partial(jax.jit, static_argnames=("kernel", "traced"))
def _call_compiled(*operands: Array, kernel: Kernel, traced: Any) -> list[Array]:
    return _call.bind(*operands, kernel=kernel, traced=traced)


def _call_evaluated(*operands: Array, kernel: Kernel, traced: Any) -> list[Array]:
    """Checks for NaN by itself: jit would, by evaluating the call anew, for ever."""
    # Under disable_jit, jit would call this again.
    with jax.debug_nans(False), jax.debug_infs(False), jax.disable_jit(False):
        results = _call_compiled(*operands, kernel=kernel, traced=traced)
    checks = ("nan", "jax_debug_nans", jnp.isnan), ("inf", "jax_debug_infs", jnp.isinf)
    for name, setting, is_bad in checks:
        if getattr(jax.config, setting) and any(is_bad(x).any() for x in results):
            raise FloatingPointError(f"invalid value ({name}) in {kernel.name}")
    return results


def _call_batched(
    operands: Sequence[Array],
    axes: Sequence[int | None],
    *,
    kernel: Kernel,
    traced: Any,
) -> tuple[Sequence[Array], Sequence[int]]:
    return kernel.batched(operands, axes)


def _on_host(*operands: Array, kernel: Kernel, traced: Any) -> Sequence[Array]:
    if traced is None:
        return kernel.host(operands)
    return jaxpr_as_fun(traced)(*operands)


def _on_gpu(*operands: Array, kernel: Kernel, traced: Any) -> Sequence[Array]:
    return kernel.gpu(operands)


def _elsewhere(*operands: Array, kernel: Kernel, traced: Any) -> Sequence[Array]:
    return kernel.reference(operands)


_call.def_impl(_call_evaluated)
batching.primitive_batchers[_call] = _call_batched
mlir.register_lowering(_call, mlir.lower_fun(_elsewhere, multiple_results=True))
for _platform, _part in (("cpu", _on_host), ("rocm", _on_gpu)):
    mlir.register_lowering(
        _call, mlir.lower_fun(_part, multiple_results=True), platform=_platform
    )

# linear -------------------------------------------------------------------------------

_linear = Primitive("jax_hipkittens_linear")
_linear.multiple_results = True


def linear(
    function: Linear,
    residuals: Sequence[Array],
    tangents: Sequence[Array],
    types: Sequence[Any],
) -> list[Array]:
    """``function.forward(residuals, tangents)``, transposed by ``function.transpose``.

    ``types`` are those of the results.
    """
    return _linear.bind(
        *residuals,
        *tangents,
        function=function,
        types=tuple(types),
        residuals=len(residuals),
    )


@_linear.def_abstract_eval
def _linear_types(*operands: Any, function: Linear, types: Any, residuals: int) -> Any:
    return list(types)


@_linear.def_impl
def _evaluate(
    *operands: Array, function: Linear, types: Any, residuals: int
) -> Sequence[Array]:
    return function.forward(operands[:residuals], operands[residuals:])


def _transpose(
    cotangents: Sequence[Any],
    *operands: Any,
    function: Linear,
    types: Any,
    residuals: int,
) -> list[Any]:
    unknown = [ad.is_undefined_primal(x) for x in operands]
    if all(isinstance(c, ad.Zero) for c in cotangents):
        return [
            ad.Zero(x.aval) if u else None
            for x, u in zip(operands, unknown, strict=True)
        ]
    given = [None if isinstance(c, ad.Zero) else c for c in cotangents]
    found = function.transpose(operands[:residuals], given)
    every: list[Any] = [*[None] * residuals, *found]
    return [c if u else None for c, u in zip(every, unknown, strict=True)]


def _differentiate(
    primals: Sequence[Array],
    tangents: Sequence[Any],
    *,
    function: Linear,
    types: Any,
    residuals: int,
) -> tuple[Sequence[Array], Sequence[Array]]:
    """Linear in the tangents; in the residuals as ``forward`` is differentiated."""
    rest = dict(function=function, types=types, residuals=residuals)
    results = _linear.bind(*primals, **rest)
    dots = [ad.instantiate_zeros(t) for t in tangents]
    parts = []
    if not all(isinstance(t, ad.Zero) for t in tangents[residuals:]):
        parts.append(_linear.bind(*primals[:residuals], *dots[residuals:], **rest))
    active = [
        i for i, t in enumerate(tangents[:residuals]) if not isinstance(t, ad.Zero)
    ]
    if active:

        def of_active(*values: Array) -> Sequence[Array]:
            known = list(primals[:residuals])
            for i, value in zip(active, values, strict=True):
                known[i] = value
            return tuple(function.forward(known, primals[residuals:]))

        values = [primals[i] for i in active]
        parts.append(jax.jvp(of_active, values, [dots[i] for i in active])[1])
    return results, [functools.reduce(jnp.add, dot) for dot in zip(*parts, strict=True)]


class _Mapped:
    """``function`` over one more axis, the first of every tangent and result."""

    def __init__(self, function: Linear, axes: tuple[int | None, ...]):
        self._key = function, axes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Mapped) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def forward(self, residuals: Any, tangents: Any) -> Any:
        function, axes = self._key
        mapped = jax.vmap(
            lambda r, t: tuple(function.forward(r, t)), in_axes=(list(axes), 0)
        )
        return mapped(list(residuals), list(tangents))

    def transpose(self, residuals: Any, cotangents: Any) -> Any:
        function, axes = self._key
        mapped = jax.vmap(
            lambda r, c: tuple(function.transpose(r, c)), in_axes=(list(axes), 0)
        )
        return mapped(list(residuals), list(cotangents))


def _linear_batched(
    operands: Sequence[Array],
    axes: Sequence[Any],
    *,
    function: Linear,
    types: Any,
    residuals: int,
) -> tuple[Sequence[Array], Sequence[int]]:
    size = next(
        x.shape[axis]
        for x, axis in zip(operands, axes, strict=True)
        if axis is not None
    )
    tangents = [
        batching.bdim_at_front(x, axis, size)
        for x, axis in zip(operands[residuals:], axes[residuals:], strict=True)
    ]
    results = linear(
        _Mapped(function, tuple(axes[:residuals])),
        operands[:residuals],
        tangents,
        [_like(t, (size, *t.shape), t.dtype) for t in types],
    )
    return results, [0] * len(results)


ad.primitive_jvps[_linear] = _differentiate
ad.primitive_transposes[_linear] = _transpose
batching.primitive_batchers[_linear] = _linear_batched
mlir.register_lowering(_linear, mlir.lower_fun(_evaluate, multiple_results=True))
