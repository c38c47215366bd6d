"""Targets called with arrays that have no elements: right results, or nothing to do."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.ffi import calls


def _assert_all(array, value):
    np.testing.assert_array_equal(np.asarray(array, np.float32), np.float32(value))


@pytest.mark.parametrize("sizes", [{"b": 0}, {"t": 0}, {"n": 0, "k": 0}])
def test_attention_forward_without_queries(sizes):
    results = calls.attention_forward(**sizes).run()
    assert results["out"].size == results["lse"].size == 0


def test_attention_forward_without_keys():
    call = calls.attention_forward(s=0)
    results = call.run()
    _assert_all(results["out"], 0)
    _assert_all(results["lse"], 1)  # the sinks
    results = call.with_operand("sinks", np.zeros((0, 0), np.float32)).run()
    _assert_all(results["lse"], -np.inf)


@pytest.mark.parametrize("sizes", [{"t": 0}, {"n": 0}])
def test_attention_backward_without_queries(sizes):
    results = calls.attention_backward(**sizes).run()
    assert results["dq"].size == 0
    _assert_all(results["dk"], 0)
    _assert_all(results["dv"], 0)


def test_attention_backward_without_keys():
    lse = np.full((2, 4, 3), -np.inf, np.float32)
    results = calls.attention_backward(s=0).with_operand("lse", lse).run()
    _assert_all(results["dq"], 0)
    assert results["dk"].size == results["dv"].size == 0


@pytest.mark.parametrize("sizes", [{"m": 0}, {"n": 0}])
def test_gemm_without_results(sizes):
    results = calls.gemm(**sizes).run()
    assert results["c"].size == results["z"].size == 0


def test_gemm_without_a_contracted_axis_gives_the_bias():
    call = calls.gemm(k=0).with_attributes(activation=np.int64(0))
    results = call.run()
    _assert_all(results["c"], 1)
    _assert_all(results["z"], 1)


def test_gemm_without_bias():
    call = calls.gemm(k=7).with_attributes(activation=np.int64(0))
    results = call.with_operand("bias", np.zeros(0, np.float32)).run()
    _assert_all(results["c"], 7)


def test_norm_forward_without_rows():
    results = calls.norm_forward(r=0).run()
    assert all(array.size == 0 for array in results.values())


def test_norm_backward_without_rows():
    results = calls.norm_backward(r=0).run()
    assert results["dx"].size == 0
    _assert_all(results["dweight"], 0)
    _assert_all(results["dbias"], 0)


def test_norm_without_columns():
    _assert_all(calls.norm_forward(h=0).run()["rstd"], 0)
    assert calls.norm_backward(h=0).run()["dx"].size == 0


def test_norm_writes_its_results_when_one_of_them_is_absent():
    """XLA skips calls whose results are all empty, and only those."""
    call = calls.norm_forward().with_attributes(dropout_rate=np.float32(0))
    call = call.with_operand("residual", np.zeros((0, 0), bfloat16))
    results = call.with_result("h", calls.result((0, 0), bfloat16)).run()
    _assert_all(results["y"], 1)  # A constant row: the bias alone.
    _assert_all(results["mean"], 1)


@pytest.mark.parametrize("sizes", [{"b": 0}, {"t": 0}, {"n": 0}])
def test_rotary_without_elements(sizes):
    assert calls.rotary(**sizes).run()["y"].size == 0


def test_rotary_without_a_rotary_dimension_copies():
    _assert_all(calls.rotary(r=0, p=0).run()["y"], 1)
