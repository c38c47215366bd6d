"""The command line of the bench."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from jax_hipkittens import _ffi, doctor
from jax_hipkittens.bench import (
    cases,
    memory,
    plot,
    report,
    static,
    timing,
    torch_contender,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of ``bench``."""
    parser.add_argument(
        "--op",
        action="append",
        choices=cases.OPS,
        help="time this op alone; may be given several times (default: all)",
    )
    parser.add_argument(
        "--static",
        action="store_true",
        help="print what the compiler made of the GPU kernels, and run nothing",
    )
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--plot", type=Path, help="draw the results to this PNG file")
    parser.add_argument(
        "--seconds",
        type=float,
        default=timing.Budget.seconds,
        help="time spent on each contender of a case (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Measures what was asked for, prints it and writes the files."""
    if options.static:
        print(static.report())
        return 0
    _ffi.require()
    ops = options.op or cases.OPS
    chosen = [case for case in cases.all_cases() if case.op in ops]
    results = _measure_all(chosen, timing.Budget(seconds=options.seconds))
    if results:
        print(_heading())
        print(report.table(results))
    found = memory.measure() if cases.MEMORY in ops else None
    if found is not None:
        print(report.memory_lines(found))
    if options.json:
        report.write_json(options.json, results, found)
    if options.plot and results:
        plot.draw(options.plot, results, _heading())
    return 0


def _heading() -> str:
    facts = report.machine()
    return (
        f"{facts['cpu']}, {facts['threads']} threads, HK on {facts['host_isa']}, "
        f"jaxlib {facts['jaxlib']}"
    )


def _measure_all(
    chosen: Sequence[cases.Case], budget: timing.Budget
) -> list[report.Result]:
    from tqdm import tqdm

    results = []
    with tqdm(chosen, unit="case", disable=not chosen) as progress:
        for case in progress:
            progress.set_description(f"{case.op} {case.name}")
            results.append(_measure(case, budget))
    return results


def _measure(case: cases.Case, budget: timing.Budget) -> report.Result:
    candidates = {
        name: timing.compiled(case, function) for name, function in case.xla.items()
    }
    xla_name, xla = timing.fastest(candidates)
    runs = {"hk": timing.compiled(case, case.hk), "xla": xla}
    torch = torch_contender.contender(case, doctor.threads())
    if torch is not None:
        runs["torch"] = torch
    return report.result_of(case, xla_name, timing.interleave(runs, budget))
