"""Tokens per second of the same training step under two implementations."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

Step = Callable[[Any, jax.Array], tuple[Any, jax.Array]]


class Comparison(NamedTuple):
    """Median seconds of a step, and the median over pairs of second over first."""

    first: float
    second: float
    ratio: float


def compare(
    first: Step, second: Step, state: Any, window: jax.Array, pairs: Iterable[int]
) -> Comparison:
    """Times two training steps in alternating pairs, each on its own copy of the state.

    A pair's two runs share whatever else the machine is doing, so the ratio is taken
    within pairs. One untimed pair goes before them. `pairs` is iterated once: pass a
    range, or one that shows progress.
    """
    runners = [_Runner(step, state, window) for step in (first, second)]
    for runner in runners:
        runner.seconds()
    times = [(runners[0].seconds(), runners[1].seconds()) for _ in pairs]
    return Comparison(
        statistics.median(pair[0] for pair in times),
        statistics.median(pair[1] for pair in times),
        statistics.median(pair[1] / pair[0] for pair in times),
    )


class _Runner:
    """Runs a step that may consume its state, over and over."""

    def __init__(self, step: Step, state: Any, window: jax.Array):
        self.step = step
        self.state = jax.tree.map(jnp.copy, state)
        self.window = window

    def seconds(self) -> float:
        begin = time.perf_counter()
        self.state, loss = self.step(self.state, self.window)
        jax.block_until_ready((self.state, loss))
        return time.perf_counter() - begin
