"""Memory of attention forward and backward at T = S = 16384.

HK's is measured in a process of its own, as the peak of resident memory beyond
inputs, outputs and gradients. XLA's is what its compiler plans to allocate: running
it would take tens of GiB.
"""

import contextlib
import ctypes
import dataclasses
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

import jax_hipkittens as hk
from jax_hipkittens._dispatch import Implementation

LENGTH, HEADS, KV_HEADS, DIM = 16384, 8, 2, 128
LIMIT_MIB = 256.0
_MIB = 2.0**20
_STATUS = Path("/proc/self/status")
_CLEAR_PEAK = Path("/proc/self/clear_refs")


@dataclasses.dataclass(frozen=True)
class Memory:
    """MiB beyond inputs, outputs and gradients.

    Attributes:
      length: T and S.
      hk_measured: growth of HK's resident memory over a forward and backward.
      hk_planned: XLA's plan for the program that calls HK, without the kernels' own.
      xla_planned: XLA's plan for the program without HK.
    """

    length: int
    hk_measured: float
    hk_planned: float
    xla_planned: float


def measure(length: int = LENGTH) -> Memory:
    """Measures HK in a fresh process, and asks XLA's compiler for the rest."""
    command = [sys.executable, "-m", "jax_hipkittens.bench.memory", str(length)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the memory measurement failed:\n{done.stderr}")
    measured = json.loads(done.stdout.splitlines()[-1])
    return Memory(
        length,
        measured["grown"] / _MIB,
        measured["planned"] / _MIB,
        _planned(_compile(length, "xla")) / _MIB,
    )


def _operands(length: int) -> tuple[jax.ShapeDtypeStruct, ...]:
    heads = (HEADS, KV_HEADS, KV_HEADS, HEADS)
    return tuple(jax.ShapeDtypeStruct((1, length, n, DIM), jnp.bfloat16) for n in heads)


def _compile(length: int, implementation: Implementation) -> Any:
    def value_and_gradients(
        q: jax.Array, k: jax.Array, v: jax.Array, dout: jax.Array
    ) -> Any:
        def op(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
            return hk.attention(q, k, v, implementation=implementation)

        out, pullback = jax.vjp(op, q, k, v)
        return out, pullback(dout)

    return jax.jit(value_and_gradients).lower(*_operands(length)).compile()


def _planned(program: Any) -> int:
    return program.memory_analysis().temp_size_in_bytes


def _peak_and_resident() -> tuple[int, int]:
    """Bytes of peak and of current resident memory of this process."""
    if not _STATUS.exists():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak * (1 if sys.platform == "darwin" else 1024), 0
    fields = dict(
        line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line
    )
    peak, now = (int(fields[name].split()[0]) for name in ("VmHWM", "VmRSS"))
    return peak * 1024, now * 1024


def _forget_freed() -> None:
    """Gives freed memory back, which would serve the run without any growth seen."""
    with contextlib.suppress(AttributeError):  # glibc's alone
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        _CLEAR_PEAK.write_text("5", "ascii")  # forget the peak so far


def _grown(length: int) -> dict[str, int]:
    """Runs HK once and reports by how much memory grew beyond its results."""
    program = _compile(length, "hk")
    keys = jax.random.split(jax.random.key(0), 4)
    operands = [
        jax.random.normal(key, x.shape, x.dtype)
        for key, x in zip(keys, _operands(length), strict=True)
    ]
    jax.block_until_ready(operands)
    _forget_freed()
    before = max(_peak_and_resident())
    results = jax.block_until_ready(program(*operands))
    peak = _peak_and_resident()[0]
    kept = sum(array.nbytes for array in jax.tree.leaves(results))
    return {"grown": max(0, peak - before - kept), "planned": _planned(program)}


if __name__ == "__main__":
    print(json.dumps(_grown(int(sys.argv[1]))))
