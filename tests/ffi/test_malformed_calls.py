"""Targets called directly with arrays that do not fit: a status, never a crash.

Each test starts from a valid call and spoils one thing. Whatever the handlers reject
must say what was expected and what was received, and name the operand.
"""

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from tests.ffi import calls

DTYPES = (bfloat16, np.float16, np.float32, np.int32, np.uint32, np.int8, np.bool_)


def _named(make):
    call = make()
    return [(call, name) for name in call.operands]


OPERANDS = [pair for make in calls.ALL for pair in _named(make)]
RESULTS = [(make(), name) for make in calls.ALL for name in make().results]


def _ids(pairs):
    return [f"{c.target.removeprefix('jax_hipkittens_')}-{name}" for c, name in pairs]


def _assert_rejected(call):
    message = rf"INVALID_ARGUMENT: {call.target}: .*expected .*received "
    with pytest.raises(jax.errors.JaxRuntimeError, match=message) as caught:
        call.run()
    return str(caught.value)


@pytest.mark.parametrize("make", calls.ALL, ids=lambda make: make.__name__)
def test_the_calls_to_be_spoiled_are_valid(make):
    for array in make().run().values():
        assert np.isfinite(np.asarray(array, np.float32)).all()


@pytest.mark.parametrize(("call", "name"), OPERANDS, ids=_ids(OPERANDS))
def test_operand_of_another_dtype(call, name):
    good = call.operands[name]
    _assert_rejected(call.with_operand(name, np.ones(good.shape, np.int8)))


@pytest.mark.parametrize(("call", "name"), OPERANDS, ids=_ids(OPERANDS))
def test_operand_of_another_rank(call, name):
    good = call.operands[name]
    assert name in _assert_rejected(call.with_operand(name, good[None]))


@pytest.mark.parametrize(("call", "name"), OPERANDS, ids=_ids(OPERANDS))
def test_operand_of_another_size(call, name):
    good = call.operands[name]
    for axis in range(good.ndim):
        # Not doubled: a batch of 1 that became 2 would fit.
        wider = np.repeat(good, 3, axis=axis)
        _assert_rejected(call.with_operand(name, wider))


@pytest.mark.parametrize(("call", "name"), RESULTS, ids=_ids(RESULTS))
def test_result_of_another_dtype_rank_or_size(call, name):
    good = call.results[name]
    spoiled = [
        calls.result(good.shape, np.int8),
        calls.result((1, *good.shape), good.dtype),
    ]
    for axis, size in enumerate(good.shape):
        shape = good.shape[:axis] + (2 * size,) + good.shape[axis + 1 :]
        spoiled.append(calls.result(shape, good.dtype))
    for other in spoiled:
        _assert_rejected(call.with_result(name, other))


ATTRIBUTES = [
    (calls.attention_forward, "causal", (-1, 3)),
    (calls.attention_forward, "window_left", (-2,)),
    (calls.attention_forward, "window_right", (-2, -(2**63))),
    (calls.attention_forward, "layout", (-1, 2)),
    (calls.attention_backward, "causal", (-1, 3)),
    (calls.gemm, "trans_a", (-1, 2)),
    (calls.gemm, "trans_b", (-1, 2)),
    (calls.gemm, "activation", (-1, 4)),
    (calls.norm_forward, "kind", (-1, 2)),
    (calls.norm_backward, "kind", (-1, 2)),
    (calls.norm_forward, "groups", (-1, 0, 2)),
    (calls.norm_backward, "groups", (0, 2, 2**62)),
    (calls.rotary, "interleaved", (-1, 2)),
    (calls.rotary, "inverse", (-1, 2)),
]


@pytest.mark.parametrize(
    ("make", "name", "values"),
    ATTRIBUTES,
    ids=lambda x: getattr(x, "__name__", x if isinstance(x, str) else ""),
)
def test_integer_attribute_out_of_range(make, name, values):
    for value in values:
        call = make().with_attributes(**{name: np.int64(value)})
        assert f"{name}: expected" in _assert_rejected(call)


@pytest.mark.parametrize(
    "make",
    [
        *(calls.norm_forward, calls.norm_backward),
        *(calls.attention_forward, calls.attention_backward),
    ],
)
@pytest.mark.parametrize("rate", [-0.125, 1.125, np.inf, np.nan])
def test_dropout_rate_out_of_range(make, rate):
    call = make().with_attributes(dropout_rate=np.float32(rate))
    assert "dropout_rate: expected 0 to 1" in _assert_rejected(call)


@pytest.mark.parametrize("epsilon", [-1e-6, np.inf, np.nan])
def test_epsilon_out_of_range(epsilon):
    _assert_rejected(calls.norm_forward().with_attributes(epsilon=np.float32(epsilon)))


def test_attribute_of_another_type():
    call = calls.gemm().with_attributes(activation=np.float64(0.5))
    with pytest.raises(jax.errors.JaxRuntimeError, match="INVALID_ARGUMENT"):
        call.run()


def test_query_heads_that_are_no_multiple():
    message = _assert_rejected(calls.attention_forward(n=3, k=2))
    assert "expected a multiple of the 2 key heads, received 3" in message
    _assert_rejected(calls.attention_forward(n=3, k=0))


@pytest.mark.parametrize("d", [0, 257])
def test_head_dimension_out_of_range(d):
    assert "expected 1 to 256" in _assert_rejected(calls.attention_forward(d=d))


@pytest.mark.parametrize("e", [0, 257])
def test_value_dimension_out_of_range(e):
    assert "expected 1 to 256" in _assert_rejected(calls.attention_forward(e=e))


@pytest.mark.parametrize("cap", [-1, np.inf, np.nan])
def test_soft_cap_out_of_range(cap):
    call = calls.attention_forward().with_attributes(soft_cap=np.float32(cap))
    assert "soft_cap: expected" in _assert_rejected(call)


@pytest.mark.parametrize("name", ["q_segments", "kv_positions"])
def test_ids_of_queries_or_of_keys_alone(name):
    absent = np.zeros((0, 0), np.int32)
    _assert_rejected(calls.attention_forward().with_operand(name, absent))


def test_dropout_and_seed_come_together():
    call = calls.attention_forward()
    _assert_rejected(call.with_attributes(dropout_rate=np.float32(0)))
    _assert_rejected(call.with_operand("seed", np.zeros((0, 0), np.uint32)))


def test_gradient_of_an_absent_bias():
    absent = np.zeros((0, 0, 0, 0), bfloat16)
    _assert_rejected(calls.attention_backward().with_operand("bias", absent))


@pytest.mark.parametrize("make", [calls.attention_forward, calls.attention_backward])
@pytest.mark.parametrize("name", ["origin", "q_lengths", "kv_lengths", "q_segments"])
def test_any_integers(make, name):
    random = np.random.default_rng(0)
    call = make()
    for array in ([-(2**31)], [2**31 - 1], random.integers(-(2**31), 2**31, 16)):
        shape = call.operands[name].shape
        values = np.resize(np.array(array, np.int32), shape)
        call.with_attributes(causal=np.int64(2)).with_operand(name, values).run()


def test_rotary_dimension_beyond_the_head():
    assert "rotary dimension" in _assert_rejected(calls.rotary(d=8, r=10))


def test_rotary_without_positions():
    assert "at least 1 position" in _assert_rejected(calls.rotary(p=0))


@pytest.mark.parametrize("make", [calls.norm_forward, calls.norm_backward])
def test_norm_in_groups(make):
    call = make(r=6, groups=3)
    call.run()
    for name in ("weight", "seed", "origin"):
        array = call.operands[name]
        call.with_operand(name, array[:1]).run()
        assert f"{name}: expected" in _assert_rejected(
            call.with_operand(name, array[:2])
        )
        _assert_rejected(call.with_attributes(groups=np.int64(1)))


def test_norm_that_wants_h_where_it_equals_x():
    call = calls.norm_forward().with_attributes(dropout_rate=np.float32(0))
    _assert_norm_h(call.with_operand("residual", np.ones((0, 0), bfloat16)))


def test_norm_that_does_not_want_h_where_it_differs_from_x():
    _assert_norm_h(
        calls.norm_forward().with_result("h", calls.result((0, 0), bfloat16))
    )


def _assert_norm_h(call):
    with pytest.raises(jax.errors.JaxRuntimeError, match="h: expected"):
        call.run()


@pytest.mark.parametrize("make", calls.ALL, ids=lambda make: make.__name__)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_random_arrays_never_crash(make, data):
    """Any subset of operands and results replaced by arrays of any shape and dtype."""
    call = make()
    shapes = st.lists(st.integers(0, 5), max_size=5).map(tuple)
    dtypes = st.sampled_from(DTYPES)
    for name in data.draw(st.sets(st.sampled_from(sorted(call.operands)), max_size=3)):
        array = np.ones(data.draw(shapes), data.draw(dtypes))
        call = call.with_operand(name, array)
    for name in data.draw(st.sets(st.sampled_from(sorted(call.results)), max_size=2)):
        other = calls.result(data.draw(shapes), data.draw(dtypes))
        call = call.with_result(name, other)
    try:
        call.run()
    except jax.errors.JaxRuntimeError as error:
        assert "INVALID_ARGUMENT" in str(error)
