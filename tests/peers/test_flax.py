"""The situations of Flax's own attention tests, on HK kernels alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from jax_hipkittens.flax import linen as hk_nn

HK = functools.partial(hk_nn.attention_fn, implementation="hk")


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


def modules(**arguments):
    arguments = dict(num_heads=4, qkv_features=16) | arguments
    return [
        nn.MultiHeadDotProductAttention(attention_fn=function, **arguments)
        for function in (HK, nn.dot_product_attention)
    ]


def test_padding_and_causal_masks_combined():
    """Of ragged sequences; rows of padding are not compared, as Flax averages there."""
    x = normal(0, 3, 7, 8)
    inside = jnp.arange(7)[None] < jnp.array([7, 2, 5])[:, None]
    mask = nn.combine_masks(nn.make_attention_mask(inside, inside))
    mask = nn.combine_masks(mask, nn.make_causal_mask(inside))
    ours, flaxs = modules()
    variables = flaxs.init(jax.random.key(1), x)
    outs = [module.apply(variables, x, mask=mask) for module in (ours, flaxs)]
    for out in outs:
        assert out.shape == x.shape
    np.testing.assert_allclose(
        *(np.asarray(out)[np.asarray(inside)] for out in outs), rtol=1e-4, atol=1e-5
    )


def test_the_same_dropout_key_gives_the_same_weights_and_others_others():
    x = normal(0, 2, 5, 8)
    ours, _ = modules(dropout_rate=0.5, broadcast_dropout=False, deterministic=False)
    keys = [jax.random.key(i) for i in (1, 2)]
    variables = ours.init({"params": keys[0], "dropout": keys[0]}, x)
    first, again, other = (
        ours.apply(variables, x, rngs={"dropout": key}) for key in (keys[0], *keys)
    )
    np.testing.assert_array_equal(first, again)
    assert bool(jnp.any(first != other))
    assert bool(jnp.any(first[0] != first[1]))


def test_decoding_with_a_cache_equals_causal_attention():
    x = normal(0, 2, 5, 8)
    cached, _ = modules(decode=True)
    whole, _ = modules()
    variables = cached.init(jax.random.key(1), x)
    cache = variables["cache"]
    step = jax.jit(functools.partial(cached.apply, mutable="cache"))
    outs = []
    for t in range(5):
        given = {"params": variables["params"], "cache": cache}
        out, changed = step(given, x[:, t : t + 1])
        cache = changed["cache"]
        outs.append(out)
    params = {"params": variables["params"]}
    expected = whole.apply(params, x, mask=nn.make_causal_mask(x[..., 0]))
    actual = jnp.concatenate(outs, axis=1)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)
