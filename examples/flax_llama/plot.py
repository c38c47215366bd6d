"""The picture of a run: training and validation loss by step."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from matplotlib.figure import Figure


def save_losses(
    path: pathlib.Path,
    train: Sequence[tuple[int, float]],
    validation: Sequence[tuple[int, float]],
    entropy: float,
) -> None:
    """Draws (step, nats per byte) of both splits and the unigram entropy as a PNG."""
    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*train, strict=True), color="tab:blue", alpha=0.4, label="training")
    if validation:
        steps, losses = zip(*validation, strict=True)
        axes.plot(steps, losses, "o-", color="tab:orange", label="validation")
    axes.axhline(entropy, color="0.4", ls="--", label=f"unigram entropy, {entropy:.2f}")
    axes.set(xlabel="step", ylabel="loss (nats per byte)", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)
