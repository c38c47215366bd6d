"""One step of training a tiny model, in one process or in several that share it.

``main`` is one of several processes under ``jax.distributed``, as the environment
says: it saves the loss and the updated weights that it finds.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jax_hipkittens as hk

BATCH, TIME, HEADS, KV_HEADS, DIM, WIDTH, WORDS = 4, 12, 4, 2, 8, 32, 20

# How weights lie on the mesh axes "data" and "heads".
SPECS = {
    "embedding": PartitionSpec(),
    "norm": PartitionSpec(),
    "query": PartitionSpec(None, "heads"),
    "key": PartitionSpec(None, "heads"),
    "value": PartitionSpec(None, "heads"),
    "out": PartitionSpec("heads"),
    "head": PartitionSpec(),
}
SHAPES = {
    "embedding": (WORDS, WIDTH),
    "norm": (WIDTH,),
    "query": (WIDTH, HEADS * DIM),
    "key": (WIDTH, KV_HEADS * DIM),
    "value": (WIDTH, KV_HEADS * DIM),
    "out": (HEADS * DIM, WIDTH),
    "head": (WIDTH, WORDS),
}


def draw():
    """Weights by name, and tokens s32[B,T+1]."""
    rng = np.random.default_rng(0)
    weights = {
        name: rng.standard_normal(shape, np.float32) * np.float32(0.3)
        for name, shape in SHAPES.items()
    }
    tokens = rng.integers(0, WORDS, (BATCH, TIME + 1), np.int32)
    return weights, tokens


def loss(weights, tokens):
    """Mean cross entropy of the next token after one layer of attention."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x = weights["embedding"][inputs]
    y = hk.rms_norm(x, weights["norm"], implementation="hk")
    tables = hk.rotary_tables(TIME, DIM)

    def heads(name):
        projected = hk.matmul(y, weights[name], implementation="hk")
        return projected.reshape(*projected.shape[:2], -1, DIM)

    query, key = (
        hk.rotary(heads(name), *tables, implementation="hk")
        for name in ("query", "key")
    )
    seen = hk.attention(
        *(query, key, heads("value")), is_causal=True, implementation="hk"
    )
    flat = seen.reshape(*seen.shape[:2], -1)
    x = x + hk.matmul(flat, weights["out"], implementation="hk")
    logits = hk.matmul(x, weights["head"], implementation="hk")
    likely = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(likely, targets[..., None], axis=-1).mean()


def step(weights, tokens):
    """(loss, weights after one step down its gradient)."""
    value, gradients = jax.value_and_grad(loss)(weights, tokens)
    return value, jax.tree.map(lambda w, g: w - 0.5 * g, weights, gradients)


def step_on(mesh):
    """``step`` on a mesh of all processes' devices; every process has the results."""
    weights, tokens = draw()

    def spread(x, spec):
        sharding = NamedSharding(mesh, spec)
        return jax.make_array_from_callback(x.shape, sharding, lambda i: x[i])

    given = {name: spread(x, SPECS[name]) for name, x in weights.items()}
    everywhere = NamedSharding(mesh, PartitionSpec())
    compiled = (
        jax.jit(step, out_shardings=everywhere)
        .lower(given, spread(tokens, PartitionSpec("data")))
        .compile()
    )
    # Every device computes its heads of its part of the batch, and no more.
    text = compiled.as_text()
    part = BATCH // 2, TIME, HEADS // 2, DIM
    assert f"f32[{','.join(map(str, part))}]" in text
    assert text.count('"jax_hipkittens_attention_forward"') == 1
    return compiled(given, spread(tokens, PartitionSpec("data")))


def main():
    folder, port = os.environ["HK_TEST_FOLDER"], os.environ["HK_TEST_PORT"]
    process = int(os.environ["HK_TEST_PROCESS"])
    jax.distributed.initialize(f"localhost:{port}", 2, process)
    assert (jax.process_count(), jax.local_device_count()) == (2, 2)
    devices = np.array(jax.devices()).reshape(2, 2)
    # Once with the batch split over processes, and once with the heads.
    for name, grid in ("batch", devices), ("heads", devices.T):
        mesh = jax.sharding.Mesh(grid, ("data", "heads"), (AxisType.Auto,) * 2)
        value, weights = step_on(mesh)
        path = os.path.join(folder, f"{name}{process}.npz")
        np.savez(path, loss=value, **weights)
    jax.distributed.shutdown()
