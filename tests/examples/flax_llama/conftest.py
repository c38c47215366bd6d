"""A model small enough that a step takes milliseconds."""

import pytest

from examples.flax_llama.config import Config

TINY = {
    "dim": 32,
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "ffn_dim": 48,
    "batch": 2,
    "length": 32,
    "steps": 40,
    "warmup": 4,
    "learning_rate": 3e-2,
}


@pytest.fixture
def tiny() -> dict[str, int | float]:
    """The fields of the tiny configuration."""
    return dict(TINY)


@pytest.fixture(params=["hk", "xla"])
def config(request: pytest.FixtureRequest) -> Config:
    """The tiny configuration under each implementation."""
    return Config(implementation=request.param, **TINY)


@pytest.fixture
def tiny_flags() -> list[str]:
    """The command-line flags of the tiny configuration."""
    pairs = (
        ("--" + name.replace("_", "-"), str(value)) for name, value in TINY.items()
    )
    return [word for pair in pairs for word in pair]
