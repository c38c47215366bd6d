"""The results of the bench as a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jax_hipkittens.bench.report import Result

# Colours that stay apart for colour-blind readers (Okabe and Ito).
_COLOURS = {"hk": "#D55E00", "xla": "#0072B2", "torch": "#999999"}
_LABELS = {"hk": "HK", "xla": "XLA", "torch": "PyTorch"}


def draw(path: Path, results: Sequence[Result], title: str) -> None:
    """Writes horizontal bars of each contender's rate, one panel per unit."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    units = list(dict.fromkeys(result.unit for result in results))
    panels = [[r for r in results if r.unit == unit] for unit in units]
    figure, axes = pyplot.subplots(
        len(units),
        1,
        figsize=(9, 1.2 + 0.55 * len(results)),
        squeeze=False,
        gridspec_kw={"height_ratios": [len(panel) for panel in panels]},
        layout="constrained",
    )
    for axis, unit, panel in zip(axes[:, 0], units, panels, strict=True):
        _panel(axis, unit, panel)
    named: dict[str, Any] = {}
    for axis in axes[:, 0]:
        handles, labels = axis.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=len(named),
        frameon=False,
    )
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _panel(axis: Any, unit: str, results: Sequence[Result]) -> None:
    height = 0.8 / len(_COLOURS)
    for slot, (contender, colour) in enumerate(_COLOURS.items()):
        shown = [
            (row, result.rate(contender))
            for row, result in enumerate(results)
            if contender in result.seconds
        ]
        if shown:
            rows, rates = zip(*shown, strict=True)
            places = [row + (slot - 1) * height for row in rows]
            axis.barh(places, rates, height, color=colour, label=_LABELS[contender])
    names = [f"{result.op}  {result.name}" for result in results]
    axis.set_yticks(range(len(results)), names, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel(unit)
    axis.spines[["top", "right"]].set_visible(False)
