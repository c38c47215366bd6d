"""The training state, and the jitted training and evaluation steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from examples.flax_llama.config import Config
from examples.flax_llama.model import Llama, cross_entropy


class TrainState(NamedTuple):
    """All that training changes; a checkpoint is exactly this."""

    params: nnx.State
    optimiser: optax.OptState
    step: jax.Array  # s32[], steps done


def create_state(config: Config) -> TrainState:
    """Fresh weights drawn from the seed, at step 0."""
    params = nnx.state(Llama(config, nnx.Rngs(config.seed)), nnx.Param)
    return TrainState(params, optimiser(config).init(params), jnp.int32(0))


def abstract_state(config: Config) -> TrainState:
    """Shapes and dtypes of the state, with nothing computed."""
    return jax.eval_shape(lambda: create_state(config))


def parameter_count(params: nnx.State) -> int:
    """Number of trained scalars."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def optimiser(config: Config) -> optax.GradientTransformation:
    """Clipping, then AdamW with warm-up and cosine; vectors are not decayed."""
    peak = config.learning_rate
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, peak, config.warmup, max(config.steps, config.warmup + 1), peak / 10
    )
    return optax.chain(
        optax.clip_by_global_norm(config.clip),
        optax.adamw(
            schedule,
            b1=0.9,
            b2=0.95,
            weight_decay=config.weight_decay,
            mask=lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params),
        ),
    )


def loss_function(config: Config) -> Callable[[nnx.State, jax.Array], jax.Array]:
    """Gives loss(params, window s32[B, T+1]) in nats per byte."""
    graph = nnx.graphdef(nnx.eval_shape(lambda: Llama(config, nnx.Rngs(0))))

    def loss(params: nnx.State, window: jax.Array) -> jax.Array:
        model = nnx.merge(graph, params)
        return cross_entropy(model(window[:, :-1]), window[:, 1:])

    return loss


def train_step(
    config: Config,
) -> Callable[[TrainState, jax.Array], tuple[TrainState, jax.Array]]:
    """Gives step(state, window s32[B, T+1]) -> (state, loss); not yet jitted."""
    loss = loss_function(config)
    update = optimiser(config).update

    def step(state: TrainState, window: jax.Array) -> tuple[TrainState, jax.Array]:
        value, gradients = jax.value_and_grad(loss)(state.params, window)
        updates, inner = update(gradients, state.optimiser, state.params)
        params = optax.apply_updates(state.params, updates)
        return TrainState(params, inner, state.step + 1), value

    return step


def compile_step(config: Config, state: TrainState) -> Any:
    """Compiles the training step ahead of its first call.

    The step reuses the memory of the state it is given, which is then gone. Raises
    NotImplementedError when the implementation cannot serve the model.
    """
    window = jax.ShapeDtypeStruct((config.batch, config.length + 1), jnp.int32)
    jitted = jax.jit(train_step(config), donate_argnums=0)
    return jitted.lower(state, window).compile()
