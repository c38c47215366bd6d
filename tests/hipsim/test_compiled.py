"""Compiled kernels of ordinary C++: right results, with all checks on, on both chips.

Compilers insert exactly the waits and wait states that they hold to be needed: no check
may fire, and each s_nop that is executed has to be missed when it is left out.
"""

import functools
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tests.hipsim.assemble import compile_source
from tests.hipsim.device import Array, Module, launch, options
from tests.hipsim.mutation import mutate, summary

COUNT, THREADS = 1024, 256
WORD = 0xFFFFFFFF
LONG = 0xFFFFFFFFFFFFFFFF
TARGETS = ["gfx942", "gfx950"]


@functools.cache
def module(target: str) -> Module:
    text = Path(__file__).with_name("compiled.hip").read_text()
    with options(arch=target):
        return Module(compile_source(text, target))


@functools.cache
def inputs():
    rng = np.random.default_rng(0)
    values = {
        "floats": rng.standard_normal(COUNT + 8).astype(np.float32) * 10,
        "others": rng.standard_normal(COUNT + 8).astype(np.float32),
        "doubles": rng.standard_normal(COUNT),
        "divisors": rng.standard_normal(COUNT),
        "words": rng.integers(0, 1 << 32, COUNT + 8, np.uint32),
        "more_words": rng.integers(0, 1 << 32, COUNT + 8, np.uint32),
        "ints": rng.integers(-1000, 1000, COUNT).astype(np.int32),
        "few": rng.integers(0, 9, COUNT).astype(np.uint32),
        "halves": rng.standard_normal((COUNT, 4)).astype(np.float16),
        "bytes": rng.integers(0, 256, COUNT + 8, np.uint8),
    }
    return values, {name: Array.of(value) for name, value in values.items()}


# name: (inputs, results, further arguments)
KERNELS = {
    "divide": (["floats", "others"], [np.float32], []),
    "divide64": (["doubles", "divisors"], [np.float64], []),
    "integers": (["words", "more_words"], [np.uint64], []),
    "reduce": (["floats"], [np.float32], []),
    "wave_sum": (["floats"], [np.float32], []),
    "dpp_scan": (["ints"], [np.int32], []),
    "scratch": (["words"], [np.uint32], []),
    "calls": (["words"], [np.uint32], []),
    "atomics": (["words"], [np.uint32, np.float32], []),
    "branches": (["words"], [np.uint32], []),
    "halves": (["floats", "others"], [np.uint32, np.uint32], []),
    "bytes": (["bytes"], [np.uint16, np.int8], []),
    "matrix": (["halves", "others"], [(np.float32, 4)], []),
    "functions": (["others"], [np.float32], []),
    "indexed": (["words", "few"], [np.uint32], []),
    "buffers": (["floats"], [np.float32], [np.uint32(4 * COUNT)]),
    "direct": (["words"], [np.uint32], []),
}


def run(name: str, target: str) -> list[np.ndarray]:
    names, results, more = KERNELS[name]
    shapes = [(COUNT, r[1]) if isinstance(r, tuple) else COUNT for r in results]
    types = [r[0] if isinstance(r, tuple) else r for r in results]
    arrays = inputs()[1]
    outputs = [Array(s, t, fill=0) for s, t in zip(shapes, types, strict=True)]
    arguments = [*(arrays[n] for n in names), *outputs, *more]
    with options(arch=target):
        launch(module(target).function(name), arguments, COUNT // THREADS, THREADS)
        return [output.get() for output in outputs]


def divide(v):
    a, b = v["floats"][:COUNT], v["others"][:COUNT]
    return [a / b + np.sqrt(a * a + np.float32(1))]


def divide64(v):
    a, b = v["doubles"], v["divisors"]
    return [a / b + np.sqrt(a * a + 1)]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def integers(v):
    out = []
    for x, y in zip(v["words"][:COUNT], v["more_words"][:COUNT], strict=True):
        a, b = int(x), int(y) | 1
        wide, by = (a * b + (a ^ b)) & LONG, (b << 7) | 3
        small, divisor = signed(a, 32), signed(b, 32)
        quotient = abs(small) // abs(divisor)
        quotient = quotient if (small < 0) == (divisor < 0) else -quotient
        total = wide // by + wide % by + a // b + a % b
        total += (signed(wide, 64) >> (a & 31)) + a.bit_count() + 32 - b.bit_length()
        out.append((total + quotient) & LONG)
    return [np.array(out, np.uint64)]


def dpp_scan(v):
    rows = v["ints"].reshape(-1, 16).copy()
    for shift in (1, 2, 4, 8):
        rows[:, shift:] = rows[:, shift:] + rows[:, :-shift]
    waves = rows.reshape(-1, 64)
    return [(waves + waves[:, 63:] + waves[:, :1]).reshape(-1)]


def scratch(v):
    words, out = v["words"], []
    for i in range(COUNT):
        table = [(int(words[(i + k) & 1023]) + k) & WORD for k in range(64)]
        total = 0
        for k in range(16):
            total = (total * 31 + table[(total + int(words[i]) + k) & 63]) & WORD
        out.append(total)
    return [np.array(out, np.uint32)]


def steps(n: int) -> int:
    count = 0
    while n != 1 and count < 200:
        n = 3 * n + 1 if n & 1 else n // 2
        count += 1
    return count


def calls(v):
    words = v["words"][:COUNT]
    out = [steps(int(w) % 1000 + 1) + steps(i + 1) for i, w in enumerate(words)]
    return [np.array(out, np.uint32)]


def atomics(v):
    words = v["words"][:COUNT]
    counts, sums = np.zeros(COUNT, np.uint32), np.zeros(COUNT, np.float32)
    counts[:16] = np.bincount(words & 15, minlength=16)
    for k in range(4):
        sums[k] = (words[words & 3 == k] & 255).sum()
    return [counts, sums]


def branches(v):
    def branch(w: int) -> int:
        return [
            w * 3,
            sum(k * w for k in range(w & 15)),
            int(f"{w:032b}"[::-1], 2),
            w >> 5 | w << 27,
            w // 10,
            ~w,
            (w & 0xFF00FF) * 17,
        ][w % 7] & WORD

    return [np.array([branch(int(w)) for w in v["words"][:COUNT]], np.uint32)]


def halves(v):
    a, b = v["floats"][:COUNT], v["others"][:COUNT]
    half = np.stack([a, b], 1).astype(np.float16)
    bf16 = np.stack([a, a * b], 1).astype(ml_dtypes.bfloat16)
    return [(half * half + half).view(np.uint32)[:, 0], bf16.view(np.uint32)[:, 0]]


def bytes_(v):
    b = v["bytes"].astype(np.uint32)
    pairs = (b[:COUNT] * 257 + b[1 : COUNT + 1]).astype(np.uint16)
    return [pairs, (b[:COUNT] - b[3 : COUNT + 3]).astype(np.uint8).view(np.int8)]


def indexed(v):
    words, few = v["words"], v["few"]
    return [words[few] + words[few + 7]]


def direct(v):
    tiles = v["words"][:COUNT].reshape(-1, THREADS)
    return [tiles[:, np.arange(THREADS) ^ 65].reshape(-1)]


EXACT = {
    "divide": divide,
    "divide64": divide64,
    "integers": integers,
    "dpp_scan": dpp_scan,
    "scratch": scratch,
    "calls": calls,
    "atomics": atomics,
    "branches": branches,
    "halves": halves,
    "bytes": bytes_,
    "indexed": indexed,
    "buffers": lambda v: [v["floats"][:COUNT] * 2],
    "direct": direct,
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EXACT)
def test_results(name, target):
    for got, want in zip(run(name, target), EXACT[name](inputs()[0]), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_sums(target):
    floats = inputs()[0]["floats"][:COUNT]
    got = run("reduce", target)[0][: COUNT // THREADS]
    np.testing.assert_allclose(got, floats.reshape(-1, THREADS).sum(1), atol=1e-3)
    got = run("wave_sum", target)[0].reshape(-1, 64)
    want = floats.reshape(-1, 64).sum(1, keepdims=True)
    np.testing.assert_allclose(got, np.broadcast_to(want, got.shape), atol=1e-3)


# Removed without being noticed: nops between loads, where a page fault would have the
# hardware repeat a load whose address is gone, which the chips do not do; and nops
# after packed arithmetic, which the compiler takes for a partial write.
MORE_THAN_NEEDED = {"halves", "bytes"}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [n for n in KERNELS if n != "scratch"])
def test_what_the_compiler_inserts_is_needed(name, target):
    with options(arch=target):
        function = module(target).function(name)
        removals = mutate(function, lambda: np.concatenate(run(name, target)), seeds=1)
    assert not [r for r in removals if r.outcome == "unexplained"], summary(removals)
    unneeded = [r for r in removals if r.outcome == "unneeded"]
    assert name in MORE_THAN_NEEDED or not unneeded, summary(removals)
