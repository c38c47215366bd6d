"""Handlers on XLA's thread pool: any number of threads, and many calls at once."""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.ffi import calls

# Prints a digest of every result of every target at sizes that give several blocks.
DIGESTS = """
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(sys.argv[1])])
from tests.ffi import test_thread_pool
print("\\n".join(test_thread_pool.digests()))
"""


def _noise(call):
    """The call with normally distributed operands in place of its constants."""
    random = np.random.default_rng(0)
    for name, array in call.operands.items():
        if array.dtype.kind in "fV" and array.ndim > 0 and name not in ("lse", "rstd"):
            noise = random.standard_normal(array.shape).astype(array.dtype)
            call = call.with_operand(name, noise)
    return call


def large_calls():
    """One call of each target with work for several threads."""
    return [
        calls.attention_forward(t=200, s=300, n=4, k=2, d=64),
        calls.attention_backward(t=200, s=300, n=4, k=2, d=64),
        calls.gemm(m=300, n=400, k=200),
        calls.norm_forward(r=500, h=300),
        calls.norm_backward(r=500, h=300),
        calls.rotary(t=200, n=8, d=64, p=200, r=64),
    ]


def digests():
    """A line for each result of each of the large calls."""
    lines = []
    for call in map(_noise, large_calls()):
        for name, array in call.run().items():
            digest = hashlib.sha256(np.asarray(array).tobytes()).hexdigest()
            lines.append(f"{call.target} {name} {digest}")
    return lines


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs CPU affinity")
def test_one_thread_equals_all_threads_bitwise():
    alone = subprocess.run(
        [sys.executable, "-c", DIGESTS, "1"], check=True, capture_output=True, text=True
    )
    assert alone.stdout.splitlines() == digests()


def test_calls_at_once_do_not_disturb_each_other():
    noisy = [_noise(call) for call in large_calls()]
    alone = [call.run() for call in noisy]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda call: call.run(), noisy * 4))
    for expected, received in zip(alone * 4, together, strict=True):
        for name in expected:
            np.testing.assert_array_equal(
                np.asarray(expected[name]), np.asarray(received[name]), err_msg=name
            )
