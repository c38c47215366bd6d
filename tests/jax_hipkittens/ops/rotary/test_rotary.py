"""Values, gradients and transformations of rotary."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jax_hipkittens as hk
from tests.jax_hipkittens import accuracy, bits
from tests.jax_hipkittens.ops.rotary import oracle

IMPLEMENTATIONS = ["hk", "xla"]
DTYPES = ["bfloat16", "float16", "float32"]


def normal(seed, shape, dtype="float32"):
    draws = np.random.default_rng(seed).standard_normal(shape, np.float32)
    return jnp.asarray(draws, dtype)


def assert_right(interleaved, dtype, dim, rotated):
    """Values of HK and of XLA against float64."""
    x = normal(0, (2, 9, 3, dim), dtype)
    cos, sin = hk.rotary_tables(40, rotated)
    offsets = jnp.array([0, 31])
    y = {
        implementation: hk.rotary(
            x,
            cos,
            sin,
            offset=offsets,
            interleaved=interleaved,
            implementation=implementation,
        )
        for implementation in IMPLEMENTATIONS
    }
    exact = oracle.rotary(x, cos[None], sin[None], [0, 31], interleaved)
    accuracy.assert_as_accurate(y["hk"], y["xla"], exact)
    accuracy.assert_rounded(y["xla"], exact, ulps=1)
    for result in y.values():
        np.testing.assert_array_equal(result[..., rotated:], x[..., rotated:])


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim, rotated", [(2, 2), (20, 6), (64, 64), (104, 32)])
def test_values(interleaved, dtype, dim, rotated):
    assert_right(interleaved, dtype, dim, rotated)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_tables_per_batch_entry(implementation):
    x = normal(1, (3, 5, 2, 16))
    cos, sin = hk.rotary_tables(jnp.arange(15).reshape(3, 5), 16)
    y = hk.rotary(x, cos, sin, implementation=implementation)
    exact = oracle.rotary(x, cos, sin, [0, 0, 0], False)
    accuracy.assert_rounded(y, exact, ulps=2)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("offset", [None, 0, 7, np.int64(7), jnp.int32(7)])
def test_offset_forms(implementation, offset):
    x = normal(2, (2, 4, 1, 8))
    cos, sin = hk.rotary_tables(11, 8)
    y = hk.rotary(x, cos, sin, offset=offset, implementation=implementation)
    exact = oracle.rotary(x, cos[None], sin[None], [int(offset or 0)] * 2, False)
    accuracy.assert_rounded(y, exact, ulps=2)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_positions_are_kept_inside_the_table(implementation):
    x = normal(3, (3, 4, 1, 8))
    cos, sin = hk.rotary_tables(6, 8)
    offsets = jnp.array([-2, 4, 2**31 - 1])
    y = hk.rotary(x, cos, sin, offset=offsets, implementation=implementation)
    exact = oracle.rotary(x, cos[None], sin[None], offsets, False)
    accuracy.assert_rounded(y, exact, ulps=2)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_without_a_batch_axis(implementation):
    x = normal(4, (5, 2, 8))
    cos, sin = hk.rotary_tables(5, 8)
    y = hk.rotary(x, cos, sin, implementation=implementation)
    batched = hk.rotary(x[None], cos, sin, implementation=implementation)
    np.testing.assert_array_equal(y, batched[0])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("shape", [(0, 4, 2, 8), (2, 0, 2, 8), (2, 4, 0, 8)])
def test_empty(implementation, shape):
    cos, sin = hk.rotary_tables(4, 8)
    x = jnp.zeros(shape)
    y, pullback = jax.vjp(
        lambda *args: hk.rotary(*args, implementation=implementation), x, cos, sin
    )
    assert y.shape == shape
    dx, dcos, dsin = pullback(y)
    assert dx.shape == shape and not dcos.any() and not dsin.any()


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("table_batch", [1, 2])
def test_gradients(interleaved, implementation, table_batch):
    # Positions repeat: both entries and the clipped ends of the table overlap.
    offsets = jnp.array([2, 5])
    x, dy = normal(5, (2, 6, 3, 20)), normal(6, (2, 6, 3, 20))
    cos, sin = normal(7, (2, table_batch, 9, 8))

    def op(x, cos, sin):
        return hk.rotary(
            x,
            cos,
            sin,
            offset=offsets,
            interleaved=interleaved,
            implementation=implementation,
        )

    dx, dcos, dsin = jax.jit(lambda dy, *args: jax.vjp(op, *args)[1](dy))(
        dy, x, cos, sin
    )
    exact = oracle.rotary(dy, cos, -sin, offsets, interleaved)
    accuracy.assert_rounded(dx, exact, ulps=4)

    # rotary is linear in the tables: a pullback is a dot product with each unit.
    def pulled(which, index):
        unit = np.zeros((2, *cos.shape))
        unit[(which, *index)] = 1
        turned = oracle.rotary(x, *unit, offsets, interleaved)
        return (turned * oracle.f64(dy))[..., :16].sum()

    for which, actual in enumerate((dcos, dsin)):
        expected = [pulled(which, index) for index in np.ndindex(*cos.shape)]
        expected = np.reshape(expected, cos.shape)
        accuracy.assert_rounded(actual, expected, ulps=8)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_table_gradients_take_the_tables_dtype(implementation):
    x = normal(8, (1, 4, 2, 8), "bfloat16")
    cos, sin = (table.astype(jnp.bfloat16) for table in hk.rotary_tables(4, 8))

    def loss(cos, sin):
        return hk.rotary(x, cos, sin, implementation=implementation).sum()

    for grad in jax.jit(jax.grad(loss, (0, 1)))(cos, sin):
        assert grad.dtype == jnp.bfloat16 and np.all(np.isfinite(grad))


def test_second_derivatives():
    x = normal(9, (1, 3, 1, 4))
    cos, sin = hk.rotary_tables(3, 4)

    def loss(implementation):
        return lambda x: jnp.sum(
            hk.rotary(x, cos, sin, implementation=implementation) ** 3
        )

    def second(implementation):
        first = jax.grad(loss(implementation))
        return jax.jit(jax.grad(lambda x: jnp.sum(first(x) ** 2)))(x)

    np.testing.assert_allclose(second("hk"), second("xla"), rtol=1e-4, atol=1e-4)


def test_jit_equals_eager_and_runs_repeat():
    x = normal(10, (2, 33, 4, 48), "bfloat16")
    cos, sin = hk.rotary_tables(33, 32)

    def run(x, cos, sin):
        y, pullback = jax.vjp(
            lambda *args: hk.rotary(*args, implementation="hk"), x, cos, sin
        )
        return y, pullback(y)[0]

    eager = run(x, cos, sin)
    for other in (jax.jit(run)(x, cos, sin), run(x, cos, sin)):
        bits.assert_same_bits(eager, other)


def test_threads_do_not_change_a_bit():
    module = "tests.jax_hipkittens.ops.rotary.threads"
    one, two = (bits.main_in_process(module, threads) for threads in (1, 2))
    assert one == two


def test_kernel_is_in_the_program():
    x = normal(11, (1, 4, 2, 8))
    cos, sin = hk.rotary_tables(4, 8)

    def loss(x):
        return hk.rotary(x, cos, sin, implementation="hk").sum()

    text = jax.jit(jax.value_and_grad(loss)).lower(x).as_text()
    assert text.count("@jax_hipkittens_rotary") == 2


def test_x_is_kept_only_for_table_gradients():
    x = normal(12, (1, 4, 2, 8))
    cos, sin = hk.rotary_tables(4, 8)

    def saved(argument):
        def loss(value):
            operands = [x, cos, sin]
            operands[argument] = value
            return hk.rotary(*operands, implementation="hk")

        _, pullback = jax.vjp(loss, [x, cos, sin][argument])
        return [leaf.shape for leaf in jax.tree.leaves(pullback)]

    assert x.shape not in saved(0)
    assert x.shape in saved(1)


@settings(max_examples=20)
@given(
    length=st.integers(1, 40),
    heads=st.integers(1, 5),
    pairs=st.integers(1, 40),
    rest=st.integers(0, 30),
    offset=st.integers(0, 1000),
    interleaved=st.booleans(),
    implementation=st.sampled_from(IMPLEMENTATIONS),
)
def test_turns_keep_lengths_and_can_be_undone(
    length, heads, pairs, rest, offset, interleaved, implementation
):
    x = normal(length, (1, length, heads, 2 * pairs + rest))
    cos, sin = hk.rotary_tables(offset + length, 2 * pairs)

    @jax.jit
    def turn(x, sin):
        return hk.rotary(
            x,
            cos,
            sin,
            offset=offset,
            interleaved=interleaved,
            implementation=implementation,
        )

    y = turn(x, sin)
    np.testing.assert_allclose(
        np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-5
    )
    np.testing.assert_allclose(turn(y, -sin), x, rtol=0, atol=2e-6 * np.abs(x).max())
