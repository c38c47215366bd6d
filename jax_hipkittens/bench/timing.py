"""Interleaved timing: A B A B, so that a busy moment of the machine hits all alike."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping

import jax

from jax_hipkittens.bench.cases import Case, Function

Run = Callable[[], object]

# Threads that spin after parallel work (OpenMP's do) settle before the next run.
_SETTLE_SECONDS = 0.005


@dataclasses.dataclass(frozen=True)
class Budget:
    """How long to measure each contender of a case.

    A contender first runs untimed, then in each of ``rounds`` rounds until it has used
    its ``seconds``. One whose first run alone takes longer than that is not run again.
    """

    rounds: int = 15
    seconds: float = 2.5


def compiled(case: Case, function: Function) -> Run:
    """A blocking call of ``function``, compiled, on the case's own inputs."""
    inputs = case.inputs()
    if not case.backward:
        forward = jax.jit(function).lower(*inputs).compile()
        return lambda: jax.block_until_ready(forward(*inputs))
    result = jax.eval_shape(function, *inputs)
    cotangent = jax.random.normal(jax.random.key(1), result.shape, result.dtype)

    def value_and_gradients(cotangent: jax.Array, *operands: jax.Array) -> object:
        value, pullback = jax.vjp(function, *operands)
        return value, pullback(cotangent)

    both = jax.jit(value_and_gradients).lower(cotangent, *inputs).compile()
    return lambda: jax.block_until_ready(both(cotangent, *inputs))


def seconds_of(run: Run) -> float:
    """Wall time of one call."""
    time.sleep(_SETTLE_SECONDS)
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def fastest(runs: Mapping[str, Run]) -> tuple[str, Run]:
    """The name and call of the quickest candidate, by the better of two runs each."""
    times = {}
    for name, run in runs.items():
        run()
        times[name] = min(seconds_of(run) for _ in range(2))
    name = min(times, key=times.__getitem__)
    return name, runs[name]


def interleave(runs: Mapping[str, Run], budget: Budget) -> dict[str, list[float]]:
    """Seconds of each name's runs, in rounds that run every name once."""
    first = {name: seconds_of(run) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(budget.rounds):
        for name, run in runs.items():
            spent = times[name]
            if max(first[name], sum(spent)) < budget.seconds:
                spent.append(seconds_of(run))
    return {name: spent or [first[name]] for name, spent in times.items()}


def median_ratio(slower: list[float], faster: list[float]) -> float:
    """How many times faster the second is: the median over the rounds of both."""
    if len(slower) == len(faster):
        return statistics.median(a / b for a, b in zip(slower, faster, strict=True))
    return statistics.median(slower) / statistics.median(faster)
