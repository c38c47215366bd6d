import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk


@pytest.mark.parametrize("base", [10000.0, 500000])
def test_angles(base):
    cos, sin = hk.rotary_tables(100, 64, base=base)
    frequencies = np.float64(base) ** (-np.arange(0, 64, 2) / 64)
    angles = np.arange(100)[:, None] * frequencies
    assert cos.shape == sin.shape == (100, 32)
    assert cos.dtype == sin.dtype == jnp.float32
    # An f32 angle of up to 100 is off by half its unit in the last place, 4e-6.
    np.testing.assert_allclose(cos, np.cos(angles), rtol=0, atol=8e-6)
    np.testing.assert_allclose(sin, np.sin(angles), rtol=0, atol=8e-6)


def test_late_positions():
    cos, _ = hk.rotary_tables(jnp.array([131071]), 4, base=10000.0)
    # f32 angles: 131071 and 1310.71, whose half unit in the last place is 6e-5.
    np.testing.assert_allclose(
        cos[0], [np.cos(131071.0), np.cos(1310.71)], rtol=0, atol=1.3e-4
    )


def test_positions():
    cos, sin = hk.rotary_tables(12, 8)
    positions = jnp.array([[3, 0, 11], [1, 1, 2]])
    picked = hk.rotary_tables(positions, 8)
    np.testing.assert_allclose(picked[0], cos[positions], rtol=0, atol=1e-6)
    np.testing.assert_allclose(picked[1], sin[positions], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "positions, dim, base, sentence",
    [
        (4, 7, 1e4, "an even rotary_dim above 0, but received 7"),
        (4, 0, 1e4, "an even rotary_dim above 0, but received 0"),
        (4, 2.0, 1e4, r"an even rotary_dim above 0, but received 2\.0"),
        (4, 8, 0.0, r"base to be a number above 0, .* received 0\.0"),
        (4, 8, jnp.ones(()), "base to be a number above 0, known at trace time"),
        (jnp.ones(4, complex), 8, 1e4, r"positions, numbers.*complex64"),
        ("four", 8, 1e4, "positions to be an array"),
        (-1, 8, 1e4, "a length of 0 or more, but received -1"),
        (
            jnp.ones((2, 2, 2)),
            8,
            1e4,
            r"positions, numbers of shape \[P\] or \[B, P\].*\[2,2,2\]",
        ),
    ],
)
def test_mistakes(positions, dim, base, sentence):
    with pytest.raises(
        ValueError, match=f"^rotary_tables: expected (?=.*; ){sentence}"
    ):
        hk.rotary_tables(positions, dim, base=base)
