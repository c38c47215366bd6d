"""The training loop."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
from tqdm import tqdm

from examples.flax_llama import data
from examples.flax_llama.checkpoint import RunFolder
from examples.flax_llama.config import Config, UserError
from examples.flax_llama.optimise import TrainState, compile_step, loss_function

# Windows on which the validation loss is measured, in batches of the training's size.
VALIDATION_BATCHES = 8


@contextlib.contextmanager
def announced(text: str) -> Iterator[None]:
    """Says what goes on before, and how long it took after."""
    print(f"{text} ...", end=" ", flush=True)
    begin = time.perf_counter()
    yield
    print(f"{time.perf_counter() - begin:.1f} s", flush=True)


def compiled_step(config: Config, state: TrainState) -> Any:
    """The compiled training step; UserError when hk cannot serve the model."""
    try:
        with announced(f"Compiling the training step ({config.implementation})"):
            return compile_step(config, state)
    except NotImplementedError as error:
        print()
        raise UserError(f"{error} (--implementation xla runs without HK.)") from error


class Evaluation:
    """The mean loss over fixed windows of the validation split."""

    def __init__(self, config: Config, tokens: Any):
        windows = data.validation_batches(
            tokens, VALIDATION_BATCHES, config.batch, config.length
        )
        self.windows = jnp.asarray(windows)
        loss = loss_function(config)
        self._mean = jax.jit(
            lambda params, windows: jnp.mean(
                jax.lax.map(lambda window: loss(params, window), windows)
            )
        )

    def __call__(self, state: TrainState) -> float:
        """Nats per byte."""
        return float(self._mean(state.params, self.windows))


class Fit:
    """Trains from a state to `config.steps`, recording and saving in a folder."""

    def __init__(self, config: Config, splits: data.Data, data_path: str):
        self.config = config
        self.splits = splits
        self.data_path = data_path
        self.fingerprint = splits.fingerprint()
        self.evaluation = Evaluation(config, splits.validation)

    def batch(self, step: int) -> jax.Array:
        """The window s32[B, T+1] that follows `step` done steps."""
        c = self.config
        return jnp.asarray(
            data.training_batch(self.splits.train, c.seed, step, c.batch, c.length)
        )

    def __call__(
        self, step: Any, state: TrainState, folder: RunFolder, every: int
    ) -> TrainState:
        """Runs the compiled `step`; evaluates and saves every so often and at the end.

        Consumes `state`. Raises UserError when the loss is no longer finite.
        """
        total, done = self.config.steps, int(state.step)
        seconds = 0.0
        with tqdm(total=total, initial=done, unit="step", desc="Training") as bar:
            for number in range(done + 1, total + 1):
                begin = time.perf_counter()
                state, loss = step(state, self.batch(number - 1))
                loss = self._recorded(folder, number, float(loss))
                seconds += time.perf_counter() - begin
                rate = (number - done) * self.config.tokens_per_step / seconds
                bar.set_postfix_str(f"loss {loss:.3f}, {rate:,.0f} tokens/s")
                bar.update()
                if number % every == 0 or number == total:
                    self._save(folder, state)
        return state

    def _recorded(self, folder: RunFolder, step: int, loss: float) -> float:
        if not math.isfinite(loss):
            raise UserError(
                f"The loss became {loss} at step {step}: try a lower --learning-rate."
            )
        folder.metrics.add(step, "training", loss)
        return loss

    def _save(self, folder: RunFolder, state: TrainState) -> None:
        folder.metrics.add(int(state.step), "validation", self.evaluation(state))
        folder.save(state, self.config, self.data_path, self.fingerprint)
