"""Configuration: checks, flags, and what a resumed run may change."""

import argparse
import dataclasses

import pytest

from examples.flax_llama.config import (
    Config,
    UserError,
    add_flags,
    given_flags,
    resumed,
)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"dim": 0}, "--dim must be at least 1, got 0."),
        ({"heads": 6, "kv_heads": 4}, "--heads must be a multiple of --kv-heads"),
        ({"head_dim": 7}, "--head-dim must be even, got 7."),
        ({"learning_rate": 0.0}, "--learning-rate must be above 0, got 0.0."),
        ({"seed": -1}, "--seed must be at least 0, got -1."),
        ({"clip": float("nan")}, "--clip must be above 0, got nan."),
    ],
)
def test_a_wrong_value_is_named(fields, sentence):
    with pytest.raises(UserError, match=sentence):
        Config(**fields)


def test_only_flags_that_were_given_count():
    parser = argparse.ArgumentParser()
    add_flags(parser)
    words = "--dim 64 --no-tied --learning-rate 0.5 --implementation xla".split()
    expected = {
        "dim": 64,
        "tied": False,
        "learning_rate": 0.5,
        "implementation": "xla",
    }
    assert given_flags(parser.parse_args(words)) == expected
    assert given_flags(parser.parse_args([])) == {}


def test_a_resumed_run_keeps_its_configuration():
    saved = dataclasses.asdict(Config(dim=64, implementation="hk"))
    assert resumed(saved, {"implementation": "xla"}) == Config(
        dim=64, implementation="xla"
    )
    with pytest.raises(UserError) as error:
        resumed(saved, {"dim": 96, "layers": 9, "heads": 8})
    assert str(error.value) == (
        "The checkpoint is of another configuration: --dim 64 there, 96 asked for;"
        f" --layers {Config().layers} there, 9 asked for."
    )
