"""Sampling: deterministic in the seed, and faithful to the model."""

import jax
import pytest

from examples.flax_llama.optimise import create_state
from examples.flax_llama.sample import sample


@pytest.fixture
def params(config):
    return create_state(config).params


def test_the_seed_decides(config, params):
    first = sample(config, params, "abc", 20, seed=1)
    assert first.startswith("abc")
    assert sample(config, params, "abc", 20, seed=1) == first
    assert sample(config, params, "abc", 20, seed=2) != first


def test_it_follows_the_models_logits(config, params):
    # A tied head with one byte's row far along the last norm's scale always says it.
    sure = jax.tree.map(lambda leaf: leaf, params)
    sure["embedding"][...] = sure["embedding"][...].at[ord("x")].set(10.0)
    sure["norm"]["scale"][...] = jax.numpy.abs(sure["norm"]["scale"][...])
    text = sample(config, sure, "xx", 6, seed=0)
    assert text == "x" * 8
