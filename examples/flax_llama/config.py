"""The configuration of a run, and how it is read from flags and checkpoints.

One dataclass holds all that decides the losses of a run, so that comparing two of
them says whether a checkpoint may be resumed.
"""

from __future__ import annotations

import argparse
import dataclasses
import typing
from typing import Any, Literal

Implementation = Literal["hk", "xla"]


class UserError(Exception):
    """A mistake of the caller's, told in one sentence and without a traceback."""


def option(group: str, default: Any, text: str, least: float | None = 1) -> Any:
    """A field with its place and words in --help.

    `least` is the least value of a number, or None for any above 0.
    """
    return dataclasses.field(
        default=default, metadata={"group": group, "help": text, "least": least}
    )


@dataclasses.dataclass(frozen=True)
class Config:
    """All that decides the losses of a run.

    Axis letters used throughout the example: B batch, T time, D model width,
    N query heads, K key/value heads, H head width, F feed-forward width, V vocabulary.
    """

    implementation: Implementation = option(
        "model", "hk", "what computes the model's ops"
    )
    dim: int = option("model", 256, "model width D")
    layers: int = option("model", 4, "number of decoder blocks")
    heads: int = option("model", 8, "query heads N")
    kv_heads: int = option("model", 2, "key/value heads K; N is a multiple of K")
    head_dim: int = option("model", 64, "head width H, even")
    ffn_dim: int = option("model", 704, "feed-forward width F")
    tied: bool = option("model", True, "use the embedding as the output head too")
    rope_base: float = option("model", 10000.0, "base of the rotary frequencies", None)
    batch: int = option("training", 2, "windows per step B")
    length: int = option("training", 512, "bytes per window T")
    steps: int = option("training", 450, "training steps")
    learning_rate: float = option("training", 1.5e-3, "peak learning rate", None)
    warmup: int = option("training", 60, "steps of linear warm-up", 0)
    weight_decay: float = option("training", 0.1, "AdamW's decay of matrices", 0)
    clip: float = option(
        "training", 1.0, "global norm to which gradients are clipped", None
    )
    seed: int = option(
        "training", 0, "seed of the weights, the data order and the sample", 0
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))
        if self.heads % self.kv_heads:
            raise UserError(
                f"--heads must be a multiple of --kv-heads, got {self.heads} and"
                f" {self.kv_heads}."
            )
        if self.head_dim % 2:
            raise UserError(f"--head-dim must be even, got {self.head_dim}.")

    @property
    def tokens_per_step(self) -> int:
        """Bytes that one step trains on, B * T."""
        return self.batch * self.length


def _check(field: dataclasses.Field, value: Any) -> None:
    """Raises UserError for a number below the field's least value, and for NaN."""
    least = field.metadata["least"]
    if isinstance(value, (bool, str)):
        return
    if least is None and not value > 0:
        raise UserError(f"{flag(field.name)} must be above 0, got {value}.")
    if least is not None and not value >= least:
        raise UserError(f"{flag(field.name)} must be at least {least}, got {value}.")


def flag(name: str) -> str:
    """The command-line flag of a field: `kv_heads` is `--kv-heads`."""
    return "--" + name.replace("_", "-")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds a flag per field; a flag not given is absent from the parsed namespace."""
    hints = typing.get_type_hints(Config)
    groups: dict[str, Any] = {}
    for field in dataclasses.fields(Config):
        group = field.metadata["group"]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        text = f"{field.metadata['help']} (default: {field.default})"
        kind: dict[str, Any] = {"type": hints[field.name]}
        if hints[field.name] is bool:
            kind = {"action": argparse.BooleanOptionalAction}
        elif field.name == "implementation":
            kind = {"choices": typing.get_args(Implementation)}
        else:
            kind["metavar"] = hints[field.name].__name__.upper()
        groups[group].add_argument(
            flag(field.name), default=argparse.SUPPRESS, help=text, **kind
        )


def given_flags(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields that the command line set."""
    names = {field.name for field in dataclasses.fields(Config)}
    return {name: value for name, value in vars(arguments).items() if name in names}


# The checkpoint does not depend on what computed it.
MAY_CHANGE = frozenset({"implementation"})


def resumed(saved: dict[str, Any], given: dict[str, Any]) -> Config:
    """The configuration to resume: the saved one, which flags must not contradict.

    Raises UserError naming every field that differs.
    """
    differing = [
        f"{flag(name)} {saved.get(name)} there, {value} asked for"
        for name, value in given.items()
        if name not in MAY_CHANGE and saved.get(name) != value
    ]
    if differing:
        raise UserError(
            "The checkpoint is of another configuration: " + "; ".join(differing) + "."
        )
    return Config(**{**saved, **given})
