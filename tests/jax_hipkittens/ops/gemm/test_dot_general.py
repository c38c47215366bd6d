"""dot_general against jax.lax.dot_general: dimension numbers, dtypes, layouts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jax_hipkittens as hk
from tests.jax_hipkittens import accuracy
from tests.jax_hipkittens.ops.gemm import oracle
from tests.jax_hipkittens.ops.gemm.cases import draw

DTYPES = ["bfloat16", "float16", "float32"]

# lhs, rhs, dimension numbers, and whether the forward reads both as they lie.
LAYOUTS = [
    ((5, 7), (7, 9), (((1,), (0,)), ((), ())), True),
    ((5, 7), (9, 7), (((1,), (1,)), ((), ())), True),
    ((7, 5), (7, 9), (((0,), (0,)), ((), ())), True),
    ((7, 5), (9, 7), (((0,), (1,)), ((), ())), True),
    ((3, 5, 7), (3, 7, 9), (((2,), (1,)), ((0,), (0,))), True),
    ((3, 5, 7), (3, 9, 7), (((2,), (2,)), ((0,), (0,))), True),
    ((3, 7, 5), (3, 7, 9), (((1,), (1,)), ((0,), (0,))), True),
    ((3, 7, 5), (3, 9, 7), (((1,), (2,)), ((0,), (0,))), True),
    # Dense on a batch, and DenseGeneral into and out of heads.
    ((2, 5, 7), (7, 9), (((2,), (0,)), ((), ())), True),
    ((2, 5, 8), (8, 4, 6), (((2,), (0,)), ((), ())), True),
    ((2, 5, 4, 6), (4, 6, 8), (((2, 3), (0, 1)), ((), ())), True),
    ((2, 5, 4, 6), (4, 6, 8), (((3, 2), (1, 0)), ((), ())), True),
    # Attention's products: batch and heads are not next to each other.
    ((2, 5, 3, 6), (2, 7, 3, 6), (((3,), (3,)), ((0, 2), (0, 2))), False),
    ((4, 6, 5), (6, 4, 8), (((0, 1), (1, 0)), ((), ())), False),
    ((5, 3, 7), (3, 7, 9), (((2,), (1,)), ((1,), (0,))), False),
    ((5, 7), (9, 8), (((), ()), ((), ())), True),
    ((7,), (7,), (((0,), (0,)), ((), ())), True),
    ((3, 7), (3, 7), (((1,), (1,)), ((0,), (0,))), True),
    ((3, 7), (3, 7), (((), ()), ((0, 1), (0, 1))), True),
    ((0, 7), (7, 9), (((1,), (0,)), ((), ())), True),
    ((5, 0), (0, 9), (((1,), (0,)), ((), ())), True),
]


def contract(implementation, dimension_numbers, **options):
    def op(lhs, rhs):
        return hk.dot_general(
            lhs, rhs, dimension_numbers, **options, implementation=implementation
        )

    return op


def assert_right(lhs, rhs, dimension_numbers, **options):
    def theirs(lhs, rhs):
        return jax.lax.dot_general(lhs, rhs, dimension_numbers, **options)

    shape = jax.eval_shape(theirs, lhs, rhs)
    (d_out,) = draw(9, shape.dtype, shape.shape)

    def run(op):
        def value_and_gradients(lhs, rhs, d_out):
            out, pullback = jax.vjp(op, lhs, rhs)
            return out, *pullback(d_out)

        return jax.jit(value_and_gradients)(lhs, rhs, d_out)

    actual = run(contract("hk", dimension_numbers, **options))
    exact = oracle.dot_general(lhs, rhs, dimension_numbers, d_out)
    noise = 1e-6 * np.sqrt(max(lhs.size, rhs.size, d_out.size))
    for x, y, z in zip(actual, run(theirs), exact, strict=True):
        accuracy.assert_as_accurate(x, y, z, noise=noise)


@pytest.mark.parametrize(
    ("layout", "dtype"),
    [(layout, DTYPES[i % 3]) for i, layout in enumerate(LAYOUTS)],
    ids=str,
)
def test_values_and_gradients(layout, dtype):
    lhs, rhs, dimension_numbers, _ = layout
    assert_right(*draw(0, dtype, lhs, rhs), dimension_numbers)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_operands_are_read_as_they_lie(layout):
    """No transposition goes with a product, forward or backward, if none is needed."""
    *shapes, dimension_numbers, as_they_lie = layout
    lhs, rhs = draw(1, "bfloat16", *shapes)
    op = contract("hk", dimension_numbers)

    def gradients(lhs, rhs):
        return jax.grad(lambda *x: jnp.sum(op(*x).astype(jnp.float32)), (0, 1))(
            lhs, rhs
        )

    texts = [jax.jit(f).lower(lhs, rhs).as_text() for f in (op, gradients)]
    assert all("custom_call @jax_hipkittens_gemm" in text for text in texts)
    assert ["stablehlo.transpose" in text for text in texts] == [not as_they_lie] * 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("preferred", [*DTYPES, None])
def test_dtypes_are_those_of_lax(dtype, preferred):
    dimension_numbers = (((1,), (0,)), ((), ()))
    lhs, rhs = draw(2, dtype, (33, 70), (70, 20))
    assert_right(lhs, rhs, dimension_numbers, preferred_element_type=preferred)


@pytest.mark.parametrize("precision", [None, "default", "highest", "float32"])
def test_any_precision(precision):
    dimension_numbers = (((1,), (0,)), ((), ()))
    lhs, rhs = draw(3, "float32", (33, 70), (70, 20))
    assert_right(lhs, rhs, dimension_numbers, precision=precision)
    both = (jax.lax.Precision.HIGHEST, jax.lax.Precision.DEFAULT)
    assert_right(lhs, rhs, dimension_numbers, precision=both)


def test_what_only_xla_serves():
    dimension_numbers = (((1,), (0,)), ((), ()))
    lhs, rhs = draw(4, "float32", (3, 4), (4, 5))
    for args, options, message in (
        ((lhs, rhs.astype(jnp.bfloat16)), {}, "received float32 and bfloat16"),
        ((lhs.astype(int), rhs.astype(int)), {}, "received int32 and int32"),
        ((lhs, rhs), dict(preferred_element_type="float8_e5m2"), "float8_e5m2"),
        ((lhs, rhs), dict(precision="F32_F32_F32"), "Precision"),
    ):
        op = contract("hk", dimension_numbers, **options)
        with pytest.raises(NotImplementedError, match=message):
            jax.eval_shape(op, *args)
    with jax.numpy_dtype_promotion("standard"):
        mixed = hk.dot_general(lhs, rhs.astype(jnp.bfloat16), dimension_numbers)
    integers = hk.dot_general(lhs.astype(int), rhs.astype(int), dimension_numbers)
    assert mixed.dtype == jnp.float32 and integers.dtype == jnp.int32


@pytest.mark.parametrize(
    ("dimension_numbers", "message"),
    [
        ((((1,), (1,)), ((), ())), r"contracting axes of equal sizes.*\(4,\).*\(5,\)"),
        ((((), ()), ((0,), (0,))), r"batch axes of equal sizes.*\(3,\).*\(4,\)"),
        ((((1, 0), (0,)), ((), ())), r"contracting axes of equal sizes"),
        ((((2,), (0,)), ((), ())), r"axes of lhs from 0 to 1, .* \(2,\)"),
        ((((1,), (-1,)), ((), ())), r"axes of rhs from 0 to 1, .* \(-1,\)"),
        ((((1, 1), (0, 0)), ((), ())), r"distinct axes of lhs"),
        (((1,), (0,)), "dimension_numbers"),
    ],
)
def test_wrong_dimension_numbers(dimension_numbers, message):
    lhs, rhs = draw(5, "float32", (3, 4), (4, 5))
    with pytest.raises(ValueError, match=message) as raised:
        hk.dot_general(lhs, rhs, dimension_numbers)
    assert str(raised.value).startswith("dot_general: expected ")


@st.composite
def contractions(draw):
    """Shapes of lhs and rhs, axes in any order, and their dimension numbers."""

    def sizes(most):
        return draw(st.lists(st.integers(1, 5), max_size=most))

    batch, contracted = sizes(2), sizes(2)
    sides = []
    for free in (sizes(2), sizes(2)):
        roles = [*batch, *contracted, *free]
        order = draw(st.permutations(range(len(roles))))
        places = [order.index(i) for i in range(len(roles))]
        sides.append(
            (
                tuple(roles[i] for i in order),
                tuple(places[len(batch) : len(batch) + len(contracted)]),
                tuple(places[: len(batch)]),
            )
        )
    (lhs, lhs_contracted, lhs_batch), (rhs, rhs_contracted, rhs_batch) = sides
    return lhs, rhs, ((lhs_contracted, rhs_contracted), (lhs_batch, rhs_batch))


@settings(max_examples=15)
@given(contraction=contractions(), dtype=st.sampled_from(DTYPES))
def test_any_contraction_is_right(contraction, dtype):
    lhs, rhs, dimension_numbers = contraction
    assert_right(*draw(6, dtype, lhs, rhs), dimension_numbers)
