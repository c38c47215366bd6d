"""Results of the bench: as rows of text and as JSON."""

import dataclasses
import json
import statistics
from collections.abc import Sequence
from pathlib import Path

import jax
import jaxlib

from jax_hipkittens import _ffi, doctor
from jax_hipkittens.bench import memory, timing
from jax_hipkittens.bench.cases import Case


@dataclasses.dataclass(frozen=True)
class Result:
    """One measured case.

    Attributes:
      op: the op.
      name: shape, dtype and direction.
      unit: "GFLOP/s" or "GB/s".
      work: operations or bytes of one run.
      xla_name: which of the XLA candidates was the fastest.
      seconds: medians by contender: "hk", "xla" and, where it has one, "torch".
      speedup: HK's speed by contender, as the median over rounds of their ratios.
      target: the speed-up HK should reach, by contender.
    """

    op: str
    name: str
    unit: str
    work: float
    xla_name: str
    seconds: dict[str, float]
    speedup: dict[str, float]
    target: dict[str, float]

    def rate(self, contender: str) -> float:
        """Work per second, in units of 10^9."""
        return self.work / self.seconds[contender] / 1e9


def result_of(case: Case, xla_name: str, times: dict[str, list[float]]) -> Result:
    """Sums up the rounds of one case."""
    others = [name for name in times if name != "hk"]
    target = dataclasses.asdict(case.target)
    return Result(
        op=case.op,
        name=case.name,
        unit=case.unit,
        work=case.work,
        xla_name=xla_name,
        seconds={name: statistics.median(spent) for name, spent in times.items()},
        speedup={
            name: timing.median_ratio(times[name], times["hk"]) for name in others
        },
        target={name: target[name] for name in others if target[name] is not None},
    )


def machine() -> dict[str, str | int]:
    """What the numbers were taken on."""
    return {
        "cpu": doctor.cpu_name(),
        "threads": doctor.threads(),
        "host_isa": _ffi.require().host_isa(),
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
    }


_COLUMNS = (
    ("op", 10),
    ("case", 41),
    ("HK ms", 9),
    ("rate", 14),
    ("XLA ms", 9),
    ("HK/XLA", 15),
    ("PyTorch ms", 10),
    ("HK/PyTorch", 15),
)


def table(results: Sequence[Result]) -> str:
    """One line per case; "of 4.0" is the speed-up wanted, "!" one not reached."""
    rows = [tuple(name for name, _ in _COLUMNS), *map(_cells, results)]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, (_, width)) in enumerate(zip(row, _COLUMNS, strict=True))
        ).rstrip()
        for row in rows
    )


def _cells(result: Result) -> tuple[str, ...]:
    def milliseconds(contender: str) -> str:
        seconds = result.seconds.get(contender)
        return "-" if seconds is None else f"{1e3 * seconds:.2f}"

    return (
        result.op,
        result.name,
        milliseconds("hk"),
        f"{result.rate('hk'):.1f} {result.unit}",
        milliseconds("xla"),
        _speedup(result, "xla"),
        milliseconds("torch"),
        _speedup(result, "torch"),
    )


def _speedup(result: Result, contender: str) -> str:
    if contender not in result.speedup:
        return "-"
    text = f"{result.speedup[contender]:.2f}x"
    if contender not in result.target:
        return text
    missed = result.speedup[contender] < result.target[contender]
    return f"{text} of {result.target[contender]:.2f}{'!' if missed else ' '}"


def memory_lines(found: memory.Memory) -> str:
    """The memory of attention, in words."""
    verdict = "below" if found.hk_measured < memory.LIMIT_MIB else "ABOVE"
    return (
        f"attention forward and backward at T = S = {found.length}, N8 K2 D128 bf16,\n"
        f"memory beyond inputs, outputs and gradients:\n"
        f"  HK, measured peak           {found.hk_measured:10.1f} MiB "
        f"({verdict} the limit of {memory.LIMIT_MIB:.0f})\n"
        f"  HK, planned by XLA          {found.hk_planned:10.1f} MiB\n"
        f"  XLA without HK, planned     {found.xla_planned:10.1f} MiB"
    )


def write_json(
    path: Path, results: Sequence[Result], found: memory.Memory | None
) -> None:
    """Everything measured, with what it was measured on."""
    content = {
        "machine": machine(),
        "cases": [dataclasses.asdict(result) for result in results],
        "memory": None if found is None else dataclasses.asdict(found),
    }
    path.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
