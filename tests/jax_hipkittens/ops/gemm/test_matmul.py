"""Values and gradients of matmul against float64, with every epilogue."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jax_hipkittens as hk
from tests.jax_hipkittens import accuracy, bits
from tests.jax_hipkittens.ops.gemm import oracle
from tests.jax_hipkittens.ops.gemm.cases import draw

DTYPES = ["bfloat16", "float16", "float32"]
IMPLEMENTATIONS = ["hk", "xla"]
ACTIVATIONS = [None, "gelu", "gelu_exact", "silu"]
NAMES = "c", "d_a", "d_b", "d_bias"

# a, b: one element, edges of tiles, long K, then the kinds of batches.
SHAPES = [
    ((1, 1), (1, 1)),
    ((1, 300), (300, 1)),
    ((2, 63), (63, 65)),
    ((64, 64), (64, 64)),
    ((65, 127), (127, 33)),
    ((130, 70), (70, 257)),
    ((3, 2000), (2000, 5)),
    ((5, 7, 16), (16, 24)),
    ((2, 3, 5, 16), (16, 24)),
    ((3, 5, 16), (3, 16, 24)),
    ((5, 16), (3, 16, 24)),
    ((2, 1, 5, 16), (1, 3, 16, 24)),
    ((3, 5, 16), (1, 16, 24)),
    ((1, 5, 16), (4, 16, 24)),
]


def run(implementation, a, b, bias, d_c, activation, dtype):
    """(c, d_a, d_b, d_bias), compiled; d_bias only with a bias."""

    @jax.jit
    def value_and_gradients(operands, d_c):
        def op(a, b, bias=None):
            return hk.matmul(
                *(a, b),
                bias=bias,
                activation=activation,
                preferred_element_type=dtype,
                implementation=implementation,
            )

        c, pullback = jax.vjp(op, *operands)
        return c, *pullback(d_c)

    operands = (a, b) if bias is None else (a, b, bias)
    return value_and_gradients(operands, d_c)


def assert_right(a, b, bias=None, activation=None, dtype=None):
    """HK and XLA are both right against float64, HK within its bound."""
    shape = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (d_c,) = draw(9, dtype or a.dtype, (*shape, a.shape[-2], b.shape[-1]))
    bits.poison_heap(a, b, d_c)
    arguments = a, b, bias, d_c, activation, dtype
    results = zip(
        NAMES,
        run("hk", *arguments),
        run("xla", *arguments),
        oracle.matmul(a, b, bias, activation, d_c),
        strict=False,
    )
    # The cotangent of the pre-activation is rounded before it is multiplied.
    eps = float(jnp.finfo(d_c.dtype).eps) if activation else 1e-6
    for name, actual, xla, exact in results:
        noise = eps * np.sqrt(max(a.shape[-1], d_c.size)) / 4
        assert_close(name, actual, xla, exact, noise)


def assert_close(name, actual, xla, exact, noise):
    # The yardstick itself: some bf16 products of XLA in JAX 0.12 are three units in the
    # last place off, where those of 0.10 are half a unit.
    try:
        accuracy.assert_rounded(xla, exact, ulps=4, noise=2 * noise)
    except AssertionError as error:
        raise AssertionError(f"XLA's {name}: {error}") from error
    try:
        accuracy.assert_as_accurate(actual, xla, exact, noise=noise)
    except AssertionError as error:
        raise AssertionError(f"HK's {name}: {error}") from error


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [(shapes, DTYPES[i % 3]) for i, shapes in enumerate(SHAPES)]
    + [(((70, 90), (90, 50)), dtype) for dtype in DTYPES],
    ids=str,
)
def test_values_and_gradients(shapes, dtype):
    assert_right(*draw(0, dtype, *shapes))


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_epilogues(activation, dtype):
    a, b = draw(1, dtype, (2, 37, 48), (48, 70))
    for bias_dtype in (None, dtype, "float32"):
        bias = None if bias_dtype is None else draw(2, bias_dtype, (70,))[0]
        assert_right(a, (b / 7).astype(dtype), bias, activation)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("result", DTYPES)
@pytest.mark.parametrize("activation", [None, "silu"])
def test_preferred_element_type(dtype, result, activation):
    """Results have the dtype asked for, gradients that of their operands."""
    a, b = draw(3, dtype, (33, 64), (64, 40))
    (bias,) = draw(4, "float32", (40,))
    assert_right(a, (b / 8).astype(dtype), bias, activation, jnp.dtype(result))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_activations_of_large_values(implementation):
    """They neither overflow nor turn to NaN, and neither do their slopes."""
    # The slope of jax.nn.gelu is NaN where the cube of z overflows.
    most = 1e30 if implementation == "hk" else 1e4
    z = jnp.array([[-most, -1e4, -100.0, -20.0, 0.0, 20.0, 100.0, 1e4, most]])
    for activation in ACTIVATIONS[1:]:

        def op(z, activation=activation):
            return hk.matmul(
                jnp.ones((1, 1)),
                z,
                activation=activation,
                implementation=implementation,
            )

        c, pullback = jax.vjp(op, z)
        np.testing.assert_allclose(c, jnp.maximum(z, 0), atol=1e-6)
        (slope,) = pullback(jnp.ones_like(c))
        np.testing.assert_allclose(slope, (jnp.sign(z) + 1) / 2, atol=1e-6)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("shapes", [((5,), (5,)), ((5,), (2, 5, 3)), ((2, 4, 5), (5,))])
def test_vectors(implementation, shapes):
    a, b = draw(5, "float32", *shapes)

    def gradients(op):
        return jax.vjp(op, a, b)[1](jnp.ones(jnp.matmul(a, b).shape))

    def op(a, b):
        return hk.matmul(a, b, implementation=implementation)

    np.testing.assert_allclose(op(a, b), jnp.matmul(a, b), rtol=1e-5, atol=1e-6)
    with jax.numpy_rank_promotion("allow"):
        expected = gradients(jnp.matmul)
    for x, y in zip(gradients(op), expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    "shapes",
    [
        ((0, 4), (4, 3)),
        ((2, 0), (0, 3)),
        ((2, 4), (4, 0)),
        ((0, 2, 4), (4, 3)),
        ((0, 2, 4), (0, 4, 3)),
        ((2, 0, 4), (2, 4, 3)),
        ((3, 2, 0), (0, 3)),
    ],
)
def test_empty_operands(implementation, shapes):
    """No product is zero, and so is every gradient but the bias's."""
    a, b = draw(6, "float32", *shapes)
    bias = jnp.arange(b.shape[-1], dtype=jnp.float32)
    shape = jnp.matmul(a, b).shape
    bits.poison_heap(a, b, np.empty(shape, np.float32))
    c, d_a, d_b, d_bias = run(implementation, a, b, bias, jnp.ones(shape), None, None)
    np.testing.assert_array_equal(c, np.broadcast_to(bias, shape))
    np.testing.assert_array_equal(d_a, np.zeros(a.shape))
    np.testing.assert_array_equal(d_b, np.zeros(b.shape))
    rows = np.prod(shape[:-1])
    np.testing.assert_array_equal(d_bias, np.full(bias.shape, rows))


@settings(max_examples=12)
@given(data=st.data())
def test_any_small_product_is_right(data):
    sizes = st.integers(1, 70)
    m, k, n = (data.draw(sizes) for _ in "mkn")
    batch = data.draw(st.lists(st.integers(1, 3), max_size=2))

    def side():
        kept = batch[data.draw(st.integers(0, len(batch))) :]
        return tuple(1 if data.draw(st.booleans()) else size for size in kept)

    dtype = data.draw(st.sampled_from(DTYPES))
    a, b = draw(7, dtype, (*side(), m, k), (*side(), k, n))
    bias = draw(8, dtype, (n,))[0] if data.draw(st.booleans()) else None
    activation = data.draw(st.sampled_from(ACTIVATIONS))
    assert_right(a, (b / 8).astype(dtype), bias, activation)


@pytest.mark.parametrize("implementation", ["hk", "xla"])
def test_a_wide_bias_sums_the_activation_cotangent_unrounded(implementation):
    """Pre-activations are exact in bfloat16 here; their cotangents are not."""
    a = (jnp.arange(-32, 32) / 8).astype(jnp.bfloat16)[:, None]
    b = jnp.ones((1, 8), jnp.bfloat16)

    def total(bias):
        c = hk.matmul(a, b, bias=bias, activation="silu", implementation=implementation)
        return c.astype(jnp.float32).sum()

    z = np.arange(-32, 32) / 8
    sigmoid = 1 / (1 + np.exp(-z))
    expected = np.sum(sigmoid * (1 + z * (1 - sigmoid)))
    actual = jax.grad(total)(jnp.zeros(8, jnp.float32))
    np.testing.assert_allclose(actual, np.full(8, expected), rtol=64 * 2**-24)
