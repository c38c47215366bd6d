"""Shapes that models really use, shared by the tests and the bench."""

from typing import NamedTuple


class RotaryShape(NamedTuple):
    """x [batch, length, heads, dim]; the first ``rotary_dim`` of ``dim`` rotate."""

    name: str
    batch: int
    length: int
    heads: int
    dim: int
    rotary_dim: int
    interleaved: bool


SHAPES = (
    RotaryShape("heads8_dim128", 1, 2048, 8, 128, 128, False),
    RotaryShape("llama3_8b", 1, 2048, 32, 128, 128, False),
    RotaryShape("gpt_j", 1, 2048, 16, 256, 64, True),
    RotaryShape("gpt_neox", 1, 2048, 64, 96, 24, False),
)
