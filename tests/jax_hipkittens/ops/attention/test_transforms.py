"""Attention under jit, grad, scan and checkpoint, and from run to run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jax_hipkittens as hk
from jax_hipkittens.ops.attention import vjp
from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.attention import cases, oracle
from tests.jax_hipkittens.ops.attention.cases import Case
from tests.jax_hipkittens.ops.attention.test_values import assert_right

IMPLEMENTATIONS = ["hk", "xla"]
FORWARD, BACKWARD = (f"jax_hipkittens_attention_{d}" for d in ("forward", "backward"))

CASE = Case(batch=2, queries=70, keys=90, options=dict(is_causal=True))


def loss(implementation, **options):
    def of(query, key, value):
        out = hk.attention(
            *(query, key, value),
            is_causal=True,
            implementation=implementation,
            **options,
        )
        return jnp.sum(jnp.sin(out.astype(jnp.float32)))

    return of


def test_lowers_to_the_custom_calls():
    inputs = cases.draw(CASE, "bfloat16")[:3]
    for implementation, count in ("hk", 1), ("xla", 0), (None, 1):
        gradient = jax.grad(loss(implementation), argnums=(0, 1, 2))
        text = jax.jit(gradient).lower(*inputs).as_text()
        assert text.count(f"custom_call @{FORWARD}") == count
        assert text.count(f"custom_call @{BACKWARD}") == count


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_jit_equals_eager_and_runs_repeat(dtype):
    inputs = cases.draw(CASE, dtype)

    def run(inputs):
        def op(*inputs):
            return hk.attention(
                *inputs, is_causal=True, implementation="hk", return_residual=True
            )

        results, pullback = jax.vjp(op, *inputs[:3])
        return results, pullback((inputs.d_out, inputs.d_lse))

    eager = run(inputs)
    bits.assert_same_bits(run(inputs), eager)
    compiled = jax.jit(run)
    bits.assert_same_bits(compiled(inputs), eager)
    bits.assert_same_bits(compiled(inputs), eager)


def test_threads_do_not_change_a_bit():
    module = "tests.jax_hipkittens.ops.attention.threads"
    one, two = (bits.main_in_process(module, threads) for threads in (1, 2))
    assert one == two


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_value_and_grad_in_a_scan_with_checkpoint(implementation):
    """Layers whose gradients recompute the forward agree with layers that save it."""
    inputs = cases.draw(Case(batch=2, queries=33, keys=33, kv_heads=4), "float32")[:3]

    def layers(wrap):
        def total(query, key, value):
            def layer(x, _):
                return x + hk.attention(
                    *(x, key, value), is_causal=True, implementation=implementation
                ), None

            return jnp.sum(jax.lax.scan(wrap(layer), query, length=3)[0] ** 2)

        return jax.jit(jax.value_and_grad(total, argnums=(0, 1, 2)))(*inputs)

    value, gradients = layers(lambda layer: layer)
    again = layers(jax.checkpoint)
    np.testing.assert_allclose(again[0], value, rtol=1e-6)
    for x, y in zip(again[1], gradients, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_checkpoint_policy_saves_the_forward_kernel():
    inputs = cases.draw(CASE, "bfloat16")[:3]
    policies = jax.checkpoint_policies
    for policy, forwards in (
        (policies.save_only_these_names(vjp.RESIDUAL_NAME), 1),
        (policies.nothing_saveable, 2),
    ):
        wrapped = jax.checkpoint(loss("hk"), policy=policy)
        text = jax.jit(jax.value_and_grad(wrapped)).lower(*inputs).as_text()
        assert text.count(f"custom_call @{FORWARD}") == forwards


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("scale", [0.25, 0.0, -0.5])
def test_gradient_of_the_scale(implementation, scale):
    inputs = cases.draw(CASE, "bfloat16")

    @jax.jit
    def gradient(scale):
        def op(scale):
            return hk.attention(
                *inputs[:3],
                scale=scale,
                is_causal=True,
                implementation=implementation,
                return_residual=True,
            )

        _, pullback = jax.vjp(op, scale)
        return pullback((inputs.d_out, inputs.d_lse))[0]

    exact = oracle.attention(
        *inputs[:3], scale, CASE.visible(), inputs.d_out, inputs.d_lse
    ).d_scale
    actual = gradient(jnp.float32(scale))
    np.testing.assert_allclose(actual, exact, rtol=5e-3, atol=0.5)
    narrow = gradient(jnp.bfloat16(scale))
    assert narrow.dtype == jnp.bfloat16
    np.testing.assert_allclose(narrow.astype(jnp.float32), actual, rtol=2**-8)


def test_gradient_of_the_scale_where_floats_are_64_bits():
    query, key, value = cases.draw(CASE, "float32")[:3]

    def total(scale, implementation):
        return hk.attention(
            *(query, key, value), scale=scale, implementation=implementation
        ).sum()

    with jax.enable_x64(True):
        gradients = [
            jax.jit(jax.grad(total), static_argnums=1)(jnp.float32(0.3), name)
            for name in IMPLEMENTATIONS
        ]
    # It is about 70, a sum of 2 * 70 * 4 * 32 terms in f32.
    np.testing.assert_allclose(*gradients, rtol=2 * 70 * 4 * 32 * 2**-24)


def test_a_traced_scale_costs_no_kernel_unless_differentiated():
    inputs = cases.draw(CASE, "bfloat16")[:3]

    def total(query, scale):
        return loss("hk", scale=scale)(query, *inputs[1:])

    for argnums, backwards in (0, 1), ((0, 1), 2):
        compiled = jax.jit(jax.grad(total, argnums)).lower(inputs[0], 0.3).compile()
        assert compiled.as_text().count(f'"{BACKWARD}"') == backwards


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_lengths_may_be_differentiated_around(implementation):
    inputs = cases.draw(CASE, "float32")[:3]
    lengths = jnp.array([70, 90], jnp.int32)

    def total(operands):
        query, lengths = operands
        return loss(implementation, key_value_seq_lengths=lengths)(query, *inputs[1:])

    d_query, d_lengths = jax.grad(total, allow_int=True)((inputs[0], lengths))
    assert d_query.shape == inputs[0].shape
    assert d_lengths.dtype == jax.dtypes.float0


@st.composite
def small_cases(draw):
    kv_heads = draw(st.integers(1, 3))
    batch, queries, keys = (draw(st.integers(1, n)) for n in (2, 40, 70))
    options = {"is_causal": draw(st.booleans())}
    if draw(st.booleans()):
        options["local_window_size"] = tuple(draw(st.integers(0, 45)) for _ in "lr")
    if options["is_causal"] and draw(st.booleans()):
        options["causal_alignment"] = "bottom_right"
    for name, size in ("query_seq_lengths", queries), ("key_value_seq_lengths", keys):
        if draw(st.booleans()):
            options[name] = [draw(st.integers(0, size)) for _ in range(batch)]
    return Case(
        *(batch, queries, keys, kv_heads * draw(st.integers(1, 3)), kv_heads),
        draw(st.integers(1, 80)),
        options,
    )


@settings(max_examples=12)
@given(case=small_cases(), dtype=st.sampled_from(["bfloat16", "float16", "float32"]))
def test_any_small_call_is_right(case, dtype):
    assert_right(case, cases.draw(case, dtype))


@pytest.mark.parametrize("mapped", range(4))
def test_vmap_of_one_operand_alone_with_a_batch_of_one(mapped):
    """The others, and what the forward kept, are shared by all mapped entries."""
    inputs = cases.draw(Case(queries=9, keys=9, dim=8), "float32")[:4]
    given = list(inputs)
    given[mapped] = jnp.stack([inputs[mapped], 2 * inputs[mapped]])
    axes = [0 if i == mapped else None for i in range(4)]

    def gradients(implementation):
        def of(*operands):
            def op(*operands):
                return hk.attention(*operands, implementation=implementation)

            return jax.vjp(op, *operands[:3])[1](operands[3])

        return jax.jit(jax.vmap(of, in_axes=axes))(*given)

    for x, y in zip(gradients("hk"), gradients("xla"), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
