"""A Llama in flax.nnx: RMSNorm, rotary, grouped-query attention, SwiGLU.

Attention, projections, norms and rotary are ops of jax_hipkittens, computed by
`config.implementation`; what is left to XLA goes element by element. Parameters are f32
and are rounded to bf16 where they are used; activations are bf16; logits are f32.

Axis letters: B batch, T time, D model width, N query heads, K key/value heads, H head
width, F feed-forward width, V vocabulary.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

import jax_hipkittens as hk
from examples.flax_llama.config import Config, Implementation
from examples.flax_llama.data import VOCABULARY

DTYPE = jnp.bfloat16
NORM_EPSILON = 1e-6
# Standard deviation of a fresh embedding. A tied head then begins with small logits.
EMBEDDING_SCALE = 0.02


class Linear(nnx.Module):
    """x[B, T, I] @ kernel[I, O], without bias."""

    def __init__(self, inputs: int, outputs: int, config: Config, rngs: nnx.Rngs):
        draw = jax.random.normal(rngs.params(), (inputs, outputs), jnp.float32)
        self.kernel = nnx.Param(draw * inputs**-0.5)
        self.implementation = config.implementation

    def __call__(self, x: jax.Array, dtype: Any = None) -> jax.Array:
        """Gives y[B, T, O] in `dtype`, or DTYPE if None."""
        # The leading axes are one GEMM's rows, [B * T, I].
        rows = x.reshape(-1, x.shape[-1])
        kernel = self.kernel[...].astype(x.dtype)
        y = hk.matmul(
            rows,
            kernel,
            preferred_element_type=DTYPE if dtype is None else dtype,
            implementation=self.implementation,
        )
        return y.reshape(*x.shape[:-1], y.shape[-1])


class Norm(nnx.Module):
    """RMSNorm over D, with the addition to the residual stream that precedes it."""

    def __init__(self, config: Config):
        self.scale = nnx.Param(jnp.ones(config.dim, jnp.float32))
        self.implementation = config.implementation

    def __call__(
        self, x: jax.Array, residual: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Gives norm(h) and h = x + residual, both [B, T, D]."""
        return hk.rms_norm(
            x,
            self.scale[...],
            residual=residual,
            epsilon=NORM_EPSILON,
            implementation=self.implementation,
        )


class Attention(nnx.Module):
    """Causal grouped-query attention on rotated queries and keys."""

    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.config = config
        width = (config.heads + 2 * config.kv_heads) * config.head_dim
        # One projection for queries, keys and values: D -> (N + 2 K) H.
        self.qkv = Linear(config.dim, width, config, rngs)
        self.out = Linear(config.heads * config.head_dim, config.dim, config, rngs)

    def __call__(self, x: jax.Array, tables: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Maps [B, T, D] to the same, with rotary tables (cos, sin) [T, H / 2]."""
        c = self.config
        b, t, _ = x.shape
        heads = self.qkv(x).reshape(b, t, c.heads + 2 * c.kv_heads, c.head_dim)
        q, k, v = jax.lax.split(heads, (c.heads, c.kv_heads, c.kv_heads), axis=2)
        rotate = functools.partial(hk.rotary, implementation=c.implementation)
        y = hk.attention(
            rotate(q, *tables),  # [B, T, N, H]
            rotate(k, *tables),  # [B, T, K, H]
            v,
            is_causal=True,
            implementation=c.implementation,
        )
        return self.out(y.reshape(b, t, c.heads * c.head_dim))


@jax.checkpoint
def gated(gate_up: jax.Array) -> jax.Array:
    """SwiGLU's product, silu(gate) * up: [B, T, 2 F] -> [B, T, F].

    Under jax.checkpoint, the backward keeps gate_up alone.
    """
    gate, up = jnp.split(gate_up, 2, axis=-1)
    wide = jax.nn.silu(gate.astype(jnp.float32)) * up.astype(jnp.float32)
    return wide.astype(gate_up.dtype)


class FeedForward(nnx.Module):
    """SwiGLU: (silu(x Wg) * (x Wu)) Wd, with Wg and Wu side by side in one GEMM."""

    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.gate_up = Linear(config.dim, 2 * config.ffn_dim, config, rngs)
        self.down = Linear(config.ffn_dim, config.dim, config, rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Maps [B, T, D] to the same."""
        return self.down(gated(self.gate_up(x)))


class Block(nnx.Module):
    """A decoder block.

    It takes and gives the residual stream as a pair (delta, residual), whose sum is the
    stream: the next norm adds them in the same pass over memory.
    """

    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.attention_norm = Norm(config)
        self.attention = Attention(config, rngs)
        self.ffn_norm = Norm(config)
        self.ffn = FeedForward(config, rngs)

    def __call__(
        self,
        delta: jax.Array,
        residual: jax.Array,
        tables: tuple[jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array]:
        """Gives the next (delta, residual), both [B, T, D]."""
        y, residual = self.attention_norm(delta, residual)
        y, residual = self.ffn_norm(self.attention(y, tables), residual)
        return self.ffn(y), residual


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def embed(
    table: jax.Array, tokens: jax.Array, implementation: Implementation
) -> jax.Array:
    """Rows of table[V, D] for tokens[B, T], as bf16[B, T, D].

    The gradient is a GEMM with the one-hot tokens, which at V = 256 is far quicker on a
    CPU than the scatter that XLA derives.
    """
    del implementation
    return table.astype(DTYPE)[tokens]


def _embed_forward(
    table: jax.Array, tokens: jax.Array, implementation: Implementation
) -> tuple[jax.Array, jax.Array]:
    return embed(table, tokens, implementation), tokens


def _embed_backward(
    implementation: Implementation, tokens: jax.Array, gradient: jax.Array
) -> tuple[jax.Array, None]:
    one_hot = jax.nn.one_hot(tokens.reshape(-1), VOCABULARY, dtype=gradient.dtype)
    rows = gradient.reshape(-1, gradient.shape[-1])
    over_rows = (((0,), (0,)), ((), ()))  # [B T, V], [B T, D] -> [V, D]
    d_table = hk.dot_general(
        one_hot,
        rows,
        over_rows,
        preferred_element_type=jnp.float32,
        implementation=implementation,
    )
    return d_table, None


embed.defvjp(_embed_forward, _embed_backward)


class Llama(nnx.Module):
    """Bytes [B, T] to logits f32[B, T, V] of the byte that follows each."""

    def __init__(self, config: Config, rngs: nnx.Rngs):
        self.config = config
        draw = jax.random.normal(rngs.params(), (VOCABULARY, config.dim), jnp.float32)
        self.embedding = nnx.Param(draw * EMBEDDING_SCALE)
        self.blocks = nnx.List([Block(config, rngs) for _ in range(config.layers)])
        self.norm = Norm(config)
        self.head = (
            None if config.tied else Linear(config.dim, VOCABULARY, config, rngs)
        )

    def __call__(self, tokens: jax.Array) -> jax.Array:
        """Gives the logits f32[B, T, V]."""
        c = self.config
        tables = hk.rotary_tables(tokens.shape[1], c.head_dim, base=c.rope_base)
        # Scaled, so that what the first blocks add does not drown the bytes themselves.
        table = self.embedding[...] * c.dim**0.5
        delta = embed(table, tokens, c.implementation)
        residual = jnp.zeros_like(delta)
        for block in self.blocks:
            delta, residual = block(delta, residual, tables)
        y, _ = self.norm(delta, residual)
        return self._logits(y)

    def _logits(self, y: jax.Array) -> jax.Array:
        if self.head is not None:
            return self.head(y, jnp.float32)
        rows_by_rows = (((2,), (1,)), ((), ()))  # [B, T, D], [V, D] -> [B, T, V]
        return hk.dot_general(
            y,
            self.embedding[...].astype(y.dtype),
            rows_by_rows,
            preferred_element_type=jnp.float32,
            implementation=self.config.implementation,
        )


def cross_entropy(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Mean of -log softmax(logits f32[B, T, V]) at targets[B, T], in nats per byte.

    The target's logit is picked by comparison, so that the gradient is one fused pass
    rather than a scatter.
    """
    is_target = jnp.arange(logits.shape[-1]) == targets[..., None]
    target = jnp.sum(jnp.where(is_target, logits, 0), axis=-1)
    return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - target)
