"""Trains a small Llama on text, byte by byte, on HK kernels.

With no flags it learns the sources of this machine's Python standard library, draws its
losses as a PNG, writes some text of its own, and times the training step on HK kernels
beside the same step on XLA alone. A run that was stopped goes on with --resume FOLDER,
and gives the losses it would have given.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import pathlib
import sys
from typing import Any

from tqdm import trange

# Found from any directory, and after the installed packages.
sys.path.append(str(pathlib.Path(__file__).resolve().parents[2]))

from examples.flax_llama import config as configuration
from examples.flax_llama import data, plot, throughput
from examples.flax_llama.checkpoint import RunFolder
from examples.flax_llama.config import Config, UserError
from examples.flax_llama.loop import Fit, announced, compiled_step
from examples.flax_llama.optimise import TrainState, create_state, parameter_count
from examples.flax_llama.sample import sample


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = result.add_argument
    add(
        "--data",
        metavar="PATH",
        type=pathlib.Path,
        help="text file, or folder of them (default: the Python standard library)",
    )
    add(
        "--out",
        metavar="FOLDER",
        type=pathlib.Path,
        help="folder for a new run (default: runs/ and the time)",
    )
    add(
        "--resume",
        metavar="FOLDER",
        type=pathlib.Path,
        help="continue the run in FOLDER from its latest checkpoint",
    )
    add(
        "--every",
        metavar="STEPS",
        type=_positive,
        default=75,
        help="validation and checkpoint interval (default: %(default)s)",
    )
    add("--prompt", default="def ", help="begin of the sample (default: %(default)r)")
    add(
        "--sample-bytes",
        metavar="BYTES",
        type=_count,
        default=240,
        help="length of the sample, 0 for none (default: %(default)s)",
    )
    add(
        "--compare-pairs",
        metavar="PAIRS",
        type=_count,
        default=5,
        help="pairs of steps timed, HK beside XLA; 0 for none (default: %(default)s)",
    )
    configuration.add_flags(result)
    return result


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {value}")
    return value


def run(arguments: argparse.Namespace) -> None:
    """The whole run: data, training, picture, sample and comparison."""
    if arguments.sample_bytes and not arguments.prompt:
        raise UserError("--prompt may not be empty: the first byte follows from it.")
    folder, config, fit, state = prepare(arguments)
    entropy = data.unigram_entropy(fit.splits.validation)
    print_summary(config, fit, state, folder, entropy)
    step = compiled_step(config, state)
    try:
        state = fit(step, state, folder, arguments.every)
    except KeyboardInterrupt:
        print(f"Stopped: --resume {folder.path} continues from the last checkpoint.")
        raise

    plot.save_losses(
        folder.picture,
        folder.metrics.series("training"),
        folder.metrics.series("validation"),
        entropy,
    )
    loss = folder.metrics.series("validation")[-1][1]
    print(f"Validation loss {in_units(loss)}; unigram entropy {in_units(entropy)}.")
    print(f"Losses drawn in {folder.picture}")
    if arguments.sample_bytes:
        print_sample(config, state, arguments.prompt, arguments.sample_bytes)
    if arguments.compare_pairs:
        print_comparison(config, step, state, fit.batch(0), arguments.compare_pairs)


def prepare(arguments: argparse.Namespace) -> tuple[RunFolder, Config, Fit, TrainState]:
    """A new run's beginning, or the latest checkpoint of the run to resume."""
    given = configuration.given_flags(arguments)
    if arguments.resume is None:
        config = Config(**given)
        fit = load(arguments.data or data.default_path(), config)
        return RunFolder.create(arguments.out), config, fit, create_state(config)

    if arguments.out is not None:
        raise UserError("--resume continues in its own folder: leave --out away.")
    folder = RunFolder.open(arguments.resume)
    saved = folder.description()
    config = configuration.resumed(saved["config"], given)
    fit = load(arguments.data or pathlib.Path(saved["data_path"]), config)
    if fit.fingerprint != saved["fingerprint"]:
        raise UserError(
            f"The text at {fit.data_path} is not the one this run began with."
        )
    state = folder.restore(config)
    folder.metrics.forget_after(int(state.step))
    return folder, config, fit, state


def load(path: pathlib.Path, config: Config) -> Fit:
    """The training job on the text at a path."""
    with announced(f"Reading {path}"):
        splits = data.load(path.absolute(), config.length)
    return Fit(config, splits, str(path.absolute()))


def in_units(nats: float) -> str:
    """A loss in nats and in bits per byte."""
    return f"{nats:.3f} nats/byte ({nats / math.log(2):.3f} bits)"


def print_summary(
    config: Config, fit: Fit, state: TrainState, folder: RunFolder, entropy: float
) -> None:
    """What is about to be trained, on what, and where the results go."""
    train, validation = fit.splits
    print(
        f"{len(train):,} bytes to train on, {len(validation):,} to validate;"
        f" unigram entropy {in_units(entropy)}\n"
        f"{parameter_count(state.params):,} parameters, {config.layers} layers;"
        f" {config.heads} query heads share {config.kv_heads} key/value heads\n"
        f"Steps {int(state.step)} to {config.steps} of {config.tokens_per_step:,}"
        f" tokens; results in {folder.path}"
    )


def print_sample(config: Config, state: TrainState, prompt: str, count: int) -> None:
    """Some text of the model's own."""
    with announced(f"Sampling {count} bytes"):
        text = sample(config, state.params, prompt, count, seed=config.seed)
    print(f"{'-' * 72}\n{text}\n{'-' * 72}")


def print_comparison(
    config: Config, step: Any, state: TrainState, window: Any, pairs: int
) -> None:
    """Tokens per second of the step on HK and on XLA, timed in alternating pairs."""
    steps = {config.implementation: step}
    try:
        for name in ("hk", "xla"):
            other = dataclasses.replace(config, implementation=name)
            steps[name] = steps.get(name) or compiled_step(other, state)
    except UserError as error:
        print(f"No comparison of HK with XLA: {error}")
        return
    result = throughput.compare(
        steps["hk"], steps["xla"], state, window, trange(pairs, desc="HK beside XLA")
    )
    tokens = config.tokens_per_step
    print(
        f"Training step: HK {tokens / result.first:,.0f} tokens/s,"
        f" XLA {tokens / result.second:,.0f} tokens/s, ratio {result.ratio:.2f}"
        f" (medians of {pairs} alternating pairs)"
    )


def main() -> int:
    """Runs the command line; a caller's mistake is one sentence on stderr."""
    arguments = parser().parse_args()
    try:
        run(arguments)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
