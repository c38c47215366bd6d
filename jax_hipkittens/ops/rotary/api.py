"""The public rotary op."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jax_hipkittens import _checks, _dispatch
from jax_hipkittens.ops.rotary import reference, vjp

_OP = "rotary"
_IMPLEMENTATIONS: dict[str, Callable[..., jax.Array]] = {
    "hk": vjp.rotary,
    "xla": reference.rotary,
}


def rotary(
    x: ArrayLike,
    cos: ArrayLike,
    sin: ArrayLike,
    *,
    offset: int | ArrayLike | None = None,
    interleaved: bool = False,
    implementation: _dispatch.Implementation = None,
) -> jax.Array:
    """Rotary position embedding of queries or keys.

    Turns each pair (x0, x1) of the first R of D dims of a head by the angle whose
    cosine and sine the tables hold at the step's position:
    (x0 cos - x1 sin, x1 cos + x0 sin), computed in f32 and rounded once. Dims from R
    on are copied. Step t of batch entry b has the position offset[b] + t, kept inside
    [0, P - 1].

    Args:
      x: [B, T, N, D] or [T, N, D], bfloat16, float16 or float32.
      cos: [P, R/2] or [B, P, R/2], floating; see :func:`rotary_tables`.
      sin: as cos.
      offset: position of the first step, an integer or int32[B]; None is 0. An
        array's values are not checked.
      interleaved: pairs are dims (2i, 2i + 1), as in GPT-J, instead of (i, i + R/2),
        as in NeoX and Llama.
      implementation: None for HK where it serves the call and XLA otherwise, or
        "hk", "xla" or a sequence of them to be tried in order.

    Returns:
      y, of x's shape and dtype. Differentiable in x, cos and sin.

    Raises:
      ValueError: wrong shapes or dtypes, R above D, or a table shorter than
        offset + T where that is known at trace time.
      NotImplementedError: no implementation asked for serves the call.

    Source: Su et al., "RoFormer", arXiv:2104.09864, equation 34.
    """
    x = _checks.as_array(_OP, "x", x)
    _checks.rank(_OP, "x", x, ("BTND", "TND"))
    _checks.floating(_OP, "x", x)
    batched = x if x.ndim == 4 else x[None]
    cos = _table("cos", cos, batched)
    sin = _table("sin", sin, batched)
    _checks.shape(_OP, "sin", sin, cos.shape, "cos.shape")
    offsets = _offsets(offset, batched.shape[0], batched.shape[1], cos.shape[1])
    y = _dispatch.run(
        _OP,
        implementation,
        _IMPLEMENTATIONS,
        *(batched, cos, sin, offsets),
        interleaved=_checks.flag(_OP, "interleaved", interleaved),
    )
    return y.reshape(x.shape)


def _table(name: str, value: Any, x: jax.Array) -> jax.Array:
    """The table as [B or 1, P, R/2]."""
    table = _checks.as_array(_OP, name, value)
    _checks.floating(_OP, name, table)
    if table.ndim not in (2, 3):
        raise _checks.mistake(
            _OP,
            f"{name} of shape [P, R/2] or [B, P, R/2]",
            _checks.describe(table),
            "make tables with rotary_tables",
        )
    batch, dim = x.shape[0], x.shape[-1]
    if table.ndim == 3 and table.shape[0] not in (1, batch):
        raise _checks.mistake(
            _OP,
            f"{name} with a batch of {batch}, as x has",
            _checks.describe(table),
            "leave the batch axis out for tables that all entries share",
        )
    if 2 * table.shape[-1] > dim:
        raise _checks.mistake(
            _OP,
            f"{name} of at most D/2 = {dim // 2} columns",
            _checks.describe(table),
            "a column serves a pair of dims: do not repeat the angles",
        )
    return table if table.ndim == 3 else table[None]


def _offsets(offset: Any, batch: int, length: int, table_length: int) -> jax.Array:
    """The offsets as s32[B]."""
    if offset is None or isinstance(offset, (int, np.integer)):
        _check_static_offset(int(offset or 0), length, table_length)
        return jnp.full(batch, int(offset or 0), jnp.int32)
    array = _checks.as_array(_OP, "offset", offset)
    if not jnp.issubdtype(array.dtype, jnp.integer) or array.shape not in (
        (),
        (batch,),
    ):
        raise _checks.mistake(
            _OP,
            f"offset to be an integer or int32[B] with B = {batch}",
            _checks.describe(array),
            "offsets are per batch entry; for others gather the tables' rows",
        )
    if length and not table_length:
        raise _checks.mistake(
            _OP,
            "tables of at least one position",
            "none",
            "make longer tables with rotary_tables",
        )
    return jnp.broadcast_to(array.astype(jnp.int32), (batch,))


def _check_static_offset(offset: int, length: int, table_length: int) -> None:
    if offset < 0 or offset + length > table_length:
        raise _checks.mistake(
            _OP,
            f"positions {offset} to {offset + length - 1} to lie in the tables",
            f"tables of {table_length} positions",
            "make longer tables with rotary_tables",
        )
