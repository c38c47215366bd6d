"""Policies of jax.checkpoint: how often kernels run, counted while they run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from jax_hipkittens import _ffi

LAYERS = 3


def launches(function, *args):
    """How often each target is launched by one call of the compiled function."""
    compiled = jax.jit(function).lower(*args).compile()
    before = _ffi.require().launches()
    jax.block_until_ready(compiled(*args))
    after = _ffi.require().launches()
    prefix = len("jax_hipkittens_")
    return {name[prefix:]: after[name] - before[name] for name in after}


def total(policy):
    def layer(x, weight):
        normed = hk.rms_norm(x, weight[0], implementation="hk")
        out = hk.attention(normed, normed, normed, implementation="hk")
        return x + hk.matmul(out, weight, activation="silu", implementation="hk"), None

    def of(x, weights):
        remade = layer if policy is None else jax.checkpoint(layer, policy=policy)
        return jnp.sum(jnp.sin(jax.lax.scan(remade, x, weights)[0]))

    return jax.value_and_grad(of, argnums=(0, 1))


def operands():
    rng = np.random.default_rng(0)
    shapes = (1, 9, 2, 4), (LAYERS, 4, 4)
    return [jnp.asarray(rng.standard_normal(s), jnp.float32) for s in shapes]


@pytest.mark.parametrize(
    ("policy", "attention", "norm"),
    [
        (None, 1, 1),
        (jax.checkpoint_policies.nothing_saveable, 2, 2),
        (hk.save_attention, 1, 2),
    ],
    ids=["no_checkpoint", "nothing", "attention"],
)
def test_forward_kernels_run_once_where_their_results_are_kept(policy, attention, norm):
    x, weights = operands()
    counts = launches(total(policy), x, weights)
    assert counts["attention_forward"] == attention * LAYERS
    assert counts["norm_forward"] == norm * LAYERS
    assert counts["attention_backward"] == counts["norm_backward"] == LAYERS
    expected = jax.jit(total(None))(x, weights)
    found = jax.jit(total(policy))(x, weights)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_call_is_counted_once_however_its_operands_are_mapped():
    x = jnp.ones((3, 2, 5, 2, 4))
    op = jax.vmap(lambda x: hk.attention(x, x, x, implementation="hk"))
    counts = launches(op, x)
    assert counts.pop("attention_forward") == 1
    assert set(counts.values()) == {0}
