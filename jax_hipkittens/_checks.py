"""The sentences of errors found at trace time.

Two kinds, told apart by their exception:

- ``mistake``: the caller asked for something that no implementation can mean.
  It is a ``ValueError`` stating what was expected, what was received and what
  to do about it.
- ``limit``: one implementation cannot serve a call that is otherwise right. It is
  a ``NotImplementedError`` naming the limit and the value received;
  :func:`jax_hipkittens._dispatch.run` takes it as "try the next implementation".

The other functions raise a ``mistake`` unless their argument is as they say. Each
takes the name of the public op first, so that a sentence says which call it is of.
"""

from collections.abc import Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def mistake(op: str, expected: str, received: str, advice: str) -> ValueError:
    """The error for a wrong call: ``op: expected E, but received R; advice.``."""
    return ValueError(f"{op}: expected {expected}, but received {received}; {advice}.")


def limit(can: str, received: str) -> NotImplementedError:
    """The reason why HK kernels cannot serve a call; the dispatcher names the op."""
    return NotImplementedError(f"HK kernels serve {can}, but received {received}")


def as_array(op: str, name: str, value: Any) -> jax.Array:
    """``value`` as an array; tracers pass through."""
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise mistake(
            op,
            f"{name} to be an array",
            f"{type(value).__name__} ({error})".replace(".)", ")"),
            "pass what jnp.asarray takes",
        ) from error


def describe(array: Any) -> str:
    """Dtype and shape as users write them, e.g. ``bfloat16[2,128,8,64]``."""
    return f"{array.dtype}[{','.join(map(str, array.shape))}]"


def rank(op: str, name: str, array: jax.Array, layouts: Sequence[str]) -> None:
    """Requires as many axes as one of ``layouts`` (e.g. "BTND", "TND") has letters."""
    if array.ndim not in {len(layout) for layout in layouts}:
        raise mistake(
            op,
            f"{name} of layout {' or '.join(layouts)}",
            f"{array.ndim} axes in {describe(array)}",
            "reshape it",
        )


def floating(op: str, name: str, array: jax.Array) -> None:
    """Requires a real floating-point dtype."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        raise mistake(
            op,
            f"{name} of a floating-point dtype",
            describe(array),
            "cast it, for example to bfloat16",
        )


def same_dtype(op: str, **arrays: jax.Array) -> None:
    """Requires one dtype for all of ``arrays``."""
    if len({array.dtype for array in arrays.values()}) > 1:
        received = ", ".join(f"{n} {a.dtype}" for n, a in arrays.items())
        raise mistake(
            op,
            f"one dtype for {', '.join(arrays)}",
            received,
            "cast them to the same dtype",
        )


def shape(
    op: str,
    name: str,
    array: jax.Array,
    expected: tuple[int, ...],
    axes: str,
    advice: str = "reshape or broadcast it",
) -> None:
    """Requires exactly the shape ``expected``; ``axes`` names it, e.g. "[B]"."""
    if array.shape != expected:
        raise mistake(
            op, f"{name} of shape {axes} = {expected}", describe(array), advice
        )


def choice(op: str, name: str, value: Any, allowed: Collection[Any]) -> None:
    """Requires one of ``allowed``."""
    known = value is None or isinstance(value, str)
    if not known or value not in allowed:
        listed = ", ".join(repr(a) for a in allowed)
        raise mistake(
            op, f"{name} to be one of {listed}", repr(value), "choose one of them"
        )


def flag(op: str, name: str, value: Any) -> bool:
    """Requires a bool known at trace time: another value's truth is rarely meant."""
    if isinstance(value, jax.core.Tracer):
        raise mistake(
            op,
            f"{name} known at trace time",
            "a traced value",
            "make it a static argument of jit",
        )
    if not isinstance(value, (bool, np.bool_)):
        raise mistake(op, f"{name} to be True or False", repr(value), "pass a bool")
    return bool(value)


def is_number(value: Any) -> bool:
    """Whether ``value`` is a real Python or numpy scalar, known at trace time."""
    if isinstance(value, (np.generic, np.ndarray)):
        real = value.dtype.kind in "biu" or jnp.issubdtype(value.dtype, jnp.floating)
        return value.ndim == 0 and real
    return isinstance(value, (bool, int, float))


def dropout_rate(op: str, rate: Any) -> float:
    """Requires a rate in [0, 1], known at trace time; as f32 has it."""
    number(op, "dropout_rate", rate)
    if not 0 <= rate <= 1:
        raise mistake(
            op,
            "dropout_rate in [0, 1]",
            str(rate),
            "it is the share of elements dropped",
        )
    # A rate too small for f32 drops nothing anywhere.
    return float(np.float32(rate))


def number(op: str, name: str, value: Any) -> None:
    """Requires a number known at trace time."""
    if not is_number(value):
        raise mistake(
            op,
            f"{name} to be a number known at trace time",
            type(value).__name__,
            "pass a Python float, or mark the argument static in jit",
        )


def dropout_seed(op: str, rate: float, key: Any) -> jax.Array:
    """Two words u32[2] that key the masks' generator, from a key of either style."""
    if key is None:
        raise mistake(
            op,
            f"dropout_key with dropout_rate={rate}",
            "None",
            "pass a key such as jax.random.key(0), or dropout_rate=0 at inference",
        )
    try:
        return jax.random.bits(key, (2,), jnp.uint32)
    except (TypeError, ValueError) as error:
        raise mistake(
            op,
            "dropout_key to be one JAX random key",
            f"{type(key).__name__} ({error})".replace(".)", ")"),
            "pass a key such as jax.random.key(0)",
        ) from error
