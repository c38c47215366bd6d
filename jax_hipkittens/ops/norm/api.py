"""Public norm ops: layer_norm and rms_norm, with fused residual and dropout."""

import math
from collections.abc import Callable
from typing import Any, overload

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jax_hipkittens import _checks, _dispatch
from jax_hipkittens.ops.norm import kernel, reference, vjp

_IMPLEMENTATIONS: dict[str, Callable[..., tuple[jax.Array, jax.Array]]] = {
    "hk": vjp.norm,
    "xla": reference.norm,
}


@overload
def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    residual: None = None,
    epsilon: float = 1e-6,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    implementation: _dispatch.Implementation = None,
) -> jax.Array: ...


@overload
def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    residual: ArrayLike,
    epsilon: float = 1e-6,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    implementation: _dispatch.Implementation = None,
) -> tuple[jax.Array, jax.Array]: ...


def layer_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    residual: ArrayLike | None = None,
    epsilon: float = 1e-6,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    implementation: _dispatch.Implementation = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """Layer norm over the last axis, after optional dropout and residual addition.

    h = residual + dropout(x), rounded to x's dtype, and
    y = (h - mean(h)) / sqrt(var(h) + epsilon) * weight + bias, with the mean and then
    the variance taken in f32 over the H elements of a row, and y rounded once.

    Args:
      x: [..., H], bfloat16, float16 or float32.
      weight: [H], any floating dtype; None multiplies by 1.
      bias: [H], any floating dtype; None adds 0.
      residual: of x's shape and dtype.
      epsilon: a number, 0 or more, known at trace time.
      dropout_rate: the share of x's elements set to zero, in [0, 1], known at trace
        time; the others are divided by 1 - dropout_rate.
      dropout_key: a JAX random key, typed or raw; needed when ``dropout_rate`` is not
        0. A key gives the same mask in every implementation.
      implementation: None for HK where it serves the call and XLA otherwise, or
        "hk", "xla" or a sequence of them to be tried in order.

    Returns:
      y, of x's shape and dtype; or (y, h) if ``residual`` is given, h being the next
      residual.

    Raises:
      ValueError: wrong shapes or dtypes, epsilon below 0, a rate outside [0, 1] or
        dropout without a key.
      NotImplementedError: no implementation asked for serves the call.

    Source: Ba et al., "Layer normalization", arXiv:1607.06450.
    """
    config = kernel.Config("layer", epsilon, dropout_rate)
    return _norm(
        "layer_norm", config, x, weight, bias, residual, dropout_key, implementation
    )


@overload
def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    residual: None = None,
    epsilon: float = 1e-6,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    implementation: _dispatch.Implementation = None,
) -> jax.Array: ...


@overload
def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    residual: ArrayLike,
    epsilon: float = 1e-6,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    implementation: _dispatch.Implementation = None,
) -> tuple[jax.Array, jax.Array]: ...


def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    residual: ArrayLike | None = None,
    epsilon: float = 1e-6,
    dropout_rate: float = 0.0,
    dropout_key: ArrayLike | None = None,
    implementation: _dispatch.Implementation = None,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """RMS norm over the last axis, after optional dropout and residual addition.

    h = residual + dropout(x), rounded to x's dtype, and
    y = h / sqrt(mean(h^2) + epsilon) * weight + bias. Arguments, results and errors
    are those of :func:`layer_norm`.

    Source: Zhang, Sennrich, "Root mean square layer normalization", arXiv:1910.07467.
    """
    config = kernel.Config("rms", epsilon, dropout_rate)
    return _norm(
        "rms_norm", config, x, weight, bias, residual, dropout_key, implementation
    )


def _norm(
    op: str,
    config: kernel.Config,
    x: Any,
    weight: Any,
    bias: Any,
    residual: Any,
    dropout_key: Any,
    implementation: _dispatch.Implementation,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    x = _checks.as_array(op, "x", x)
    _check_x(op, x)
    weight = _row_vector(op, "weight", weight, x.shape[-1])
    bias = _row_vector(op, "bias", bias, x.shape[-1])
    residual = _residual(op, residual, x)
    rate = _checks.dropout_rate(op, config.dropout_rate)
    config = kernel.Config(config.kind, _epsilon(op, config.epsilon), rate)
    seed = jnp.zeros(2, jnp.uint32)
    if rate > 0:
        seed = _checks.dropout_seed(op, rate, dropout_key)
    y, h = _dispatch.run(
        op,
        implementation,
        _IMPLEMENTATIONS,
        *(x, weight, bias, residual, seed),
        **config._asdict(),
    )
    return y if residual is None else (y, h)


def _check_x(op: str, x: jax.Array) -> None:
    _checks.floating(op, "x", x)
    if x.ndim == 0:
        raise _checks.mistake(
            op,
            "x of shape [..., H]",
            _checks.describe(x),
            "a norm needs an axis to run over",
        )


def _row_vector(op: str, name: str, value: Any, hidden: int) -> jax.Array | None:
    if value is None:
        return None
    array = _checks.as_array(op, name, value)
    _checks.floating(op, name, array)
    _checks.shape(op, name, array, (hidden,), "[H]", "H is the last axis of x")
    return array


def _residual(op: str, value: Any, x: jax.Array) -> jax.Array | None:
    if value is None:
        return None
    array = _checks.as_array(op, "residual", value)
    _checks.shape(op, "residual", array, x.shape, "x.shape")
    _checks.same_dtype(op, x=x, residual=array)
    return array


def _epsilon(op: str, epsilon: Any) -> float:
    _checks.number(op, "epsilon", epsilon)
    if not (epsilon >= 0 and math.isfinite(epsilon)):
        raise _checks.mistake(
            op, "epsilon of 0 or more", str(epsilon), "1e-6 is the default"
        )
    return float(epsilon)
