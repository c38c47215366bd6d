"""Checkpoints of the training state with Orbax, and the folder of a run."""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
from typing import Any

import jax
import orbax.checkpoint as ocp

from examples.flax_llama.config import Config, UserError
from examples.flax_llama.metrics import Metrics
from examples.flax_llama.optimise import TrainState, abstract_state


class RunFolder:
    """A folder with the checkpoints, the losses and the picture of one run.

    A checkpoint is the training state and a description: the configuration, where the
    data is, and its fingerprint. Orbax renames a checkpoint into place when it is
    complete, so a run killed while saving keeps the one before.
    """

    def __init__(self, path: pathlib.Path):
        self.path = path.absolute()
        self.metrics = Metrics(self.path / "losses.jsonl")
        self.picture = self.path / "loss.png"
        self._manager = ocp.CheckpointManager(
            self.path / "checkpoints",
            options=ocp.CheckpointManagerOptions(
                max_to_keep=2, enable_async_checkpointing=False
            ),
        )

    @classmethod
    def create(cls, path: pathlib.Path | None) -> RunFolder:
        """A folder for a new run; by default one named after the time, under runs/.

        Raises UserError when it holds a checkpoint already.
        """
        if path is None:
            now = datetime.datetime.now()
            path = pathlib.Path("runs") / now.strftime("%Y-%m-%d-%H%M%S")
        folder = cls(path)
        if folder._manager.latest_step() is not None:
            raise UserError(
                f"{path} holds a run already: continue it with --resume {path}, or"
                " choose another --out."
            )
        # A run that stopped before its first checkpoint begins again.
        folder.metrics.forget_after(0)
        return folder

    @classmethod
    def open(cls, path: pathlib.Path) -> RunFolder:
        """The folder of a run that has a checkpoint; raises UserError otherwise."""
        if (path / "checkpoints").is_dir():
            folder = cls(path)
            if folder._manager.latest_step() is not None:
                return folder
        raise UserError(f"There is no checkpoint to resume in {path}.")

    def save(
        self, state: TrainState, config: Config, data_path: str, fingerprint: str
    ) -> None:
        """Writes a checkpoint of the state; returns when it is on disk."""
        description = {
            "config": dataclasses.asdict(config),
            "data_path": data_path,
            "fingerprint": fingerprint,
        }
        self._manager.save(
            int(state.step),
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state),
                description=ocp.args.JsonSave(description),
            ),
        )

    def description(self) -> dict[str, Any]:
        """What `save` was told of the run: config, data_path and fingerprint."""
        parts = ocp.args.Composite(description=ocp.args.JsonRestore())
        return self._manager.restore(self._manager.latest_step(), args=parts)[
            "description"
        ]

    def restore(self, config: Config) -> TrainState:
        """The state of the latest checkpoint, bit for bit."""
        device = jax.sharding.SingleDeviceSharding(jax.devices()[0])
        abstract = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device),
            abstract_state(config),
        )
        parts = ocp.args.Composite(state=ocp.args.StandardRestore(abstract))
        return self._manager.restore(self._manager.latest_step(), args=parts)["state"]
