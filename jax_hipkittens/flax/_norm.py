"""What the norm modules for both Flax libraries share."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jax_hipkittens import _checks, _dispatch

Axes = int | Sequence[int]


def limit(
    x: jax.Array,
    reduction_axes: Axes,
    feature_axes: Axes,
    axis_name: Any,
    mask: Any,
    force_float32_reductions: bool = True,
) -> str | None:
    """Why only Flax's own module can serve the call, or None."""
    for name, axes in (
        ("reduction_axes", reduction_axes),
        ("feature_axes", feature_axes),
    ):
        if not _is_last(axes, x.ndim):
            return f"{name}={axes}"
    if axis_name is not None:
        return f"axis_name={axis_name!r}"
    if mask is not None:
        return "a mask"
    if not force_float32_reductions:
        return "force_float32_reductions=False"
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        return f"x {x.dtype}"
    return None


def _is_last(axes: Axes, rank: int) -> bool:
    listed = (axes,) if isinstance(axes, int) else tuple(axes)
    return [axis % rank for axis in listed] == [rank - 1] if rank else False


def run(
    module: str,
    flax_only: str | None,
    ours: Callable[[], jax.Array],
    flaxs: Callable[[], jax.Array],
    implementation: _dispatch.Implementation,
) -> jax.Array:
    """Our norm, or Flax's own where ``flax_only`` names why it is needed."""
    if flax_only is None:
        return ours()

    def decline(strict: bool) -> jax.Array:
        raise _checks.limit("norms over the last axis alone", str(flax_only))

    table: dict[str, Callable[..., jax.Array]] = {"hk": decline, "xla": flaxs}
    return _dispatch.run(module, implementation, table)


def norm(
    op: Callable[..., jax.Array],
    x: jax.Array,
    scale: Any,
    bias: Any,
    dtype: Any,
    epsilon: float,
    implementation: _dispatch.Implementation,
) -> jax.Array:
    """``op`` in the wider of x's type and ``dtype``, as Flax does, then cast."""
    wide = jnp.promote_types(x.dtype, dtype)
    y = op(x.astype(wide), scale, bias, epsilon=epsilon, implementation=implementation)
    return y.astype(dtype)
