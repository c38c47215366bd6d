"""What the bench times: each op at a size users run, and what it is compared with.

A case builds its inputs once and gives one zero-argument function per contender,
so that the timing loop knows nothing of ops.
"""

import dataclasses
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

import jax_hipkittens as hk
from jax_hipkittens._dispatch import Implementation
from jax_hipkittens.ops.norm.shapes import SHAPES as NORM_SHAPES
from jax_hipkittens.ops.rotary.shapes import SHAPES as ROTARY_SHAPES

Inputs = tuple[jax.Array, ...]
Function = Callable[..., jax.Array]

# Floating-point operations of attention's backward relative to its forward: five
# T x S x D products (the logits again, dP, dV, dQ, dK) against two.
_BACKWARD_FACTOR = 2.5


@dataclasses.dataclass(frozen=True)
class Target:
    """How many times another contender's speed HK should reach."""

    xla: float | None = None
    torch: float | None = None


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the bench.

    Attributes:
      op: what ``--op`` selects by.
      name: shape, dtype and direction, as printed.
      inputs: makes the differentiable operands.
      hk: the op under test, of the operands.
      xla: candidates to compare with, by name; the fastest one stands for XLA.
      torch: name of the PyTorch builder in ``torch_contender``, or None.
      backward: time value and gradients of all operands instead of the value.
      work: floating-point operations, or bytes moved, of one run.
      unit: "GFLOP/s" or "GB/s".
    """

    op: str
    name: str
    inputs: Callable[[], Inputs]
    hk: Function
    xla: dict[str, Function]
    torch: str | None
    backward: bool
    work: float
    unit: str
    target: Target = Target()
    causal: bool = False


def normal_inputs(dtype: str, *shapes: tuple[int, ...]) -> Callable[[], Inputs]:
    """A maker of standard normal arrays, the same on every call."""

    def make() -> Inputs:
        rng = np.random.default_rng(0)
        draws = [rng.standard_normal(shape, np.float32) for shape in shapes]
        return tuple(jnp.asarray(draw, dtype) for draw in draws)

    return make


def _direction(backward: bool) -> str:
    return "fwd+bwd" if backward else "fwd"


def _attention(
    dtype: str, causal: bool, backward: bool, xla: float | None, torch: float | None
) -> Case:
    batch, length, heads, kv_heads, dim = 1, 2048, 8, 2, 128

    def of(implementation: Implementation) -> Function:
        return lambda q, k, v: hk.attention(
            q, k, v, is_causal=causal, implementation=implementation
        )

    flops = 4.0 * batch * heads * length * length * dim
    flops *= (1 + _BACKWARD_FACTOR if backward else 1) * (0.5 if causal else 1)
    return Case(
        op="attention",
        name=f"B1 T2048 N8 K2 D128 {dtype} {'causal ' * causal}{_direction(backward)}",
        inputs=normal_inputs(
            dtype,
            (batch, length, heads, dim),
            (batch, length, kv_heads, dim),
            (batch, length, kv_heads, dim),
        ),
        hk=of("hk"),
        xla={
            "reference": of("xla"),
            "jax.nn": lambda q, k, v: jax.nn.dot_product_attention(
                q, k, v, is_causal=causal
            ),
        },
        torch="attention",
        backward=backward,
        work=flops,
        unit="GFLOP/s",
        target=Target(xla, torch),
        causal=causal,
    )


def _gemm(dtype: str, xla: float | None, torch: float | None) -> Case:
    size = 2048
    return Case(
        op="gemm",
        name=f"2048 x 2048 x 2048 {dtype} fwd",
        inputs=normal_inputs(dtype, (size, size), (size, size)),
        hk=lambda a, b: hk.matmul(a, b, implementation="hk"),
        xla={
            "reference": lambda a, b: hk.matmul(a, b, implementation="xla"),
            "jnp.matmul": jnp.matmul,
        },
        torch="gemm",
        backward=False,
        work=2.0 * size**3,
        unit="GFLOP/s",
        target=Target(xla, torch),
    )


def _norm(index: int, dtype: str, backward: bool, xla: float | None) -> Case:
    shape = NORM_SHAPES[index]
    layer = shape.kind == "layer"
    weights = ((shape.hidden,),) * (2 if layer else 1)
    op = hk.layer_norm if layer else hk.rms_norm

    def of(implementation: Implementation) -> Function:
        return lambda x, *weights: op(x, *weights, implementation=implementation)

    # Forward reads x and writes y; backward reads x and dy and writes dx.
    passes = 5 if backward else 2
    return Case(
        op=f"{shape.kind}_norm",
        name=f"{shape.rows} x {shape.hidden} {dtype} {_direction(backward)}",
        inputs=normal_inputs(dtype, (shape.rows, shape.hidden), *weights),
        hk=of("hk"),
        xla={"reference": of("xla")},
        torch=f"{shape.kind}_norm",
        backward=backward,
        work=float(passes * shape.rows * shape.hidden * jnp.dtype(dtype).itemsize),
        unit="GB/s",
        target=Target(xla),
    )


def _rotary(index: int, dtype: str, backward: bool) -> Case:
    shape = ROTARY_SHAPES[index]
    cos, sin = hk.rotary_tables(shape.length, shape.rotary_dim)
    size = (shape.batch, shape.length, shape.heads, shape.dim)

    def of(implementation: Implementation) -> Function:
        return lambda x: hk.rotary(
            x,
            cos,
            sin,
            interleaved=shape.interleaved,
            implementation=implementation,
        )

    # Each direction reads one array and writes one of the same size.
    moved = 2.0 * np.prod(size) * jnp.dtype(dtype).itemsize
    return Case(
        op="rotary",
        name=(
            f"B{shape.batch} T{shape.length} N{shape.heads} D{shape.dim} "
            f"{dtype} {_direction(backward)}"
        ),
        inputs=normal_inputs(dtype, size),
        hk=of("hk"),
        xla={"reference": of("xla")},
        torch=None,
        backward=backward,
        work=float(moved * (2 if backward else 1)),
        unit="GB/s",
    )


def all_cases() -> Iterator[Case]:
    """Every timed case, in the order printed."""
    yield _attention("bfloat16", False, False, xla=4.0, torch=1.5)
    yield _attention("bfloat16", False, True, xla=2.2, torch=1.25)
    yield _attention("bfloat16", True, False, xla=6.0, torch=1.5)
    yield _attention("bfloat16", True, True, xla=5.0, torch=1.25)
    yield _attention("float32", False, False, xla=3.0, torch=1.0)
    yield _attention("float32", False, True, xla=None, torch=None)
    yield _gemm("bfloat16", xla=2.0, torch=0.9)
    yield _gemm("float32", xla=0.95, torch=None)
    yield _norm(0, "bfloat16", False, xla=2.0)
    yield _norm(0, "bfloat16", True, xla=2.0)
    yield _norm(1, "bfloat16", False, xla=None)
    yield _norm(1, "bfloat16", True, xla=None)
    yield _rotary(0, "bfloat16", False)
    yield _rotary(0, "bfloat16", True)


MEMORY = "memory"
OPS = ("attention", "gemm", "layer_norm", "rms_norm", "rotary", MEMORY)
