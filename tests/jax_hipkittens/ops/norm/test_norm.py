"""Values, gradients and transformations of layer_norm and rms_norm."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jax_hipkittens as hk
from jax_hipkittens.ops.norm.vjp import RESIDUAL_NAME
from tests.jax_hipkittens import accuracy, bits
from tests.jax_hipkittens.ops.norm import oracle

OPS = {"layer": hk.layer_norm, "rms": hk.rms_norm}
IMPLEMENTATIONS = ["hk", "xla"]
KINDS = sorted(OPS)
DTYPES = ["bfloat16", "float16", "float32"]
# H around and off the widths of vectors, one element, and a model's.
SHAPES = [(1, 1), (3, 7), (5, 64), (17, 100), (2, 768), (3, 4099)]
VALUE_CASES = [(dtype, shape) for dtype in ("bfloat16", "float32") for shape in SHAPES]
VALUE_CASES += [("float16", (17, 100)), ("float16", (2, 768))]


def draw(seed, *shapes, dtype="float32"):
    rng = np.random.default_rng(seed)
    return [jnp.asarray(rng.standard_normal(s, np.float32), dtype) for s in shapes]


def f64(array):
    return np.asarray(array, np.float64)


def value_and_gradients(kind, implementation, x, residual, weight, bias, dy, dh):
    def op(x, residual, weight, bias):
        return OPS[kind](
            x, weight, bias, residual=residual, implementation=implementation
        )

    values, pullback = jax.vjp(op, x, residual, weight, bias)
    return values, pullback((dy, dh))


def assert_right(kind, dtype, shape):
    """Values and all gradients, of HK and of XLA, against float64."""
    x, residual, dy, dh = draw(0, *[shape] * 4, dtype=dtype)
    weight, bias = draw(1, shape[1:], shape[1:])
    args = (x, residual, weight, bias, dy, dh)
    run = jax.jit(value_and_gradients, static_argnums=(0, 1))
    (y, h), grads = run(kind, "hk", *args)
    (xla_y, xla_h), xla_grads = run(kind, "xla", *args)

    np.testing.assert_array_equal(h, (f64(x) + f64(residual)).astype(h.dtype))
    np.testing.assert_array_equal(h, xla_h)
    exact = oracle.forward(f64(h), f64(weight), f64(bias), kind)
    accuracy.assert_as_accurate(y, xla_y, exact)
    accuracy.assert_rounded(xla_y, exact, ulps=1, noise=1e-5)
    exact_grads = oracle.backward(f64(h), f64(weight), f64(dy), f64(dh), kind)
    # Where var(h) is 0, gradients are differences of large values times 1/sqrt(eps).
    noise = 1e-3 if shape[1] == 1 else 1e-5
    for grad, xla_grad, exact in zip(grads, xla_grads, exact_grads, strict=True):
        accuracy.assert_as_accurate(grad, xla_grad, exact, noise=noise)
        accuracy.assert_rounded(xla_grad, exact, ulps=2, noise=noise)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype, shape", VALUE_CASES)
def test_values_and_gradients(kind, dtype, shape):
    assert_right(kind, dtype, shape)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_weight", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_without_weight_or_bias(implementation, kind, with_weight, with_bias):
    x, dy = draw(2, (4, 5, 33), (4, 5, 33))
    weight, bias = draw(3, (33,), (33,))
    params = {"weight": weight} if with_weight else {}
    params |= {"bias": bias} if with_bias else {}

    def op(x, params):
        return OPS[kind](x, **params, implementation=implementation)

    y, pullback = jax.vjp(op, x, params)
    dx, dparams = pullback(dy)
    rows = (-1, 33)
    w = f64(params.get("weight", np.ones(33)))
    exact = oracle.forward(f64(x).reshape(rows), w, f64(params.get("bias", 0)), kind)
    accuracy.assert_rounded(y.reshape(rows), exact, ulps=4)
    grads = oracle.backward(f64(x).reshape(rows), w, f64(dy).reshape(rows), 0, kind)
    accuracy.assert_rounded(dx.reshape(rows), grads.dx, ulps=8)
    if with_weight:
        accuracy.assert_rounded(dparams["weight"], grads.dweight, ulps=8)
    if with_bias:
        accuracy.assert_rounded(dparams["bias"], grads.dbias, ulps=8)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_weight_gradients_take_the_weights_dtype(implementation):
    x = draw(4, (8, 16), dtype="bfloat16")[0]
    weight, bias = jnp.ones(16, jnp.float16), jnp.zeros(16, jnp.bfloat16)

    def loss(weight, bias):
        y = hk.layer_norm(x, weight, bias, implementation=implementation)
        return jnp.sum(y.astype(jnp.float32) ** 2)

    dweight, dbias = jax.grad(loss, (0, 1))(weight, bias)
    assert dweight.dtype == jnp.float16 and dbias.dtype == jnp.bfloat16
    assert np.all(f64(dweight) > 0)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_weight_gradients_accumulate_in_f32(implementation):
    # 20000 bf16 ones: a bf16 sum would stop at 256.
    x = draw(5, (20000, 8), dtype="bfloat16")[0]

    def total(bias):
        y = hk.layer_norm(x, None, bias, implementation=implementation)
        return jnp.sum(y.astype(jnp.float32))

    np.testing.assert_array_equal(jax.grad(total)(jnp.zeros(8)), np.full(8, 20000.0))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_large_common_offset(implementation):
    x = (4096 + np.arange(64) * 1e-3).astype(np.float32)[None]
    y = hk.layer_norm(x, epsilon=0.0, implementation=implementation)
    # The mean is an f32, so it may be off by a unit in the last place or two. The
    # one-pass variance E[x^2] - E[x]^2 is off by 2 here.
    noise = 2 * np.spacing(np.float32(4096)) / f64(x).std()
    exact = oracle.forward(f64(x), 1, 0, "layer", epsilon=0.0)
    accuracy.assert_rounded(y, exact, ulps=4, noise=noise)
    assert noise < 0.06


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("offset", [0.0, 1.0, -3000.0])
def test_constant_row_with_noise(implementation, offset):
    noise = draw(6, (4, 256))[0] * 1e-6
    x = jnp.float32(offset) + noise
    dy = draw(7, x.shape)[0]

    def op(x):
        return hk.layer_norm(x, implementation=implementation)

    y, pullback = jax.vjp(op, x)
    exact = oracle.forward(f64(x), 1, 0, "layer")
    # The mean is rounded to f32, which 1/sqrt(epsilon) = 1000 magnifies.
    magnified = 1000 * float(np.spacing(np.float32(abs(offset))))
    accuracy.assert_rounded(y, exact, ulps=8, noise=magnified)
    (dx,) = pullback(dy)
    exact_dx = oracle.backward(f64(x), 1, f64(dy), 0, "layer").dx
    accuracy.assert_rounded(dx, exact_dx, ulps=8, noise=1000 * magnified)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_zero_cotangent_gives_zero_gradients(implementation, kind):
    shape = (6, 40)
    x, residual = draw(8, shape, shape)
    weight, bias = draw(9, shape[1:], shape[1:])
    zero = jnp.zeros(shape)
    _, grads = value_and_gradients(
        kind, implementation, x, residual, weight, bias, zero, zero
    )
    for grad in grads:
        np.testing.assert_array_equal(grad, np.zeros(grad.shape))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_rows(implementation, kind):
    x = jnp.zeros((0, 3, 16), jnp.bfloat16)

    def op(x, weight):
        return OPS[kind](x, weight, implementation=implementation)

    y, pullback = jax.vjp(op, x, jnp.ones(16))
    assert y.shape == x.shape and y.dtype == x.dtype
    dx, dweight = pullback(y)
    assert dx.shape == x.shape
    np.testing.assert_array_equal(dweight, np.zeros(16))


def test_no_elements_fall_back():
    assert hk.layer_norm(jnp.zeros((3, 0)), implementation="xla").shape == (3, 0)
    with pytest.raises(NotImplementedError, match="1 element or more"):
        hk.layer_norm(jnp.zeros((3, 0)), implementation="hk")


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_one_row_without_leading_axes(implementation):
    x = draw(10, (48,))[0]
    y = hk.rms_norm(x, implementation=implementation)
    accuracy.assert_rounded(y, oracle.forward(f64(x), 1, 0, "rms"), ulps=4)


@pytest.mark.parametrize("kind", KINDS)
def test_jit_equals_eager_and_runs_repeat(kind):
    shape = (300, 130)
    args = [*draw(11, shape, shape), *draw(12, shape[1:], shape[1:])]
    args += draw(13, shape, shape)
    eager = value_and_gradients(kind, "hk", *args)
    jitted = jax.jit(value_and_gradients, static_argnums=(0, 1))
    for other in (jitted(kind, "hk", *args), value_and_gradients(kind, "hk", *args)):
        bits.assert_same_bits(eager, other)


def test_threads_do_not_change_a_bit():
    module = "tests.jax_hipkittens.ops.norm.threads"
    one, two = (bits.main_in_process(module, threads) for threads in (1, 2))
    assert one == two


def lowered(function, *args):
    return jax.jit(function).lower(*args).as_text()


def test_kernels_are_in_the_program():
    x = jnp.ones((4, 8))

    def loss(x):
        return hk.layer_norm(x, implementation="hk").sum()

    assert "jax_hipkittens_norm_forward" in lowered(loss, x)
    assert "jax_hipkittens_norm_backward" in lowered(jax.grad(loss), x)


def test_checkpoint_policy_saves_the_residuals():
    x = jnp.ones((4, 8))

    def loss(x, policy):
        def block(x):
            return hk.layer_norm(x, implementation="hk")

        return jax.checkpoint(block, policy=policy)(x).sum()

    policies = jax.checkpoint_policies
    saving = policies.save_only_these_names(RESIDUAL_NAME)
    for policy, runs in ((saving, 1), (policies.nothing_saveable, 2)):
        text = lowered(jax.value_and_grad(lambda x, p=policy: loss(x, p)), x)
        assert text.count("@jax_hipkittens_norm_forward") == runs


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_scan_and_checkpoint(implementation):
    x = draw(14, (6, 32))[0]
    weights = 1 + 0.1 * draw(15, (3, 32))[0]

    def layer(r, weight):
        y, r = hk.rms_norm(r, weight, residual=r, implementation=implementation)
        return r + jnp.tanh(y), None

    def scanned(weights):
        return jax.lax.scan(jax.checkpoint(layer), x, weights)[0].sum()

    def unrolled(weights):
        r = x
        for weight in weights:
            r, _ = layer(r, weight)
        return r.sum()

    actual, expected = jax.grad(scanned)(weights), jax.grad(unrolled)(weights)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@settings(max_examples=20)
@given(
    kind=st.sampled_from(KINDS),
    dtype=st.sampled_from(DTYPES),
    rows=st.integers(1, 9),
    hidden=st.integers(2, 300),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_of_any_size(kind, dtype, rows, hidden, scale, seed):
    x = (draw(seed, (rows, hidden))[0] * scale).astype(dtype)
    exact = oracle.forward(f64(x), 1, 0, kind)
    y = {
        i: jax.jit(functools.partial(OPS[kind], implementation=i))(x)
        for i in IMPLEMENTATIONS
    }
    accuracy.assert_as_accurate(y["hk"], y["xla"], exact, noise=1e-5)
    accuracy.assert_rounded(y["xla"], exact, ulps=1, noise=1e-5)
