"""A small valid call of each FFI target, for tests that call the targets directly."""

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from ml_dtypes import bfloat16

from jax_hipkittens import _ffi


@dataclass(frozen=True)
class Call:
    """Operands and results by name, in the target's order, and its attributes."""

    target: str
    operands: dict[str, np.ndarray]
    results: dict[str, jax.ShapeDtypeStruct]
    attributes: dict[str, Any] = field(default_factory=dict)

    def run(self):
        """Calls the target and waits for its results, by name."""
        _ffi.require()
        function = jax.ffi.ffi_call(self.target, tuple(self.results.values()))
        results = function(*self.operands.values(), **self.attributes)
        return dict(zip(self.results, jax.block_until_ready(results), strict=True))

    def with_operand(self, name, array):
        return replace(self, operands={**self.operands, name: array})

    def with_result(self, name, result):
        return replace(self, results={**self.results, name: result})

    def with_attributes(self, **attributes):
        return replace(self, attributes={**self.attributes, **attributes})


def result(shape, dtype):
    return jax.ShapeDtypeStruct(shape, dtype)


def _ones(shape, dtype=np.float32):
    return np.ones(shape, dtype)


def _attention_extras(b, t, s, n, dtype):
    """What follows query, key and value, or dlse: all that may be there is there."""
    return {
        "q_lengths": np.full(b, t, np.int32),
        "kv_lengths": np.full(b, s, np.int32),
        "scale": _ones(b),
        "origin": _ones((b, 4), np.int32),
        "bias": _ones((b, n, t, s), dtype),
        "mask": _ones((b, n, t, s), np.bool_),
        "q_segments": _ones((b, t), np.int32),
        "kv_segments": _ones((b, s), np.int32),
        "q_positions": _ones((b, t), np.int32),
        "kv_positions": _ones((b, s), np.int32),
        "sinks": _ones((b, n)),
        "slopes": _ones((b, n)),
        "seed": _ones((b, 2), np.uint32),
    }


def attention_forward(b=2, t=3, s=5, n=4, k=2, d=8, e=16, dtype=bfloat16):
    return Call(
        "jax_hipkittens_attention_forward",
        {
            "query": _ones((b, t, n, d), dtype),
            "key": _ones((b, s, k, d), dtype),
            "value": _ones((b, s, k, e), dtype),
            **_attention_extras(b, t, s, n, dtype),
        },
        {"out": result((b, t, n, e), dtype), "lse": result((b, n, t), np.float32)},
        {
            "causal": np.int64(0),
            "window_left": np.int64(-1),
            "window_right": np.int64(-1),
            "layout": np.int64(0),
            "soft_cap": np.float32(20),
            "dropout_rate": np.float32(0.25),
        },
    )


def attention_backward(b=2, t=3, s=5, n=4, k=2, d=8, e=16, dtype=bfloat16):
    forward = attention_forward(b, t, s, n, k, d, e, dtype)
    inputs = {name: forward.operands[name] for name in ("query", "key", "value")}
    return Call(
        "jax_hipkittens_attention_backward",
        {
            **inputs,
            "out": _ones((b, t, n, e), dtype),
            "lse": np.full((b, n, t), 1 + np.log(max(s, 1)), np.float32),
            "dout": _ones((b, t, n, e), dtype),
            "dlse": _ones((b, n, t)),
            **_attention_extras(b, t, s, n, dtype),
        },
        {
            "dq": result((b, t, n, d), dtype),
            "dk": result((b, s, k, d), dtype),
            "dv": result((b, s, k, e), dtype),
            "dbias": result((b, n, t, s), np.float32),
        },
        forward.attributes,
    )


def gemm(b=2, m=3, n=4, k=5, dtype=bfloat16, out_dtype=np.float32):
    return Call(
        "jax_hipkittens_gemm",
        {
            "a": _ones((b, m, k), dtype),
            "b": _ones((1, k, n), dtype),
            "bias": _ones((b, n), dtype),
        },
        {"c": result((b, m, n), out_dtype), "z": result((b, m, n), out_dtype)},
        {"trans_a": np.int64(0), "trans_b": np.int64(0), "activation": np.int64(2)},
    )


def norm_forward(r=3, h=8, dtype=bfloat16, groups=1):
    return Call(
        "jax_hipkittens_norm_forward",
        {
            "x": _ones((r, h), dtype),
            "residual": _ones((r, h), dtype),
            "weight": _ones((groups, h)),
            "bias": _ones((groups, h)),
            "seed": np.ones((groups, 2), np.uint32),
            "origin": np.zeros((groups, 2), np.uint32),
        },
        {
            "y": result((r, h), dtype),
            "h": result((r, h), dtype),
            "mean": result((r,), np.float32),
            "rstd": result((r,), np.float32),
        },
        {
            "kind": np.int64(0),
            "groups": np.int64(groups),
            "epsilon": np.float32(1e-6),
            "dropout_rate": np.float32(0.25),
        },
    )


def norm_backward(r=3, h=8, dtype=bfloat16, groups=1):
    return Call(
        "jax_hipkittens_norm_backward",
        {
            "h": _ones((r, h), dtype),
            "weight": _ones((groups, h)),
            "mean": _ones(r),
            "rstd": _ones(r),
            "dy": _ones((r, h), dtype),
            "dh": _ones((r, h), dtype),
            "seed": np.ones((groups, 2), np.uint32),
            "origin": np.zeros((groups, 2), np.uint32),
        },
        {
            "dx": result((r, h), dtype),
            "dresidual": result((r, h), dtype),
            "dweight": result((groups, h), np.float32),
            "dbias": result((groups, h), np.float32),
        },
        {
            "kind": np.int64(0),
            "groups": np.int64(groups),
            "dropout_rate": np.float32(0.25),
        },
    )


def rotary(b=2, t=3, n=2, d=8, p=5, r=4, dtype=bfloat16):
    return Call(
        "jax_hipkittens_rotary",
        {
            "x": _ones((b, t, n, d), dtype),
            "cos": _ones((b, p, r // 2)),
            "sin": _ones((b, p, r // 2)),
            "offsets": np.zeros(b, np.int32),
        },
        {"y": result((b, t, n, d), dtype)},
        {"interleaved": np.int64(0), "inverse": np.int64(0)},
    )


ALL = (attention_forward, attention_backward, gemm, norm_forward, norm_backward, rotary)
