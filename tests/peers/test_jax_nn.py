"""The situations of jax.nn's own attention tests: same arguments, same results."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk

BATCH, QUERIES, KEYS, HEADS, DIM = 2, 12, 10, 4, 16
LENGTHS = dict(
    query_seq_lengths=jnp.array([5, 12], jnp.int32),
    key_value_seq_lengths=jnp.array([10, 7], jnp.int32),
)


def normal(seed, *shape):
    return jax.random.normal(jax.random.key(seed), shape)


def operands(kv_heads):
    kv = BATCH, KEYS, kv_heads, DIM
    return normal(0, BATCH, QUERIES, HEADS, DIM), normal(1, *kv), normal(2, *kv)


def options(mask, bias, lengths, window, is_causal):
    """Every row sees the first key, by the mask and by the window."""
    given = dict(is_causal=is_causal, scale=0.3)
    if mask:
        keep = normal(3, BATCH, 1, QUERIES, KEYS) < 0.8
        given["mask"] = keep.at[..., 0].set(True)
    if bias:
        given["bias"] = normal(4, 1, HEADS, QUERIES, KEYS)
    if lengths:
        given |= LENGTHS
    if window:
        given["local_window_size"] = (11, 2)
    return given


def assert_close(ours, theirs):
    for x, y in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


FLAGS = list(itertools.product([False, True], repeat=5))


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_every_combination_of_arguments(flags):
    arrays = operands(kv_heads=2 if sum(flags) % 2 else 4)
    given = options(*flags)
    ours = hk.attention(*arrays, **given, implementation="hk")
    assert_close(ours, jax.nn.dot_product_attention(*arrays, **given))


@pytest.mark.parametrize("flags", [FLAGS[0], FLAGS[-1]], ids=["none", "all"])
def test_gradients(flags):
    """Of queries, keys, values and a bias."""
    *arrays, bias = *operands(kv_heads=2), normal(4, BATCH, HEADS, QUERIES, KEYS)
    given = options(*flags)
    given.pop("bias", None)

    def gradients(op):
        def loss(query, key, value, bias):
            return jnp.sum(jnp.sin(op(query, key, value, bias, **given)))

        return jax.jit(jax.grad(loss, argnums=(0, 1, 2, 3)))(*arrays, bias)

    assert_close(gradients(hk.attention), gradients(jax.nn.dot_product_attention))


@pytest.mark.parametrize("shape", [(QUERIES, KEYS), (HEADS, 1, KEYS), (1, 1, 1, KEYS)])
def test_bias_of_fewer_or_shorter_axes(shape):
    """jax.nn takes fewer of them in older versions, so it is given all axes."""
    arrays = operands(kv_heads=4)
    bias = normal(4, *shape)
    full = jnp.broadcast_to(bias, (BATCH, HEADS, QUERIES, KEYS))
    np.testing.assert_allclose(
        hk.attention(*arrays, bias, implementation="hk"),
        jax.nn.dot_product_attention(*arrays, full),
        rtol=1e-5,
        atol=1e-5,
    )


def test_residual_and_three_axes():
    arrays = [x[0] for x in operands(kv_heads=4)]
    ours = hk.attention(*arrays, return_residual=True)
    theirs = jax.nn.dot_product_attention(*arrays, return_residual=True)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


def test_what_jax_nn_refuses_is_refused_too():
    query, key, value = operands(kv_heads=4)
    for arrays, given in (
        ((query, key[:, :, :3], value[:, :, :3]), {}),
        ((query, key.astype(jnp.bfloat16), value), {}),
        ((query[None], key[None], value[None]), {}),
        ((query, key, value), dict(mask=jnp.ones((1, 1, QUERIES, KEYS)))),
        ((query, key, value), dict(query_seq_lengths=jnp.ones(2, jnp.int16))),
        ((query, key[..., :8], value), {}),
    ):
        for op in (hk.attention, jax.nn.dot_product_attention):
            with pytest.raises(ValueError):
                op(*arrays, **given)
