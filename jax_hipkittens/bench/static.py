"""Figures of the GPU kernels that need no GPU: from the build's reports and hot loops.

The build leaves, beside each code object, a report (registers, LDS, spills) and the
assembly of every kernel's hot loop. This module counts a loop's instructions and, where
an llvm-mca that knows the chip is installed, asks it how long one wave takes.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

# What instructions are counted as; the first pattern that matches decides.
_CLASSES = {
    "mfma": r"v_mfma|v_smfmac",
    "ds_read_b128": r"ds_read_b128",
    "ds_read_tr": r"ds_read_b64_tr",
    "ds_other": r"ds_",
    "lds_load": r"(buffer|global)_load.*\blds$",
    "vmem": r"(buffer|global|flat)_",
    "scratch": r"scratch_",
    "valu": r"v_",
    "barrier": r"s_barrier",
    "wait": r"s_waitcnt",
    "nop": r"s_nop",
    "priority": r"s_setprio",
    "branch": r"s_c?branch",
    "salu": r"s_",
}
_MCA_NAMES = ("llvm-mca", *(f"llvm-mca-{version}" for version in range(40, 18, -1)))


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel of a code object: its report, its hot loop and what is counted of it."""

    name: str
    target: str
    facts: dict[str, int]
    loop: tuple[str, ...]

    @property
    def counts(self) -> dict[str, int]:
        """The loop's instructions by class, all classes present."""
        found = collections.Counter(_class_of(line) for line in self.loop)
        return {name: found.get(name, 0) for name in _CLASSES}


def device_folder() -> Path:
    """Where the code objects of the installed package lie."""
    from jax_hipkittens import _hk

    assert _hk.__file__ is not None
    return Path(_hk.__file__).parent / "device"


def read_kernels(folder: Path, family: str, target: str) -> dict[str, Kernel]:
    """All kernels of a code object, by name."""
    report: dict[str, Any] = json.loads(
        (folder / f"{family}.{target}.json").read_text()
    )
    loops = _read_loops((folder / f"{family}.{target}.loops").read_text())
    return {
        name: Kernel(name, target, facts, loops[name])
        for name, facts in report["kernels"].items()
    }


def mca_cycles(kernel: Kernel) -> float | None:
    """Units of 4 clocks that one wave takes for an iteration of the hot loop.

    None if no llvm-mca that knows the chip is installed. An estimate from below: it
    knows the latencies and the issue of one wave, but neither the second wave of a
    SIMD, nor the bandwidth of LDS, nor barriers, which are left out.
    """
    tool = next((path for name in _MCA_NAMES if (path := shutil.which(name))), None)
    if tool is None:
        return None
    iterations = 20
    options = ["-mtriple=amdgcn-amd-amdhsa", f"-mcpu={kernel.target}"]
    options += [
        f"-iterations={iterations}",
        "-instruction-info=0",
        "-resource-pressure=0",
    ]
    left_out = re.compile(r"s_c?branch|s_barrier")
    text = "\n".join(line for line in kernel.loop if not left_out.match(line))
    done = subprocess.run(
        [tool, *options], input=text + "\n", capture_output=True, text=True, check=False
    )
    total = re.search(r"Total Cycles:\s+(\d+)", done.stdout)
    if done.returncode != 0 or total is None or "not a recognized" in done.stderr:
        return None
    return int(total[1]) / iterations


def report() -> str:
    """The tables of all code objects of this build, by target and family."""
    folder = device_folder()
    sections = [
        "Figures from the compiler: no GPU has run these kernels. Instructions are "
        "those of the hot loop.\nmca: llvm-mca's estimate for one wave, in units of 4 "
        "clocks, where one that knows the chip is installed.",
    ]
    for path in sorted(folder.glob("*.co")):
        family, target = path.stem.split(".")
        facts = json.loads(path.with_suffix(".json").read_text())
        heading = f"{family} on {target}, by {facts['compiler']}"
        sections.append(f"{heading}\n{table(folder, family, target)}")
    if len(sections) == 1:
        sections.append(
            "This build has no kernels for GPUs: "
            "HK_TARGETS was empty or HK_BUILD_DEVICE off."
        )
    return "\n\n".join(sections)


def table(folder: Path, family: str, target: str) -> str:
    """The figures of a code object's kernels as text, one line each."""
    columns = ("vgpr", "agpr", "sgpr", "lds_bytes", "waves_per_simd")
    counted = ("mfma", "ds_read_b128", "ds_read_tr", "lds_load", "valu", "barrier")
    rows: list[tuple[str, ...]] = [("kernel", *columns, *counted, "mca")]
    for kernel in read_kernels(folder, family, target).values():
        facts = (str(kernel.facts[name]) for name in columns)
        counts = (str(kernel.counts[name]) for name in counted)
        cycles = mca_cycles(kernel)
        rows.append(
            (kernel.name, *facts, *counts, "-" if cycles is None else f"{cycles:.0f}")
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _class_of(line: str) -> str:
    return next(name for name, pattern in _CLASSES.items() if re.match(pattern, line))


def _read_loops(text: str) -> dict[str, tuple[str, ...]]:
    loops: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("\t"):
            loops[name].append(line.strip())
        elif not line.startswith("."):
            name = line.rstrip(":")
            loops[name] = []
    return {name: tuple(lines) for name, lines in loops.items()}
