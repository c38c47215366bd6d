"""Matrix products under jit, grad, scan and checkpoint, and from run to run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.gemm.cases import draw

TARGET = "custom_call @jax_hipkittens_gemm"


def loss(implementation, activation=None):
    def of(a, b, bias):
        c = hk.matmul(
            a, b, bias=bias, activation=activation, implementation=implementation
        )
        return jnp.sum(jnp.sin(c.astype(jnp.float32)))

    return of


def test_lowers_to_the_custom_call():
    operands = draw(0, "bfloat16", (33, 64), (64, 40), (40,))
    for implementation, count in ("hk", 4), ("xla", 0), (None, 4):
        gradient = jax.grad(loss(implementation, "silu"), argnums=(0, 1, 2))
        text = jax.jit(gradient).lower(*operands).as_text()
        assert text.count(TARGET) == count


def test_the_preactivation_is_kept_only_for_gradients():
    operands = draw(0, "bfloat16", (33, 64), (64, 40), (40,))

    def results(function):
        """How many results each call has, forward first."""
        text = jax.jit(function).lower(*operands).as_text()
        lines = [line for line in text.splitlines() if TARGET in line]
        return [line.split("->")[1].count("tensor<") for line in lines]

    assert results(loss("hk", "silu")) == [1]
    assert results(jax.grad(loss("hk", "silu"))) == [2, 1]
    assert results(jax.grad(loss("hk"))) == [1, 1]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("activation", [None, "gelu"])
def test_jit_equals_eager_and_runs_repeat(dtype, activation):
    operands = draw(1, dtype, (4, 33, 64), (64, 40), (40,), (4, 33, 40))

    def run(a, b, bias, d_c):
        def op(a, b, bias):
            return hk.matmul(
                a, b, bias=bias, activation=activation, implementation="hk"
            )

        c, pullback = jax.vjp(op, a, b, bias)
        return c, pullback(d_c)

    eager = run(*operands)
    bits.assert_same_bits(run(*operands), eager)
    compiled = jax.jit(run)
    bits.assert_same_bits(compiled(*operands), eager)
    bits.assert_same_bits(compiled(*operands), eager)


def test_threads_do_not_change_a_bit():
    module = "tests.jax_hipkittens.ops.gemm.threads"
    one, two = (bits.main_in_process(module, threads) for threads in (1, 2))
    assert one == two


@pytest.mark.parametrize("implementation", ["hk", "xla"])
def test_value_and_grad_in_a_scan_with_checkpoint(implementation):
    x, w, bias = draw(2, "float32", (8, 32), (32, 32), (32,))

    def layers(wrap):
        def total(x, w, bias):
            def layer(x, _):
                return hk.matmul(
                    x, w, bias=bias, activation="gelu", implementation=implementation
                ), None

            return jnp.sum(jax.lax.scan(wrap(layer), x, length=3)[0] ** 2)

        return jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2)))(x, w / 6, bias)

    value, gradients = layers(lambda layer: layer)
    again = layers(jax.checkpoint)
    np.testing.assert_allclose(again[0], value, rtol=1e-6)
    for a, b in zip(again[1], gradients, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
