"""Wrong calls of the norms: what the errors say."""

import jax
import jax.numpy as jnp
import pytest

import jax_hipkittens as hk

X = jnp.ones((3, 8))
MISTAKES = [
    (dict(x=jnp.ones((3, 8), jnp.int32)), "x of a floating-point dtype.*int32"),
    (dict(x=jnp.float32(1)), r"x of shape \[\.\.\., H\].*float32\[\]"),
    (dict(weight=jnp.ones(7)), r"weight of shape \[H\] = \(8,\).*float32\[7\]"),
    (dict(weight=jnp.ones((3, 8))), r"weight of shape \[H\] = \(8,\)"),
    (dict(weight=jnp.ones(8, int)), "weight of a floating-point dtype"),
    (dict(bias=jnp.ones(9)), r"bias of shape \[H\] = \(8,\).*float32\[9\]"),
    (dict(residual=jnp.ones((1, 8))), r"residual of shape.*\(3, 8\).*\[1,8\]"),
    (dict(residual=X.astype(jnp.bfloat16)), "one dtype.*float32.*bfloat16"),
    (dict(epsilon=-1e-6), "epsilon of 0 or more.*-1e-06"),
    (dict(epsilon=float("nan")), "epsilon of 0 or more.*nan"),
    (dict(dropout_rate=0.1), r"dropout_key with dropout_rate=0\.1.*None"),
    (dict(dropout_rate=1.5, dropout_key=0), r"dropout_rate in \[0, 1\].*1\.5"),
    (dict(dropout_rate=-0.1), r"dropout_rate in \[0, 1\].*-0\.1"),
    (dict(dropout_rate=0.1, dropout_key=1.0), "dropout_key to be one JAX random key"),
    (
        dict(dropout_rate=0.1, dropout_key=jax.random.split(jax.random.key(0))),
        "dropout_key to be one JAX random key",
    ),
    (dict(dropout_rate=0.1, dropout_key="key"), "dropout_key to be one JAX random key"),
    (dict(implementation="cuda"), "implementation to be one of 'hk', 'xla'.*'cuda'"),
]


@pytest.mark.parametrize("op", [hk.layer_norm, hk.rms_norm])
@pytest.mark.parametrize("arguments, sentence", MISTAKES)
def test_mistakes(op, arguments, sentence):
    with pytest.raises(
        ValueError, match=f"^{op.__name__}: expected (?=.*; ){sentence}"
    ):
        op(**{"x": X, **arguments})


def test_a_rate_below_the_smallest_float_drops_nothing():
    key = jax.random.key(0)
    y = hk.rms_norm(X, dropout_rate=1e-60, dropout_key=key, implementation="hk")
    assert (y == hk.rms_norm(X, implementation="hk")).all()


def test_numbers_must_be_known_at_trace_time():
    with pytest.raises(ValueError, match="epsilon to be a number known at trace time"):
        jax.jit(lambda epsilon: hk.layer_norm(X, epsilon=epsilon))(1e-6)


def test_hk_names_its_limit():
    x = jnp.ones((2, 8), jnp.float8_e4m3fn)
    with pytest.raises(NotImplementedError, match="^rms_norm: .*float8_e4m3fn"):
        hk.rms_norm(x, implementation="hk")
