"""Checks of HK ops on a simulated GPU, run in one process per chip.

``main`` prints one line of JSON: what became of each of ``CHECKS``, "right" or a
traceback. JAX_HIPKITTENS_SIMULATE names the chip.
"""

import ctypes
import functools
import json
import os
import re
import traceback
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jax_hipkittens as hk
from jax_hipkittens import _ffi
from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.gemm import test_dot_general, test_matmul
from tests.jax_hipkittens.ops.gemm.cases import draw

SIZES = (1, 7, 16, 64, 100, 192, 256, 300, 520)
DTYPES = ("bfloat16", "float16")


def mixes():
    """(M, N, K): each of SIZES in each place."""
    count = len(SIZES)
    return [
        (SIZES[i], SIZES[(i * 4 + 2) % count], SIZES[(i * 7 + 5) % count])
        for i in range(count)
    ]


@functools.cache
def simulator():
    """The library of the simulated device that this process uses."""
    folder = _ffi.require().package_folder()
    library = ctypes.CDLL(str(Path(folder, "libhk_hipsim.so")))
    library.hipsim_last_report.restype = ctypes.c_char_p
    library.hipsim_statistics.restype = ctypes.c_char_p
    return library


def launches():
    return _ffi.require().launches()["jax_hipkittens_gemm"]


def check_layout(trans_a, trans_b, batch):
    """All sizes, forward and gradients, against float64; every call on the chip."""
    for i, (m, n, k) in enumerate(mixes()):
        a, b = ((k, m) if trans_a else (m, k)), ((n, k) if trans_b else (k, n))
        lead = (batch,) if batch > 1 else ()
        first = len(lead)
        contracted = (first + (not trans_a),), (first + trans_b,)
        numbers = contracted, ((0,) * first, (0,) * first)
        before = launches()
        dtype = DTYPES[(i + trans_a) % 2]
        options = {"preferred_element_type": jnp.float32} if i % 3 == 0 else {}
        test_dot_general.assert_right(
            *draw(i, dtype, lead + a, lead + b), numbers, **options
        )
        assert launches() == before + 3


def check_epilogue(activation, dtype):
    a, b, bias = draw(3, dtype, (2, 70, 100), (100, 72), (72,))
    test_matmul.assert_right(a, b, bias, activation)
    a, b, bias = draw(4, dtype, (33, 7), (7, 65), (65,))
    test_matmul.assert_right(a, b, bias.astype(jnp.float32), activation, jnp.float32)


def check_runs_repeat():
    a, b = draw(5, "bfloat16", (200, 1100), (1100, 130))
    op = jax.jit(functools.partial(hk.matmul, implementation="hk"))
    bits.assert_same_bits(op(a, b), op(a, b))


def check_f32():
    """By sums of bf16 products, as accurate as f32 ones; mixed operands too."""
    before = launches()
    test_matmul.assert_right(*draw(6, "float32", (70, 90), (90, 50), (50,)), "silu")
    test_matmul.assert_right(*draw(6, "float32", (3, 40, 300), (3, 300, 65)))
    assert launches() > before
    big = np.array([[3.4e38, 1.0, -1e-30]], np.float32)
    one = np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(hk.matmul(big, one, implementation="hk"), big)
    for value in np.inf, -np.inf, np.nan:
        column = np.array([[value], [1.0]], np.float32)
        found = hk.matmul(column, np.ones((1, 2), np.float32), implementation="hk")
        np.testing.assert_array_equal(found, column @ np.ones((1, 2), np.float32))


def check_denormals():
    """Kept, whatever the threads of XLA that call do with them."""
    # The parts of f32 end at the smallest bf16, 2^-133.
    for dtype, small, lost in (("float16", 3e-5, 0), ("float32", 1e-37, 2.0**-133)):
        x, one = np.full((4, 4), small, dtype), np.eye(4, dtype=dtype)
        found = np.asarray(hk.matmul(x, one, implementation="hk"))
        np.testing.assert_allclose(found, x, rtol=0, atol=lost)


def check_ops_without_kernels():
    x = jnp.ones((1, 4, 2, 8), jnp.bfloat16)
    chip = os.environ["JAX_HIPKITTENS_SIMULATE"]
    for op in hk.rms_norm, lambda x, **more: hk.attention(x, x, x, **more):
        assert op(x).shape == x.shape
        expect(
            rf"on the host, but received {chip} \(simulated\)",
            lambda op=op: op(x, implementation="hk"),
            NotImplementedError,
        )


# What a handler's error becomes in Python; jit's short way to a compiled program makes
# it a ValueError.
RUNTIME = jax.errors.JaxRuntimeError, ValueError


def expect(message, call, kind=RUNTIME):
    try:
        jax.block_until_ready(call())
    except kind as error:
        assert re.search(message, str(error)), str(error)
    else:
        raise AssertionError(f"no error that says {message}")


def multiply():
    a, b = draw(7, "bfloat16", (70, 64), (64, 80))
    return hk.matmul(a, b, implementation="hk")


def check_failures():
    """A call of HIP's that fails ends in a sentence, and the process goes on."""
    expected = multiply()
    fail = simulator().hipsim_fail
    kernel = r"launching gemm_\w+ on device 0 \(gfx9\d\d\)"
    for name, code, message in (
        ("hipModuleLaunchKernel", 719, rf"{kernel}: .* hipErrorLaunchFailure \(719\)"),
        ("hipModuleLaunchKernel", 701, rf"{kernel}: .* hipErrorLaunchOutOfResources"),
        ("hipGetDevice", 100, r"hipGetDevice failed with hipErrorNoDevice \(100\)"),
        ("hipStreamSynchronize", 700, r"running on simulated device 0 \(gfx9"),
    ):
        assert fail(name.encode(), 1, code) == 0
        expect(rf"jax_hipkittens_gemm: .*{message}", multiply)
        bits.assert_same_bits(multiply(), expected)


def check_statistics():
    multiply()
    found = json.loads(simulator().hipsim_statistics())
    assert found["lds_cycles"] > 0 and found["lds_conflict_cycles"] == 0, found


CHECKS: dict[str, Any] = {
    **{
        f"layout {'nt'[ta]}{'nt'[tb]}, batch {batch}": functools.partial(
            check_layout, ta, tb, batch
        )
        for ta in (False, True)
        for tb in (False, True)
        for batch in (1, 3)
    },
    **{
        f"epilogue {activation}, {dtype}": functools.partial(
            check_epilogue, activation, dtype
        )
        for activation in test_matmul.ACTIVATIONS
        for dtype in DTYPES
    },
    "runs repeat": check_runs_repeat,
    "f32": check_f32,
    "denormals": check_denormals,
    "ops without kernels": check_ops_without_kernels,
    "failures": check_failures,
    "statistics": check_statistics,
}


def main(only=""):
    found = {}
    for name, check in CHECKS.items():
        if only not in name:
            continue
        try:
            check()
            found[name] = "right"
        except Exception:
            found[name] = traceback.format_exc()
    print(json.dumps(found))


def main_once():
    """One product, and another after the environment's mistake is mended."""
    try:
        jax.block_until_ready(multiply())
        outcome = "no error"
    except (jax.errors.JaxRuntimeError, ValueError, NotImplementedError) as error:
        outcome = str(error)
    os.environ.pop("JAX_HIPKITTENS_HIP_LIBRARY", None)
    total = float(jnp.sum(jnp.ones(3)))
    print(json.dumps([outcome, total, bool(multiply_again())]))


def multiply_again():
    try:
        return bool(jnp.isfinite(multiply()).all())
    except (jax.errors.JaxRuntimeError, ValueError, NotImplementedError):
        return False
