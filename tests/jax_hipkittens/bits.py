"""Comparison of results bit by bit, in one process and between processes."""

import hashlib
import os
import subprocess
import sys

import jax
import numpy as np


def assert_same_bits(actual, expected):
    """Two trees of arrays are equal in every bit, NaN and the sign of zero included."""
    actual, expected = jax.tree.leaves(actual), jax.tree.leaves(expected)
    assert len(actual) == len(expected)
    for x, y in zip(actual, expected, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def digest(tree):
    """A hash of every bit of a tree of arrays."""
    sha = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        sha.update(np.asarray(leaf).tobytes())
    return sha.hexdigest()


def main_in_process(module, threads=None, **environment):
    """What ``module.main()`` prints in a new process, on ``threads`` CPUs if given.

    XLA sizes its thread pool by the CPUs that the process may use.
    """
    return call_in_process(module, "main", threads, **environment)


def call_in_process(module, function, threads=None, **environment):
    """The same for another function of the module."""
    lines = [f"from {module} import {function}", f"{function}()"]
    if threads is not None:
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        assert len(cpus) == threads, f"this test needs {threads} CPUs"
        lines.insert(0, f"import os; os.sched_setaffinity(0, {set(cpus)})")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def poison_heap(*arrays):
    """Leaves NaN in freed memory of the sizes of ``arrays``.

    A result that a kernel forgot to write then likely holds NaN, not zeros.
    """
    blocks = [np.full(x.nbytes // 4 + 16, np.nan, np.float32) for x in arrays * 4]
    del blocks
