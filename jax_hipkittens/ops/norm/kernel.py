"""What the HK norm kernels serve, and the calls to them.

Arrays here are rank 2: R rows of H normalised elements.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from jax_hipkittens import _checks, _ffi

DTYPES = (jnp.bfloat16, jnp.float16, jnp.float32)

Kind = Literal["layer", "rms"]
_KIND = {"layer": 0, "rms": 1}


class Config(NamedTuple):
    """What is known at trace time. "rms" leaves the mean in place."""

    kind: Kind
    epsilon: float
    dropout_rate: float


class Forward(NamedTuple):
    """y T[R,H]; h T[R,H], or None where it is x itself; mean and rstd f32[R].

    mean is empty, f32[0], for "rms".
    """

    y: jax.Array
    h: jax.Array | None
    mean: jax.Array
    rstd: jax.Array


class Backward(NamedTuple):
    """dx and dresidual T[R,H]; dweight and dbias f32[H], or None without one."""

    dx: jax.Array
    dresidual: jax.Array
    dweight: jax.Array | None
    dbias: jax.Array | None


def check(x: jax.Array) -> None:
    """Raises NotImplementedError unless the kernels serve x [..., H]."""
    if x.dtype not in DTYPES:
        raise _checks.limit("bfloat16, float16 and float32", f"x {x.dtype}")
    if x.shape[-1] == 0:
        raise _checks.limit("rows of 1 element or more", f"x {_checks.describe(x)}")
    _ffi.require()


def forward(
    config: Config,
    x: jax.Array,
    residual: jax.Array | None,
    weight: jax.Array | None,
    bias: jax.Array | None,
    seed: jax.Array,
) -> Forward:
    """Normalises h = residual + dropout(x); weight and bias are f32[H]."""
    rows = x.shape[0]
    makes_h = residual is not None or config.dropout_rate > 0
    y, h, mean, rstd = _ffi.call(
        "norm_forward",
        [
            _ffi.result(x, x.shape, x.dtype),
            _ffi.result(x, x.shape if makes_h else (0, 0), x.dtype),
            _ffi.result(x, (rows if config.kind == "layer" else 0,), jnp.float32),
            _ffi.result(x, (rows,), jnp.float32),
        ],
        x,
        _or_empty(residual, (0, 0), x.dtype),
        _or_empty(weight, (0,), jnp.float32),
        _or_empty(bias, (0,), jnp.float32),
        seed,
        kind=_KIND[config.kind],
        epsilon=float(config.epsilon),
        dropout_rate=float(config.dropout_rate),
    )
    return Forward(y, h if makes_h else None, mean, rstd)


def backward(
    config: Config,
    h: jax.Array,
    mean: jax.Array,
    rstd: jax.Array,
    weight: jax.Array | None,
    seed: jax.Array,
    has_bias: bool,
    dy: jax.Array,
    dh: jax.Array | None,
) -> Backward:
    """Pulls dy and dh, the cotangents of y and h, back; None is a dh of zeros."""
    drops = config.dropout_rate > 0
    hidden = h.shape[-1]
    dx, dresidual, dweight, dbias = _ffi.call(
        "norm_backward",
        [
            _ffi.result(h, h.shape, h.dtype),
            _ffi.result(h, h.shape if drops else (0, 0), h.dtype),
            _ffi.result(h, (0 if weight is None else hidden,), jnp.float32),
            _ffi.result(h, (hidden if has_bias else 0,), jnp.float32),
        ],
        h,
        _or_empty(weight, (0,), jnp.float32),
        mean,
        rstd,
        dy,
        _or_empty(dh, (0, 0), h.dtype),
        seed,
        kind=_KIND[config.kind],
        dropout_rate=float(config.dropout_rate),
    )
    return Backward(
        dx,
        dresidual if drops else dx,
        None if weight is None else dweight,
        dbias if has_bias else None,
    )


def _or_empty(
    array: jax.Array | None, shape: tuple[int, ...], dtype: jax.typing.DTypeLike
) -> jax.Array:
    return jnp.zeros(shape, dtype) if array is None else array
