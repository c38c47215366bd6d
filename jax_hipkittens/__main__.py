"""Command line: ``python -m jax_hipkittens doctor`` and ``... bench``."""

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m jax_hipkittens")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "doctor", help="say what this machine can run, and why not more"
    )
    bench = commands.add_parser("bench", help="time the ops against XLA and PyTorch")
    # Imported late: each command needs only its own packages.
    from jax_hipkittens.bench import cli

    cli.add_arguments(bench)
    options = parser.parse_args(arguments)
    if options.command == "bench":
        return cli.run(options)
    from jax_hipkittens import doctor

    print(doctor.report())
    return 0


if __name__ == "__main__":
    sys.exit(main())
