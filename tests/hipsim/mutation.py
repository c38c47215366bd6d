"""Removes each s_waitcnt, s_barrier and s_nop of a kernel in turn.

A removal is noticed if a check of the simulated device stops the launch, or if any bit
of the results changes. What is not noticed is sorted by an argument that the simulated
device computes:

- idle: it was never executed, or never held up anything: no operation was outstanding
  that the wait completes, or the workgroup has a single wave;
- unneeded: every required wait state is kept without the s_nop;
- redundant: other waits and barriers keep the order that this one keeps. Operations
  complete at waits alone, and LDS accesses that no barrier orders are found in whatever
  order the waves run; so a launch that no check stops needs it for nothing but what
  goes through global memory, and no buffer was both read and written.

A removal that none of these covers is unexplained.
"""

import ctypes
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.hipsim import device


@dataclass(frozen=True)
class Removal:
    """An instruction that was left out, and what came of it."""

    offset: int
    text: str
    outcome: str  # noticed, idle, unneeded, redundant or unexplained
    reason: str


def removable(function: ctypes.c_void_p) -> list[dict]:
    """Returns the instructions of a kernel that may be left out."""
    return json.loads(device.library().hipsim_removable_instructions(function))


def _noticed(run: Callable[[], np.ndarray], want: bytes, seeds: int) -> str:
    """Returns what showed that an instruction is missing, or nothing."""
    for seed in range(seeds):
        device.set_option("seed", seed)
        try:
            got = run().tobytes()
        except device.HipError as error:
            return f"{error.check}: {error.report}"
        if got != want:
            return "results"
    return ""


def _unnoticed(item: dict) -> tuple[str, str]:
    if item["effects"] == 0:
        return "idle", "it never held up anything"
    if "nop" in item["text"]:
        return "unneeded", "the required wait states are kept without it"
    if device.statistics()["buffers_read_and_written"] == 0:
        return "redundant", "other waits and barriers keep the order"
    return "unexplained", "a buffer is both read and written"


def mutate(
    function: ctypes.c_void_p, run: Callable[[], np.ndarray], seeds: int = 2
) -> list[Removal]:
    """Leaves each removable instruction out in turn; ``run`` launches the kernel."""
    with device.options(seed=0, skip="none"):
        want = run().tobytes()
        removals = []
        for item in removable(function):
            device.set_option("skip", item["offset"])
            reason = _noticed(run, want, seeds)
            outcome, reason = ("noticed", reason) if reason else _unnoticed(item)
            removals.append(Removal(item["offset"], item["text"], outcome, reason))
    return removals


def summary(removals: list[Removal]) -> str:
    """Returns how many removals of each kind had which outcome."""
    lines = []
    for kind in ("s_waitcnt", "s_barrier", "s_nop"):
        counts = Counter(r.outcome for r in removals if r.text.startswith(kind))
        total = sum(counts.values())
        parts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
        lines.append(f"{kind}: {total} removed: {parts or 'none'}")
    return "\n".join(lines)


def noticed_share(removals: list[Removal]) -> float:
    """Returns the share noticed of those that no argument shows to be harmless."""
    noticed = sum(r.outcome == "noticed" for r in removals)
    unexplained = sum(r.outcome == "unexplained" for r in removals)
    return noticed / max(1, noticed + unexplained)
