"""Wrong calls of rotary: what the errors say."""

import jax.numpy as jnp
import pytest

import jax_hipkittens as hk

X = jnp.ones((2, 5, 3, 8))
COS, SIN = hk.rotary_tables(6, 8)
MISTAKES = [
    (dict(x=jnp.ones((5, 8))), r"x of layout BTND or TND.*2 axes"),
    (dict(x=jnp.ones((2, 5, 3, 8), int)), "x of a floating-point dtype"),
    (dict(cos=jnp.ones(4)), r"cos of shape \[P, R/2\] or \[B, P, R/2\]"),
    (dict(cos=jnp.ones((6, 4), int)), "cos of a floating-point dtype"),
    (dict(cos=jnp.ones((3, 6, 4))), r"cos with a batch of 2.*\[3,6,4\]"),
    (dict(cos=jnp.ones((6, 8))), "cos of at most D/2 = 4 columns.*do not repeat"),
    (dict(sin=jnp.ones((6, 3))), r"sin of shape cos\.shape = \(1, 6, 4\)"),
    (dict(offset=2), "positions 2 to 6 to lie in the tables.*6 positions"),
    (dict(offset=-1), "positions -1 to 3 to lie in the tables"),
    (dict(offset=1.5), "offset to be an integer"),
    (dict(offset=jnp.zeros(3, int)), "offset to be an integer or int32.*B = 2"),
    (dict(interleaved="no"), "interleaved to be True or False.*'no'"),
    (dict(implementation=()), "at least one implementation"),
]


@pytest.mark.parametrize("arguments, sentence", MISTAKES)
def test_mistakes(arguments, sentence):
    with pytest.raises(ValueError, match=f"^rotary: expected (?=.*; ){sentence}"):
        hk.rotary(**{"x": X, "cos": COS, "sin": SIN, **arguments})


def test_hk_names_its_limit():
    x = X.astype(jnp.float8_e4m3fn)
    with pytest.raises(NotImplementedError, match="^rotary: .*float8_e4m3fn"):
        hk.rotary(x, COS, SIN, implementation="hk")
    with pytest.raises(NotImplementedError, match="^rotary: .*2 rotary dims or more"):
        hk.rotary(X, COS[:, :0], SIN[:, :0], implementation="hk")
