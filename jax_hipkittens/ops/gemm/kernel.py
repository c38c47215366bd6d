"""Matrix products by HK kernels: what they can serve, and the call to them.

Axis letters: B batch, M rows of a, N columns of b, K contracted.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jax_hipkittens import _checks, _ffi

DTYPES = ("bfloat16", "float16", "float32")
_ACTIVATIONS = {None: 0, "gelu": 1, "silu": 2, "gelu_exact": 3}


class Gemm(NamedTuple):
    """The static part of a product ``activation(op(a) @ op(b) + bias)``.

    Attributes:
      trans_a: a is stored [K,M] rather than [M,K].
      trans_b: b is stored [N,K] rather than [K,N].
      dtype: of the result.
      activation: None, "gelu" (tanh approximation), "gelu_exact" or "silu".
    """

    trans_a: bool
    trans_b: bool
    dtype: np.dtype[Any]
    activation: str | None = None


def require(
    a: jax.Array,
    b: jax.Array,
    dtype: np.dtype[Any],
    precision: Any,
    bias: jax.Array | None = None,
) -> None:
    """Raises NotImplementedError, naming the limit, unless HK can serve the call."""
    _ffi.require()
    served = ", ".join(DTYPES)
    if a.dtype != b.dtype or a.dtype.name not in DTYPES:
        raise _checks.limit(
            f"two operands of one dtype of {served}", f"{a.dtype} and {b.dtype}"
        )
    if dtype.name not in DTYPES:
        raise _checks.limit(f"results of dtype {served}", dtype.name)
    if bias is not None and bias.dtype.name not in DTYPES:
        raise _checks.limit(f"a bias of dtype {served}", bias.dtype.name)
    named = precision if isinstance(precision, tuple) else (precision,)
    if not all(p is None or isinstance(p, jax.lax.Precision) for p in named):
        raise _checks.limit(
            "every jax.lax.Precision, by exact products summed in f32", repr(precision)
        )


def gemm(
    a: jax.Array,
    b: jax.Array,
    bias: jax.Array | None,
    static: Gemm,
    with_preactivation: bool = False,
) -> tuple[jax.Array, ...]:
    """a [Ba,M,K] or [Ba,K,M], b [Bb,K,N] or [Bb,N,K], bias [N] -> c [B,M,N].

    Ba and Bb are B or 1. Returns (c,), or (c, z) with the pre-activation z like c.
    """
    m = a.shape[2] if static.trans_a else a.shape[1]
    n = b.shape[1] if static.trans_b else b.shape[2]
    batch = a.shape[0] if b.shape[0] == 1 else b.shape[0]
    result = _ffi.result(a, (batch, m, n), static.dtype)
    return _ffi.call(
        "gemm",
        (result, result) if with_preactivation else (result,),
        *(a, b, jnp.zeros((0,), jnp.float32) if bias is None else bias),
        trans_a=static.trans_a,
        trans_b=static.trans_b,
        activation=_ACTIVATIONS[static.activation],
    )
