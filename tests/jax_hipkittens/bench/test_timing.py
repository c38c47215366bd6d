import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_hipkittens.bench import cases, timing


def case(backward):
    return cases.Case(
        op="scale",
        name="",
        inputs=cases.normal_inputs("float32", (3, 4), (4,)),
        hk=lambda x, w: x * w[None],
        xla={},
        torch=None,
        backward=backward,
        work=1.0,
        unit="GB/s",
    )


def test_inputs_are_the_same_on_every_call():
    make = cases.normal_inputs("bfloat16", (3, 4))
    assert make()[0].dtype == jnp.bfloat16
    np.testing.assert_array_equal(make()[0], make()[0])


def test_a_forward_returns_the_value():
    x, w = case(False).inputs()
    run = timing.compiled(case(False), case(False).hk)
    np.testing.assert_allclose(run(), x * w[None], rtol=1e-6)


def test_a_backward_returns_value_and_gradients():
    x, w = case(True).inputs()
    value, grads = timing.compiled(case(True), case(True).hk)()
    cotangent = jax.random.normal(jax.random.key(1), x.shape)
    np.testing.assert_allclose(value, x * w[None], rtol=1e-6)
    np.testing.assert_allclose(grads[0], cotangent * w[None], rtol=1e-6)
    np.testing.assert_allclose(grads[1], (cotangent * x).sum(0), rtol=1e-5)


def test_fastest():
    runs = {"slow": lambda: time.sleep(0.03), "quick": lambda: time.sleep(0.001)}
    assert timing.fastest(runs) == ("quick", runs["quick"])


def test_contenders_take_turns():
    order = []
    runs = {name: lambda name=name: order.append(name) for name in "ab"}
    times = timing.interleave(runs, timing.Budget(rounds=3))
    assert order == list("ab" + "ab" * 3)  # once each untimed, then the rounds
    assert [len(times[name]) for name in "ab"] == [3, 3]


def test_a_slow_contender_stops_when_its_time_is_up():
    runs = {"slow": lambda: time.sleep(0.1), "quick": lambda: None}
    times = timing.interleave(runs, timing.Budget(rounds=6, seconds=0.15))
    assert len(times["slow"]) == 2
    assert len(times["quick"]) == 6


def test_a_contender_beyond_its_time_runs_once():
    calls = []
    times = timing.interleave(
        {"slow": lambda: calls.append(time.sleep(0.02))},
        timing.Budget(rounds=6, seconds=0.01),
    )
    assert len(calls) == len(times["slow"]) == 1
    assert times["slow"][0] >= 0.02


def test_median_ratio_pairs_the_rounds():
    assert timing.median_ratio([2.0, 30.0, 4.0], [1.0, 10.0, 4.0]) == 2.0
    assert timing.median_ratio([3.0], [1.0, 1.0, 99.0]) == 3.0


@pytest.mark.parametrize("found", list(cases.all_cases()), ids=lambda c: c.name)
def test_every_case_traces(found):
    """The operands of each case suit HK and every contender."""
    inputs = found.inputs()
    results = [jax.eval_shape(f, *inputs) for f in (found.hk, *found.xla.values())]
    assert len({(result.shape, result.dtype) for result in results}) == 1
    assert found.op in cases.OPS and found.work > 0
