"""The training step: its result, its schedule, and that it learns."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from examples.flax_llama import data
from examples.flax_llama.optimise import (
    abstract_state,
    compile_step,
    create_state,
    optimiser,
    parameter_count,
)

TEXT = np.frombuffer(b"the quick brown fox jumps over the lazy dog. " * 40, np.uint8)


@functools.cache
def compiled(config):
    """The step; compiling takes most of these tests' time."""
    return compile_step(config, abstract_state(config))


def run(config, count):
    """Losses of `count` steps on TEXT, and the state after them."""
    state = create_state(config)
    step = compiled(config)
    losses = []
    for number in range(count):
        batch = data.training_batch(
            TEXT, config.seed, number, config.batch, config.length
        )
        state, loss = step(state, jnp.asarray(batch))
        losses.append(float(loss))
    return losses, state


def test_it_learns(config):
    losses, state = run(config, config.steps)
    assert int(state.step) == config.steps
    assert np.mean(losses[-5:]) < 0.5 * data.unigram_entropy(TEXT)


def test_two_runs_are_equal_bit_for_bit(config):
    first, second = run(config, 5), run(config, 5)
    assert first[0] == second[0]
    jax.tree.map(np.testing.assert_array_equal, first[1], second[1])


def test_parameters_and_moments_are_f32(config):
    state = abstract_state(config)
    dtypes = {leaf.dtype.name for leaf in jax.tree.leaves(state.params)}
    assert dtypes == {"float32"}
    c = config
    attention = c.dim * (2 * c.heads + 2 * c.kv_heads) * c.head_dim
    block = attention + 3 * c.dim * c.ffn_dim + 2 * c.dim
    assert parameter_count(state.params) == c.layers * block + (256 + 1) * c.dim


def test_rate_warms_up_and_falls_to_a_tenth(config):
    # Without decay, AdamW on a constant gradient moves by exactly the learning rate.
    update = optimiser(config).update
    params = {"scale": jnp.zeros(3)}
    state = optimiser(config).init(params)
    moves = []
    for _ in range(config.steps + 5):
        updates, state = update({"scale": jnp.ones(3)}, state, params)
        moves.append(-float(updates["scale"][0]) / config.learning_rate)
    assert moves[0] == 0
    assert moves[config.warmup // 2] == pytest.approx(0.5, abs=1e-3)
    assert max(moves) == pytest.approx(moves[config.warmup], rel=1e-3)
    assert moves[config.steps] == pytest.approx(0.1, abs=1e-3)
    assert moves[-1] == pytest.approx(0.1, abs=1e-3)


def test_matrices_decay_and_vectors_do_not(config):
    update = optimiser(config).update
    params = {"matrix": jnp.ones((2, 2)), "vector": jnp.ones(2)}
    state = optimiser(config).init(params)
    nothing = jax.tree.map(jnp.zeros_like, params)
    for _ in range(3):
        updates, state = update(nothing, state, params)
    assert (updates["matrix"] < 0).all() and (updates["vector"] == 0).all()
