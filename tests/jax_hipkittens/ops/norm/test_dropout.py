"""Dropout fused into the norms: masks, keys, scaling and gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from tests.jax_hipkittens import accuracy
from tests.jax_hipkittens.ops.norm import oracle

IMPLEMENTATIONS = ["hk", "xla"]
SHAPES = [(1, 1), (3, 5), (7, 64), (33, 130)]


def dropped(x, rate, key, implementation):
    """dropout(x), as the residual that a norm returns for a residual of zeros."""

    @jax.jit
    def run(x, key):
        return hk.layer_norm(
            x,
            residual=jnp.zeros_like(x),
            dropout_rate=rate,
            dropout_key=key,
            implementation=implementation,
        )[1]

    return run(x, key)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.75])
def test_mask_is_the_oracles(implementation, shape, rate):
    key = jax.random.key(7)
    seed = [int(word) for word in jax.random.bits(key, (2,), jnp.uint32)]
    h = dropped(jnp.ones(shape), rate, key, implementation)
    np.testing.assert_array_equal(h != 0, oracle.keep_mask(seed, rate, shape))
    kept = 1 / (1 - np.float32(rate))
    np.testing.assert_allclose(np.unique(h[h != 0]), [kept][: h[h != 0].size])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_implementations_agree_bitwise(dtype):
    x = jax.random.normal(jax.random.key(1), (4, 9, 50), dtype)
    results = [dropped(x, 0.3, jax.random.key(2), i) for i in IMPLEMENTATIONS]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_both_key_styles(implementation):
    x = jnp.ones((8, 32))
    typed = dropped(x, 0.5, jax.random.key(3), implementation)
    raw = dropped(x, 0.5, jax.random.PRNGKey(3), implementation)
    other = dropped(x, 0.5, jax.random.key(4), implementation)
    np.testing.assert_array_equal(typed, raw)
    assert np.any(typed != other)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_gradients(implementation, kind):
    op = hk.layer_norm if kind == "layer" else hk.rms_norm
    shape, rate, key = (12, 40), 0.25, jax.random.key(6)
    x, r, dy, dh = jax.random.normal(jax.random.key(8), (4, *shape))
    weight, bias = jax.random.normal(jax.random.key(9), (2, shape[1]))

    def run(x, r, weight, bias):
        return op(
            x,
            weight,
            bias,
            residual=r,
            dropout_rate=rate,
            dropout_key=key,
            implementation=implementation,
        )

    @jax.jit
    def value_and_gradients(*args):
        values, pullback = jax.vjp(run, *args)
        return values, pullback((dy, dh))

    (y, h), grads = value_and_gradients(x, r, weight, bias)
    seed = [int(word) for word in jax.random.bits(key, (2,), jnp.uint32)]
    scale = oracle.keep_mask(seed, rate, shape) / (1 - rate)
    h64 = oracle.f64(r) + oracle.f64(x) * scale
    accuracy.assert_rounded(h, h64, ulps=2)
    w64 = oracle.f64(weight)
    accuracy.assert_rounded(y, oracle.forward(h64, w64, oracle.f64(bias), kind), 8)
    exact = oracle.backward(h64, w64, oracle.f64(dy), oracle.f64(dh), kind, scale=scale)
    for grad, exact_grad in zip(grads, exact, strict=True):
        accuracy.assert_rounded(grad, exact_grad, ulps=16)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_without_a_residual(implementation):
    x = jax.random.normal(jax.random.key(10), (6, 64))
    key = jax.random.key(11)

    def run(x, **residual):
        return hk.rms_norm(
            x,
            dropout_rate=0.4,
            dropout_key=key,
            implementation=implementation,
            **residual,
        )

    y, pullback = jax.vjp(run, x)
    expected, pullback_both = jax.vjp(
        lambda x: run(x, residual=jnp.zeros_like(x))[0], x
    )
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(pullback(y)[0], pullback_both(y)[0])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_a_rate_of_one_drops_everything(implementation):
    x, r = jax.random.normal(jax.random.key(12), (2, 6, 64))

    def run(x, r):
        return hk.layer_norm(
            x,
            residual=r,
            dropout_rate=1.0,
            dropout_key=jax.random.key(0),
            implementation=implementation,
        )

    (_, h), pullback = jax.vjp(run, x, r)
    np.testing.assert_array_equal(h, r)
    dx, dr = pullback((x, r))
    np.testing.assert_array_equal(dx, np.zeros(x.shape))
    assert np.all(np.isfinite(dr)) and np.any(dr != 0)


def test_a_rate_of_zero_needs_no_key():
    x = jax.random.normal(jax.random.key(13), (2, 16))
    np.testing.assert_array_equal(
        hk.layer_norm(x, dropout_rate=0.0, implementation="xla"),
        hk.layer_norm(x, implementation="xla"),
    )
