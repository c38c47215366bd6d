"""Production shapes of attention, for tests and benchmarks."""

from typing import NamedTuple


class AttentionShape(NamedTuple):
    """B batch, T queries, S keys, N query and K key/value heads, D head dimension."""

    name: str
    batch: int
    queries: int
    keys: int
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def query(self) -> tuple[int, int, int, int]:
        """[B, T, N, D]."""
        return self.batch, self.queries, self.heads, self.head_dim

    @property
    def key(self) -> tuple[int, int, int, int]:
        """[B, S, K, D], of key and value."""
        return self.batch, self.keys, self.kv_heads, self.head_dim


SHAPES = (
    AttentionShape("llama3_8b_slice", 1, 2048, 2048, 8, 2, 128),
    AttentionShape("flax_llama", 8, 256, 256, 8, 2, 32),
    AttentionShape("vit_b16", 4, 197, 197, 12, 12, 64),
    AttentionShape("whisper_cross", 1, 448, 1500, 8, 8, 64),
    AttentionShape("gemma_2b_mqa", 1, 512, 512, 8, 1, 256),
    AttentionShape("llama3_8b_decode", 4, 1, 2048, 32, 8, 128),
)
