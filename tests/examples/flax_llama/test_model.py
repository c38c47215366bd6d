"""The model: what it computes, and that HK computes it."""

import collections
import dataclasses
import functools
import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from examples.flax_llama.config import Config
from examples.flax_llama.model import Llama, cross_entropy, embed, gated
from examples.flax_llama.optimise import abstract_state, create_state, loss_function


def window(config: Config, seed: int = 0) -> jax.Array:
    random = np.random.default_rng(seed)
    shape = (config.batch, config.length + 1)
    return jnp.asarray(random.integers(0, 256, shape), jnp.int32)


@functools.cache
def untrained(config: Config) -> Callable[[jax.Array], jax.Array]:
    """The untrained model, tokens [B, T] to logits [B, T, V]."""
    return jax.jit(lambda tokens: Llama(config, nnx.Rngs(0))(tokens))


def with_implementation(config: Config, name: str) -> Config:
    return dataclasses.replace(config, implementation=name)


@pytest.mark.parametrize("tied", [True, False])
def test_shapes_and_the_first_loss(config, tied):
    config = dataclasses.replace(config, tied=tied)
    tokens = window(config)
    logits = untrained(config)(tokens[:, :-1])
    assert logits.shape == (config.batch, config.length, 256)
    assert logits.dtype == jnp.float32
    assert ("head" in abstract_state(config).params) != tied
    # Untrained, it knows nothing: log 256 nats, and half the logits' variance.
    assert 5.5 < float(cross_entropy(logits, tokens[:, 1:])) < 6.2


def test_a_byte_does_not_see_those_after_it(config):
    tokens = window(config)[:, :-1]
    changed = tokens.at[:, 20:].set((tokens[:, 20:] + 1) % 256)
    before, after = untrained(config)(tokens), untrained(config)(changed)
    np.testing.assert_array_equal(before[:, :20], after[:, :20])
    assert (before[:, 20:] != after[:, 20:]).any(axis=-1).all()


def test_position_matters(config):
    # Without rotary, attention to equal bytes would give every position the same.
    logits = untrained(config)(jnp.asarray([[1, 2] * 16] * config.batch, jnp.int32))
    assert (logits[0, 2] != logits[0, 30]).any()


def test_hk_and_xla_agree_within_bfloat16(tiny):
    hk, xla = Config(implementation="hk", **tiny), Config(implementation="xla", **tiny)
    params, tokens = create_state(xla).params, window(xla)
    losses, gradients = {}, {}
    for each in (hk, xla):
        run = jax.jit(jax.value_and_grad(loss_function(each)))
        losses[each.implementation], gradients[each.implementation] = run(
            params, tokens
        )
    assert abs(losses["hk"] - losses["xla"]) < 1e-3
    # A bfloat16 rounding is up to 2^-9 of a value; a gradient passes a few dozen.
    for ours, theirs in zip(
        *map(jax.tree.leaves, (gradients["hk"], gradients["xla"])), strict=True
    ):
        error = jnp.linalg.norm(ours - theirs) / jnp.linalg.norm(theirs)
        assert error < 2**-5


def custom_calls(config: Config) -> collections.Counter:
    """HK custom calls in the compiled gradient of the loss, by name."""
    params = create_state(config).params
    lowered = jax.jit(jax.grad(loss_function(config))).lower(params, window(config))
    text = lowered.compile().as_text()
    return collections.Counter(
        re.findall(r'custom_call_target="jax_hipkittens_(\w+)"', text)
    )


def test_every_op_of_a_step_is_an_hk_call(tiny):
    config = with_implementation(Config(**tiny), "hk")
    layers = config.layers
    projections = 4 * layers + 1  # qkv, out, gate_up, down; head
    norms = 2 * layers + 1
    expected = {
        "attention_forward": layers,
        "attention_backward": layers,
        # Forward, dx and dw of each projection, and the embedding's gradient.
        "gemm": 3 * projections + 1,
        "norm_forward": norms,
        "norm_backward": norms,
        "rotary": 4 * layers,  # queries and keys, forward and backward
    }
    assert custom_calls(config) == expected
    assert not custom_calls(with_implementation(config, "xla"))


def test_no_product_is_left_to_xla(tiny):
    config = Config(implementation="hk", **tiny)
    params = create_state(config).params
    lowered = jax.jit(jax.grad(loss_function(config))).lower(params, window(config))
    assert "dot_general" not in lowered.as_text()
    assert "scatter" not in lowered.as_text()


def test_the_embeddings_gradient_is_a_sum_over_its_tokens(config):
    random = np.random.default_rng(0)
    table = jnp.asarray(random.normal(size=(256, 8)), jnp.float32)
    tokens = jnp.asarray(random.integers(0, 4, (2, 16)), jnp.int32)
    weights = jnp.asarray(random.normal(size=(2, 16, 8)), jnp.bfloat16)

    def weighted(table):
        return (embed(table, tokens, config.implementation) * weights).sum(
            dtype=jnp.float32
        )

    expected = np.zeros((256, 8))
    np.add.at(expected, np.asarray(tokens), np.asarray(weights, np.float64))
    np.testing.assert_allclose(jax.grad(weighted)(table), expected, atol=1e-5)


def test_gated_is_silu_times_up():
    random = np.random.default_rng(0)
    x = jnp.asarray(random.normal(size=(3, 10)), jnp.float32)
    expected = jax.nn.silu(x[:, :5]) * x[:, 5:]
    np.testing.assert_allclose(gated(x), expected, rtol=1e-6)


def test_cross_entropy_is_minus_log_softmax_at_the_target():
    random = np.random.default_rng(0)
    logits = jnp.asarray(random.normal(size=(2, 5, 256)) * 30, jnp.float32)
    targets = jnp.asarray(random.integers(0, 256, (2, 5)), jnp.int32)
    log_softmax = jax.nn.log_softmax(logits)
    expected = -jnp.take_along_axis(log_softmax, targets[..., None], -1).mean()
    np.testing.assert_allclose(cross_entropy(logits, targets), expected, rtol=1e-6)
