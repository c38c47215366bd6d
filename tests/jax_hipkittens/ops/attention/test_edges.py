"""Attention where sizes, lengths, logits or cotangents are at their edges."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.attention import cases
from tests.jax_hipkittens.ops.attention.cases import Case
from tests.jax_hipkittens.ops.attention.test_values import assert_right

IMPLEMENTATIONS = ["hk", "xla"]
DTYPES = ["bfloat16", "float16", "float32"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_logits_that_jump_in_mid_sequence(dtype):
    """A later block of keys takes over the running maximum by 50."""
    case = Case(queries=40, keys=300, dim=64, options=dict(scale=1.0))
    inputs = cases.draw(case, dtype)
    axis = jnp.zeros((64,), dtype).at[0].set(1)
    jump = jnp.where(jnp.arange(300) < 150, 0, 50).astype(dtype)
    key = 0.1 * inputs.key + (jump[:, None] * axis[None, :])[None, :, None, :]
    query = 0.1 * inputs.query.at[..., 0].set(10)
    assert_right(case, inputs._replace(query=query, key=key.astype(dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_logits_all_equal(dtype, constant):
    case = Case(queries=70, keys=200, dim=16)
    inputs = cases.draw(case, dtype)
    assert_right(case, inputs._replace(query=jnp.full_like(inputs.query, constant)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_of_1e4(dtype):
    """Logits of 1e8, whose softmax is a single one, and outputs of 1e4."""
    case = Case(queries=33, keys=70, dim=16)
    inputs = cases.draw(case, dtype)
    large = [(x * 1e4).astype(dtype) for x in inputs[:3]]
    # Cotangents so small that no gradient overflows float16.
    inputs = cases.Inputs(*large, inputs.d_out / 100, inputs.d_lse / 100)
    results = {i: cases.run(case, i, inputs) for i in IMPLEMENTATIONS}
    exact = cases.exact(case, inputs)
    eps = float(jnp.finfo(dtype).eps)
    for out, lse, *gradients in results.values():
        np.testing.assert_allclose(out.astype(jnp.float32), exact.out, rtol=eps)
        np.testing.assert_allclose(lse, exact.lse, rtol=1e-6)
        assert all(bool(jnp.isfinite(g).all()) for g in gradients)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_key_gives_no_query_gradient(implementation, dtype):
    """With S = 1 every probability is one, whatever the query."""
    case = Case(batch=2, queries=37, keys=1, dim=48)
    inputs = cases.draw(case, dtype)._replace(d_lse=jnp.zeros(case.query_shape[:3]))
    out, _, d_query, _, _ = cases.run(case, implementation, inputs)
    expected = jnp.repeat(inputs.value, 2, axis=2)
    bits.assert_same_bits(out, jnp.broadcast_to(expected, out.shape))
    np.testing.assert_array_equal(d_query.astype(jnp.float32), 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_cotangents_give_zero_gradients(implementation, dtype):
    case = Case(queries=70, keys=90, options=dict(is_causal=True))
    inputs = cases.draw(case, dtype)
    zeros = inputs._replace(
        d_out=jnp.zeros_like(inputs.d_out), d_lse=jnp.zeros_like(inputs.d_lse)
    )
    for gradient in cases.run(case, implementation, zeros)[2:]:
        np.testing.assert_array_equal(gradient.astype(jnp.float32), 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("queries", "keys", "options", "rows"),
    [
        (10, 10, dict(query_seq_lengths=[7]), range(7, 10)),
        (10, 10, dict(key_value_seq_lengths=[0]), range(10)),
        (10, 4, dict(is_causal=True, causal_alignment="bottom_right"), range(6)),
        (10, 4, dict(local_window_size=(2, 1)), range(6, 10)),
    ],
)
def test_rows_that_see_no_key(implementation, queries, keys, options, rows):
    """They give zeros and zero gradients, and an LSE of minus infinity."""
    case = Case(queries=queries, keys=keys, options=options)
    inputs = cases.draw(case, "bfloat16")
    results = cases.run(case, implementation, inputs)
    out, lse, d_query, d_key, d_value = results
    rows = np.array(rows)
    others = np.setdiff1d(np.arange(queries), rows)
    np.testing.assert_array_equal(out[:, rows].astype(jnp.float32), 0)
    np.testing.assert_array_equal(d_query[:, rows].astype(jnp.float32), 0)
    np.testing.assert_array_equal(lse[:, rows], -np.inf)
    assert bool(jnp.isfinite(lse[:, others]).all())
    # Such rows add nothing to the other gradients, whatever their cotangents.
    loud = inputs._replace(d_out=inputs.d_out.at[:, rows].set(1e4))
    again = cases.run(case, implementation, loud)
    bits.assert_same_bits(again[3:], (d_key, d_value))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "sizes", [dict(batch=0), dict(queries=0), dict(keys=0), dict(queries=0, keys=0)]
)
def test_empty_arrays(implementation, sizes):
    case = Case(**{**dict(batch=2, queries=3, keys=5), **sizes})
    inputs = cases.draw(case, "bfloat16")
    bits.poison_heap(inputs.query, inputs.key)
    results = cases.run(case, implementation, inputs)
    for name, result, shape in zip(
        ("out", "lse", "d_query", "d_key", "d_value"),
        results,
        (case.query_shape, case.query_shape[:3], case.query_shape)
        + (case.key_shape,) * 2,
        strict=True,
    ):
        assert result.shape == shape
        expected = -np.inf if name == "lse" else 0
        np.testing.assert_array_equal(result.astype(jnp.float32), expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_without_batch(implementation):
    inputs = cases.draw(Case(queries=9, keys=11), "float32")[:3]
    options = dict(is_causal=True, return_residual=True, implementation=implementation)
    batched = hk.attention(*inputs, **options)
    single = hk.attention(*(x[0] for x in inputs), **options)
    assert single[0].shape == (9, 4, 32) and single[1].shape == (9, 4)
    bits.assert_same_bits(single, [x[0] for x in batched])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_lengths_beyond_the_sequences_are_clipped(implementation):
    inputs = cases.draw(Case(queries=9, keys=11), "float32")[:3]
    run = jax.jit(
        lambda t, s: hk.attention(
            *inputs,
            query_seq_lengths=t,
            key_value_seq_lengths=s,
            is_causal=True,
            causal_alignment="bottom_right",
            implementation=implementation,
        )
    )
    whole = run(jnp.array([9], jnp.int32), jnp.array([11], jnp.int32))
    bits.assert_same_bits(
        run(jnp.array([1000], jnp.int32), jnp.array([2**31 - 1], jnp.int32)), whole
    )
    negative = run(jnp.array([-5], jnp.int32), jnp.array([11], jnp.int32))
    np.testing.assert_array_equal(negative, 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_arguments_that_are_not_jax_arrays(implementation):
    inputs = cases.draw(Case(batch=2, queries=9, keys=11), "float32")[:3]
    arrays = [np.asarray(x) for x in inputs]
    out = hk.attention(
        *arrays,
        scale=np.float64(0.25),
        local_window_size=3,
        query_seq_lengths=[4, 9],
        key_value_seq_lengths=(11, 2),
        implementation=implementation,
    )
    expected = hk.attention(
        *inputs,
        scale=0.25,
        local_window_size=(3, 3),
        query_seq_lengths=jnp.array([4, 9], jnp.int32),
        key_value_seq_lengths=jnp.array([11, 2], jnp.int32),
        implementation=implementation,
    )
    bits.assert_same_bits(out, expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_window_wider_than_32_bits_is_no_window(implementation):
    inputs = cases.draw(Case(queries=9, keys=11), "float32")[:3]
    wide = hk.attention(
        *inputs, local_window_size=(2**40, 2**62), implementation=implementation
    )
    np.testing.assert_allclose(
        wide, hk.attention(*inputs, implementation=implementation), atol=1e-6
    )


def test_agrees_with_jax_nn():
    """Where every row sees a key, in the dtype that jax.nn has on every CPU."""
    case = Case(batch=2, queries=12, keys=10)
    query, key, value = cases.draw(case, "float32")[:3]
    rng = np.random.default_rng(1)
    mask = jnp.asarray(rng.random((2, 1, 12, 10)) < 0.7).at[..., 0].set(True)
    bias = jnp.asarray(rng.standard_normal((1, 4, 12, 10)), jnp.float32)
    for options in (
        {},
        dict(is_causal=True),
        dict(local_window_size=(11, 1), scale=0.3),
        dict(mask=mask),
        dict(mask=mask[0, 0]),
        dict(bias=bias),
        dict(mask=mask, bias=bias, is_causal=True),
        dict(
            query_seq_lengths=jnp.array([4, 12], jnp.int32),
            key_value_seq_lengths=jnp.array([10, 3], jnp.int32),
        ),
    ):
        actual = hk.attention(query, key, value, implementation="xla", **options)
        expected = jax.nn.dot_product_attention(query, key, value, **options)
        np.testing.assert_allclose(actual, expected, atol=1e-6, err_msg=str(options))


def test_masked_rows_of_the_reference_give_zeros():
    """Boolean masks and biases of minus infinity hide whole rows too."""
    inputs = cases.draw(Case(queries=3, keys=5), "float32")[:3]
    mask = jnp.ones((1, 1, 3, 5), bool).at[:, :, 1].set(False)
    bias = jnp.where(mask, 0.0, -jnp.inf)
    for options in (dict(mask=mask), dict(bias=bias)):

        def op(*inputs, options=options):
            return hk.attention(
                *inputs, **options, implementation="xla", return_residual=True
            )

        (out, lse), pullback = jax.vjp(op, *inputs)
        gradients = pullback((jnp.ones_like(out), jnp.zeros_like(lse)))
        np.testing.assert_array_equal(out[:, 1], 0)
        np.testing.assert_array_equal(lse[:, 1], -np.inf)
        np.testing.assert_array_equal(gradients[0][:, 1], 0)
        assert all(bool(jnp.isfinite(g).all()) for g in gradients)
