"""Text drawn from a model."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from examples.flax_llama.config import Config
from examples.flax_llama.model import Llama

TEMPERATURE = 0.8


@functools.partial(jax.jit, static_argnums=0)
def _draw(
    graph: nnx.GraphDef,
    params: nnx.State,
    buffer: jax.Array,
    start: jax.Array,
    key: jax.Array,
) -> jax.Array:
    """Fills buffer s32[1, T] from position `start` on, one byte per turn.

    Every turn runs the whole buffer: attention is causal, so what lies at and past the
    position does not reach the logits before it, and one compiled length serves all.
    """
    model = nnx.merge(graph, params)

    def turn(position: jax.Array, buffer: jax.Array) -> jax.Array:
        logits = model(buffer)[0, position - 1]
        draw = jax.random.fold_in(key, position)
        token = jax.random.categorical(draw, logits / TEMPERATURE)
        return buffer.at[0, position].set(token.astype(buffer.dtype))

    return jax.lax.fori_loop(start, buffer.shape[1], turn, buffer)


def sample(
    config: Config, params: nnx.State, prompt: str, count: int, *, seed: int
) -> str:
    """The prompt followed by `count` bytes, drawn at TEMPERATURE from the seed.

    Bytes that are no UTF-8 show as replacement characters. The prompt may not be empty.
    """
    start = np.frombuffer(prompt.encode(), np.uint8)
    buffer = np.zeros((1, len(start) + count), np.int32)
    buffer[0, : len(start)] = start
    graph = nnx.graphdef(nnx.eval_shape(lambda: Llama(config, nnx.Rngs(0))))
    drawn = _draw(graph, params, buffer, jnp.int32(len(start)), jax.random.key(seed))
    return bytes(np.asarray(drawn[0]).astype(np.uint8)).decode(errors="replace")
