"""Shapes that models really use, shared by the tests and the bench."""

from typing import NamedTuple


class NormShape(NamedTuple):
    """x [rows, hidden] normalised over ``hidden`` by ``kind`` ("layer" or "rms")."""

    name: str
    kind: str
    rows: int
    hidden: int


SHAPES = (
    NormShape("layer_norm_2048", "layer", 8192, 2048),
    NormShape("rms_norm_2048", "rms", 8192, 2048),
    NormShape("gpt2_small", "layer", 1024, 768),
    NormShape("gpt2_xl", "layer", 1024, 1600),
    NormShape("llama3_8b", "rms", 2048, 4096),
    NormShape("llama3_70b", "rms", 1024, 8192),
    NormShape("query_heads", "rms", 16384, 128),
)
