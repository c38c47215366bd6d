"""Matrix products: the public functions and their checks."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from jax_hipkittens import _checks, _dispatch
from jax_hipkittens.ops.gemm import reference, vjp

_MATMUL: dict[str, Callable[..., jax.Array]] = {
    "hk": vjp.matmul,
    "xla": reference.matmul,
}
_DOT_GENERAL: dict[str, Callable[..., jax.Array]] = {
    "hk": vjp.dot_general,
    "xla": reference.dot_general,
}


def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    bias: ArrayLike | None = None,
    activation: str | None = None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    implementation: _dispatch.Implementation = None,
) -> jax.Array:
    """Matrix product with a fused epilogue, ``activation(a @ b + bias)``.

    Products are summed in f32, bias and activation are applied in f32, and the result
    is rounded once. HK kernels serve bfloat16, float16 and float32; run twice they
    give the same bits. Forward mode and second derivatives are computed by XLA. For
    transposed operands, which the kernels read as they lie, see :func:`dot_general`.

    Axis letters: M rows of a, N columns of b, K contracted; ``...`` are batch axes,
    broadcast as in ``jnp.matmul``.

    Args:
      a: [..., M, K] or [K], floating point.
      b: [..., K, N] or [K], of a's dtype.
      bias: [N], of any floating-point dtype.
      activation: None, "gelu" (the tanh approximation), "gelu_exact" or "silu".
      precision: as in ``jax.lax.dot_general``; HK kernels multiply exactly, so every
        ``jax.lax.Precision`` is the same to them.
      preferred_element_type: dtype of the result; a's dtype if None.
      implementation: "hk", "xla", several in order, or None for HK where it can serve
        the call and XLA otherwise.

    Returns:
      [..., M, N], without M if a is [K] and without N if b is [K].

    Raises:
      ValueError: shapes, dtypes or options that do not go together.
      NotImplementedError: none of the implementations asked for can serve the call.

    Sources: Hendrycks and Gimpel (GELU), arXiv:1606.08415; Elfwing et al. (SiLU),
    arXiv:1702.03118.
    """
    left = _checks.as_array("matmul", "a", a)
    right = _checks.as_array("matmul", "b", b)
    _checks.floating("matmul", "a", left)
    _checks.same_dtype("matmul", a=left, b=right)
    _check_product(left, right)
    _checks.choice("matmul", "activation", activation, tuple(reference.ACTIVATIONS))
    return _dispatch.run(
        "matmul",
        implementation,
        _MATMUL,
        left,
        right,
        _bias(bias, right),
        activation=activation,
        precision=_precision("matmul", precision),
        dtype=_result_dtype("matmul", preferred_element_type, left),
    )


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
    implementation: _dispatch.Implementation = None,
) -> jax.Array:
    """General contraction with the arguments and results of ``jax.lax.dot_general``.

    HK kernels serve two operands of one dtype, bfloat16, float16 or float32, with any
    dimension numbers. An operand whose axes lie in the order batch, free, contracted or
    batch, contracted, free is read as it lies; one in another order is transposed
    first. Products are summed in f32 and rounded once. Forward mode and second
    derivatives are computed by XLA.

    Args:
      lhs: an array of any rank.
      rhs: an array of any rank.
      dimension_numbers: ``((lhs_contracting, rhs_contracting), (lhs_batch,
        rhs_batch))``, axes that are paired and of equal size.
      precision: as in ``jax.lax.dot_general``; HK kernels multiply exactly, so every
        ``jax.lax.Precision`` is the same to them.
      preferred_element_type: dtype of the result; that of the operands if None.
      out_sharding: as in ``jax.lax.dot_general``; only XLA serves it.
      implementation: "hk", "xla", several in order, or None for HK where it can serve
        the call and XLA otherwise.

    Returns:
      [batch..., lhs free..., rhs free...].

    Raises:
      ValueError: shapes, dtypes or options that do not go together.
      NotImplementedError: none of the implementations asked for can serve the call.
    """
    left = _checks.as_array("dot_general", "lhs", lhs)
    right = _checks.as_array("dot_general", "rhs", rhs)
    return _dispatch.run(
        "dot_general",
        implementation,
        _DOT_GENERAL,
        left,
        right,
        _dimension_numbers(left, right, dimension_numbers),
        precision=_precision("dot_general", precision),
        preferred_element_type=None
        if preferred_element_type is None
        else _dtype("dot_general", preferred_element_type),
        out_sharding=out_sharding,
    )


def _check_product(a: jax.Array, b: jax.Array) -> None:
    received = f"a {_checks.describe(a)} and b {_checks.describe(b)}"
    if a.ndim == 0 or b.ndim == 0:
        raise _checks.mistake(
            "matmul",
            "a [..., M, K] and b [..., K, N]",
            received,
            "multiply by a scalar with *",
        )
    if a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        raise _checks.mistake(
            "matmul",
            "a [..., M, K] and b [..., K, N] with the same K",
            received,
            "for transposed operands use dot_general",
        )
    try:
        jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError as error:
        raise _checks.mistake(
            "matmul",
            "batch axes that broadcast",
            received,
            "give each batch axis its full size or 1",
        ) from error


def _bias(bias: ArrayLike | None, b: jax.Array) -> jax.Array | None:
    if bias is None:
        return None
    array = _checks.as_array("matmul", "bias", bias)
    _checks.floating("matmul", "bias", array)
    if b.ndim == 1:
        raise _checks.mistake(
            "matmul",
            "no bias with a vector b [K], which has no columns",
            f"bias {_checks.describe(array)}",
            "add it to the result",
        )
    _checks.shape("matmul", "bias", array, b.shape[-1:], "[N]")
    return array


def _precision(op: str, precision: Any) -> Any:
    """``precision`` as None, members of jax.lax.Precision, or whatever else it is."""
    if isinstance(precision, (tuple, list)):
        return tuple(_precision(op, each) for each in precision)
    if precision is None or _is_algorithm(precision):
        return precision
    if not isinstance(precision, str):
        raise _not_a_precision(op, precision)
    try:
        return jax.lax.Precision(precision)
    except ValueError:
        return _algorithm(op, precision)


def _algorithm(op: str, name: str) -> Any:
    try:
        return jax.lax.DotAlgorithmPreset[name]
    except KeyError as error:
        raise _not_a_precision(op, name) from error


_ALGORITHMS = jax.lax.DotAlgorithm, jax.lax.DotAlgorithmPreset


def _is_algorithm(precision: Any) -> bool:
    return isinstance(precision, (jax.lax.Precision, *_ALGORITHMS))


def _not_a_precision(op: str, precision: Any) -> ValueError:
    return _checks.mistake(
        op,
        "precision to be a jax.lax.Precision or a dot algorithm",
        repr(precision),
        "leave it out: HK kernels multiply exactly",
    )


def _result_dtype(op: str, dtype: DTypeLike | None, like: jax.Array) -> np.dtype[Any]:
    if dtype is None:
        return like.dtype
    result = _dtype(op, dtype)
    if not jnp.issubdtype(result, jnp.floating):
        raise _checks.mistake(
            op,
            "a floating-point preferred_element_type",
            str(result),
            "cast the result instead",
        )
    return result


def _dtype(op: str, dtype: DTypeLike) -> np.dtype[Any]:
    """``dtype`` as JAX has it: 64-bit ones only where 64 bits are enabled."""
    try:
        return jax.dtypes.canonicalize_dtype(dtype)
    except TypeError as error:
        raise _checks.mistake(
            op,
            "preferred_element_type to be a dtype",
            repr(dtype),
            "pass one such as jnp.float32",
        ) from error


def _dimension_numbers(lhs: jax.Array, rhs: jax.Array, numbers: Any) -> Any:
    """``numbers`` as tuples of axes counted from the left, once they are right."""
    try:
        pairs = tuple(tuple(tuple(map(int, side)) for side in pair) for pair in numbers)
        (lhs_contract, rhs_contract), (lhs_batch, rhs_batch) = pairs
    except (TypeError, ValueError) as error:
        raise _checks.mistake(
            "dot_general",
            "dimension_numbers ((lhs_contracting, rhs_contracting), (lhs_batch, "
            "rhs_batch))",
            repr(numbers),
            "give tuples of axes, as for jax.lax.dot_general",
        ) from error
    _check_axes("lhs", lhs, (*lhs_contract, *lhs_batch))
    _check_axes("rhs", rhs, (*rhs_contract, *rhs_batch))
    _check_pairs("contracting", lhs, lhs_contract, rhs, rhs_contract)
    _check_pairs("batch", lhs, lhs_batch, rhs, rhs_batch)
    return pairs


def _check_axes(name: str, array: jax.Array, axes: tuple[int, ...]) -> None:
    in_range = all(0 <= axis < array.ndim for axis in axes)
    if not in_range or len(set(axes)) != len(axes):
        raise _checks.mistake(
            "dot_general",
            f"distinct axes of {name} from 0 to {array.ndim - 1}",
            f"{axes} for {name} {_checks.describe(array)}",
            "name each axis once, counted from the left",
        )


def _check_pairs(
    role: str,
    lhs: jax.Array,
    lhs_axes: tuple[int, ...],
    rhs: jax.Array,
    rhs_axes: tuple[int, ...],
) -> None:
    lhs_sizes = tuple(lhs.shape[axis] for axis in lhs_axes)
    rhs_sizes = tuple(rhs.shape[axis] for axis in rhs_axes)
    if lhs_sizes != rhs_sizes:
        raise _checks.mistake(
            "dot_general",
            f"{role} axes of equal sizes",
            f"{lhs_sizes} of lhs {_checks.describe(lhs)} and {rhs_sizes} of rhs "
            f"{_checks.describe(rhs)}",
            "pair axes of the same size",
        )
