"""Production shapes of matrix products, for tests and benchmarks."""

from typing import NamedTuple


class GemmShape(NamedTuple):
    """[M, K] times [K, N], ``batch`` of them."""

    name: str
    batch: int
    m: int
    k: int
    n: int


SHAPES = (
    GemmShape("square_2048", 1, 2048, 2048, 2048),
    GemmShape("flax_llama_up", 1, 2048, 256, 704),
    GemmShape("flax_llama_head", 1, 2048, 256, 256),
    GemmShape("gpt2_small_mlp", 1, 1024, 768, 3072),
    GemmShape("llama3_8b_decode", 1, 4, 4096, 4096),
    GemmShape("attention_scores", 32, 256, 64, 256),
)
