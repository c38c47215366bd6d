"""The training loop."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from examples.flax_llama import data
from examples.flax_llama.checkpoint import RunFolder
from examples.flax_llama.config import Config, UserError
from examples.flax_llama.optimise import TrainState, compile_step, loss_function

# The validation loss is a mean over this many windows of T bytes, so many at a time.
VALIDATION_WINDOWS = 32
VALIDATION_BATCH = 8


@contextlib.contextmanager
def announced(text: str) -> Iterator[None]:
    """Says what goes on before, and how long it took after."""
    print(f"{text} ...", end=" ", flush=True)
    begin = time.perf_counter()
    try:
        yield
    except BaseException:
        print()
        raise
    print(f"{time.perf_counter() - begin:.1f} s", flush=True)


def compiled_step(config: Config, state: TrainState) -> Any:
    """The compiled training step; UserError when hk cannot serve the model."""
    try:
        with announced(f"Compiling the training step ({config.implementation})"):
            return compile_step(config, state)
    except NotImplementedError as error:
        raise UserError(f"{error} (--implementation xla runs without HK.)") from error


class Evaluation:
    """The mean loss over fixed windows of the validation split, in nats per byte."""

    def __init__(self, config: Config, tokens: np.ndarray, params: Any):
        count = VALIDATION_WINDOWS // VALIDATION_BATCH
        self._windows = jnp.asarray(
            data.validation_batches(tokens, count, VALIDATION_BATCH, config.length)
        )
        loss = loss_function(config)

        @jax.jit
        def mean(params: Any, windows: jax.Array) -> jax.Array:
            return jnp.mean(jax.lax.map(lambda window: loss(params, window), windows))

        with announced("Compiling the validation loss"):
            self._mean = mean.lower(params, self._windows).compile()

    def __call__(self, params: Any) -> float:
        """The loss of these parameters."""
        return float(self._mean(params, self._windows))


class Fit:
    """Trains to `config.steps`, recording losses and saving checkpoints in a folder."""

    def __init__(self, config: Config, splits: data.Data, data_path: str):
        self.config = config
        self.splits = splits
        self.data_path = data_path
        self.fingerprint = splits.fingerprint()

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
        evaluation = Evaluation(self.config, self.splits.validation, state.params)
        total, done = self.config.steps, int(state.step)
        seconds = 0.0
        with tqdm(total=total, initial=done, unit="step", desc="Training") as bar:
            for number in range(done + 1, total + 1):
                begin = time.perf_counter()
                state, loss = step(state, self.batch(number - 1))
                loss = self._recorded(folder, number, float(loss))
                seconds += time.perf_counter() - begin
                rate = (number - done) * self.config.tokens_per_step / seconds
                text = f"loss {loss:.3f}, {rate:,.0f} tokens/s"
                bar.set_postfix_str(text, refresh=False)  # update() redraws, not often
                bar.update()
                if number % every == 0 or number == total:
                    validation = evaluation(state.params)
                    folder.metrics.add(number, "validation", validation)
                    folder.save(state, self.config, self.data_path, self.fingerprint)
        return state

    def _recorded(self, folder: RunFolder, step: int, loss: float) -> float:
        if not math.isfinite(loss):
            raise UserError(
                f"The loss became {loss} at step {step}: try a lower --learning-rate."
            )
        folder.metrics.add(step, "training", loss)
        return loss
