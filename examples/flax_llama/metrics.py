"""The losses of a run, kept as one JSON object per line."""

from __future__ import annotations

import json
import pathlib

Series = list[tuple[int, float]]


class Metrics:
    """Losses in nats per byte by step, appended to a file as they come.

    Every line is flushed, so a killed run loses none; JSON keeps a float exactly.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path

    def add(self, step: int, split: str, loss: float) -> None:
        """Appends the loss of "training" or "validation" after `step` steps."""
        with self.path.open("a") as file:
            file.write(json.dumps({"step": step, split: loss}) + "\n")

    def forget_after(self, step: int) -> None:
        """Drops what came after `step`, from where a resumed run begins again."""
        kept = [line for line in self._lines() if line["step"] <= step]
        self.path.write_text("".join(json.dumps(line) + "\n" for line in kept))

    def series(self, split: str) -> Series:
        """(step, loss) of a split."""
        return [(line["step"], line[split]) for line in self._lines() if split in line]

    def _lines(self) -> list[dict]:
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]
