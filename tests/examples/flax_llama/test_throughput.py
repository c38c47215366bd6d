"""The comparison alternates, and takes ratios within pairs."""

import time

import jax.numpy as jnp

from examples.flax_llama.throughput import compare


def test_pairs_alternate_and_each_step_has_its_own_state():
    calls = []

    def step_named(name, seconds):
        def step(state, window):
            calls.append((name, int(state)))
            time.sleep(seconds)
            return state + 1, window.sum()

        return step

    result = compare(
        step_named("quick", 0.002),
        step_named("slow", 0.02),
        jnp.int32(0),
        jnp.zeros(3),
        range(3),
    )
    assert calls == [
        (name, number) for number in range(4) for name in ("quick", "slow")
    ]
    assert 0.002 <= result.first < result.second
    assert result.ratio > 2
