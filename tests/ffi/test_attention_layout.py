"""Attention's two layouts are the same computation, to the bit."""

import numpy as np
import pytest
from ml_dtypes import bfloat16

from tests.ffi import calls

HEADS_AND_TIME = {"query", "key", "value", "out", "dout", "dq", "dk", "dv"}


def _noise(call):
    random = np.random.default_rng(0)
    for name in HEADS_AND_TIME & set(call.operands):
        noise = random.standard_normal(call.operands[name].shape).astype(bfloat16)
        call = call.with_operand(name, noise)
    return call


def _heads_first(call):
    for name in HEADS_AND_TIME & set(call.operands):
        call = call.with_operand(name, call.operands[name].swapaxes(1, 2).copy())
    for name in HEADS_AND_TIME & set(call.results):
        b, t, n, d = call.results[name].shape
        call = call.with_result(name, calls.result((b, n, t, d), bfloat16))
    return call.with_attributes(layout=np.int64(1))


@pytest.mark.parametrize("make", [calls.attention_forward, calls.attention_backward])
def test_heads_first_equals_time_first(make):
    call = _noise(make(t=70, s=130))
    heads_first = _heads_first(call).run()
    for name, array in call.run().items():
        other = np.asarray(heads_first[name])
        if name in HEADS_AND_TIME:
            other = other.swapaxes(1, 2)
        np.testing.assert_array_equal(np.asarray(array), other)
