"""What attention takes besides query, key and value, against float64."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.attention import cases
from tests.jax_hipkittens.ops.attention.cases import Case
from tests.jax_hipkittens.ops.attention.test_values import assert_right

IMPLEMENTATIONS = ["hk", "xla"]
DTYPES = ["bfloat16", "float16", "float32"]
SIZES = dict(batch=2, queries=9, keys=65, heads=4, kv_heads=2, dim=16)


def normal(shape, dtype="float32"):
    draws = np.random.default_rng([0, *shape]).standard_normal(shape, np.float32)
    return jnp.asarray(draws, dtype)


def boolean(shape, share=0.7):
    return jnp.asarray(np.random.default_rng([1, *shape]).random(shape) < share)


def integers(low, high, shape):
    draws = np.random.default_rng([2, *shape]).integers(low, high, shape)
    return jnp.asarray(draws, jnp.int32)


def check(dtype, options, **sizes):
    """Output, LSE and every gradient, those of bias, sinks and slopes included."""
    sizes = {**SIZES, **sizes}
    value_dim = sizes.pop("value_dim", None)
    case = Case(**sizes, options=options, value_dim=value_dim)
    assert_right(case, cases.draw(case, dtype))


# Every pattern of whole axes and axes of size 1.
PATTERNS = [tuple(bool(i >> j & 1) for j in range(4)) for i in range(16)]
FULL = 2, 4, 9, 65


def shape_of(pattern):
    return tuple(n if whole else 1 for n, whole in zip(FULL, pattern, strict=True))


@pytest.mark.parametrize("i", range(16))
def test_bias_and_mask_of_every_broadcast_pattern(i):
    """Every other bias is f32 whatever the operands' dtype, the others of theirs."""
    dtype = DTYPES[i % 3]
    bias = normal(shape_of(PATTERNS[i]), dtype if i % 2 else "float32")
    check(dtype, dict(bias=bias, mask=boolean(shape_of(PATTERNS[(i + 5) % 16]))))


@pytest.mark.parametrize("shape", [(), (65,), (4, 1, 1)])
def test_bias_and_mask_of_fewer_axes(shape):
    check("float32", dict(bias=normal(shape), mask=boolean(shape, 0.9)))


def test_biases_of_minus_infinity_hide_keys():
    """Some keys of every row, and every key of two rows."""
    bias = jnp.where(boolean(FULL), normal(FULL), -jnp.inf).at[0, :, 3:5].set(-jnp.inf)
    case = Case(**SIZES, options=dict(bias=bias))
    inputs = cases.draw(case, "float32")
    assert_right(case, inputs)
    out, lse, d_query, *_, d_bias = cases.run(case, "hk", inputs)
    np.testing.assert_array_equal(out[0, 3:5], 0)
    np.testing.assert_array_equal(lse[0, 3:5], -np.inf)
    np.testing.assert_array_equal(d_query[0, 3:5], 0)
    np.testing.assert_array_equal(jnp.where(jnp.isneginf(bias), d_bias, 0), 0)


def calls(closed, name):
    """The parameters of the kernels called ``name`` in a closed jaxpr, however deep."""
    found = []
    for equation in closed.jaxpr.eqns:
        kernel = equation.params.get("kernel")
        if getattr(kernel, "name", None) == name:
            found.append(kernel)
        for value in equation.params.values():
            if isinstance(value, jax.extend.core.ClosedJaxpr):
                found += calls(value, name)
    return found


@pytest.mark.parametrize(("argnums", "with_bias"), [(0, False), ((0, 1), True)])
def test_the_gradient_of_a_bias_is_computed_only_when_asked_for(argnums, with_bias):
    query, key, value = cases.draw(Case(**SIZES), "float32")[:3]

    def loss(query, bias):
        return hk.attention(query, key, value, bias, implementation="hk").sum()

    traced = jax.make_jaxpr(jax.grad(loss, argnums))(query, normal((9, 65)))
    (backward,) = calls(traced, "attention_backward")
    assert backward.with_bias == with_bias


def segments(shape, is_sorted):
    ids = integers(0, 4, shape)
    return jnp.sort(ids) if is_sorted else ids


@pytest.mark.parametrize("is_sorted", [True, False])
def test_segments(is_sorted):
    of_query, of_key = (segments((2, n), is_sorted) for n in (9, 65))
    options = dict(query_segment_ids=of_query, key_value_segment_ids=of_key)
    check("bfloat16", options)
    check("float32", options | dict(key_value_segment_ids=of_key + 2))  # Rows alone.


def test_segments_and_positions_of_keys_default_to_those_of_queries():
    options = dict(
        query_segment_ids=segments((2, 70), True),
        query_positions=integers(0, 40, (2, 70)),
        is_causal=True,
    )
    check("float16", options, queries=70, keys=70)


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("bfloat16", dict(is_causal=True)),
        ("float32", dict(local_window_size=(5, 3))),
        (
            "float32",
            dict(
                is_causal=True,
                causal_alignment="bottom_right",
                local_window_size=(20, 0),
                query_seq_lengths=[9, 4],
                key_value_seq_lengths=[33, 65],
            ),
        ),
    ],
)
def test_positions(dtype, options):
    """In any order, with repeats, below zero and far apart."""
    of_query = integers(-20, 70, (2, 9)).at[0, 0].set(2**29)
    of_key = integers(-20, 70, (2, 65)).at[:, 0].set(-(2**29))
    check(dtype, options | dict(query_positions=of_query, key_value_positions=of_key))


@pytest.mark.parametrize(("dtype", "cap"), [("bfloat16", 2.0), ("float32", 0.3)])
def test_soft_cap(dtype, cap):
    check(dtype, dict(logits_soft_cap=cap, scale=1.0, is_causal=True))


SINKS = normal((4,))


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("bfloat16", dict(sinks=SINKS.astype(jnp.bfloat16))),
        ("float16", dict(sinks=SINKS, is_causal=True)),
        (
            "float32",
            dict(
                sinks=SINKS,
                query_seq_lengths=[9, 4],
                key_value_seq_lengths=[0, 65],
            ),
        ),
    ],
)
def test_sinks(dtype, options):
    check(dtype, options)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_sinks_of_rows_without_keys(implementation):
    """The sink is all they have; rows past the length have not even that."""
    options = dict(sinks=SINKS, query_seq_lengths=[9, 4], key_value_seq_lengths=[0, 65])
    case = Case(**SIZES, options=options)
    inputs = cases.draw(case, "float32")
    out, lse, *_, d_sinks = cases.run(case, implementation, inputs)
    np.testing.assert_array_equal(out[0], 0)
    np.testing.assert_array_equal(lse[0], np.broadcast_to(SINKS, (9, 4)))
    np.testing.assert_array_equal(lse[1, 4:], -np.inf)
    d_lse = inputs.d_lse.at[1].set(0)
    zeros = inputs._replace(d_out=jnp.zeros_like(inputs.d_out), d_lse=d_lse)
    (*_, d_sinks) = cases.run(case, implementation, zeros)
    np.testing.assert_allclose(d_sinks, d_lse[0].sum(0), rtol=1e-5, atol=1e-6)


SLOPES = jnp.asarray([0.5, 0.25, 0.0, -0.1], jnp.float32)


@pytest.mark.parametrize(
    ("dtype", "options"),
    [
        ("bfloat16", dict(is_causal=True)),
        ("float16", {}),
        (
            "float32",
            dict(
                is_causal=True,
                causal_alignment="bottom_right",
                query_positions=integers(0, 70, (2, 9)),
                key_value_positions=integers(0, 70, (2, 65)),
            ),
        ),
    ],
)
def test_alibi_slopes(dtype, options):
    check(dtype, dict(alibi_slopes=SLOPES, **options))


KEY = jax.random.key(3)


@pytest.mark.parametrize(
    ("dtype", "rate"),
    [("bfloat16", 0.3), ("float32", 0.5), ("float16", 1e-12), ("float32", 1.0)],
)
def test_dropout(dtype, rate):
    check(dtype, dict(dropout_rate=rate, dropout_key=KEY, is_causal=rate == 0.5))


def kept_by(implementation, case):
    """The mask, seen through equal probabilities and values of one key each."""
    query = jnp.zeros(case.query_shape)
    key = jnp.zeros(case.key_shape)
    value = jnp.broadcast_to(
        jnp.eye(case.keys)[None, :, None], (*case.key_shape[:3], case.keys)
    )
    out = hk.attention(query, key, value, **case.options, implementation=implementation)
    return np.asarray(out.transpose(0, 2, 1, 3))  # [B,N,T,S]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("style", ["typed", "raw"])
def test_dropout_masks_are_those_of_their_definition(implementation, style):
    key = KEY if style == "typed" else jax.random.PRNGKey(3)
    case = Case(**SIZES, options=dict(dropout_rate=0.3, dropout_key=key))
    out = kept_by(implementation, case)
    np.testing.assert_array_equal(out != 0, case.kept())
    np.testing.assert_allclose(out[out != 0], 1 / (65 * 0.7), rtol=1e-5)
    # Of 2 * 4 * 9 * 65 = 4680 draws: five standard deviations.
    assert abs((out != 0).mean() - 0.7) < 5 * (0.3 * 0.7 / 4680) ** 0.5


def test_dropout_of_rate_0_needs_no_key_and_another_key_gives_another_mask():
    query, key, value = cases.draw(Case(**SIZES), "float32")[:3]

    def run(rate, key_):
        return hk.attention(
            *(query, key, value),
            dropout_rate=rate,
            dropout_key=key_,
            implementation="hk",
        )

    bits.assert_same_bits(run(0.0, None), run(0, KEY))
    bits.assert_same_bits(run(0.5, KEY), run(0.5, jax.random.PRNGKey(3)))
    assert bool(jnp.any(run(0.5, KEY) != run(0.5, jax.random.key(4))))
    np.testing.assert_array_equal(run(1.0, KEY), 0)


@pytest.mark.parametrize(
    ("dtype", "dim", "value_dim"),
    [("bfloat16", 16, 72), ("float32", 72, 16), ("float16", 1, 256)],
)
def test_values_of_another_head_dimension(dtype, dim, value_dim):
    check(dtype, dict(is_causal=True), dim=dim, value_dim=value_dim)


def everything():
    return dict(
        is_causal=True,
        causal_alignment="bottom_right",
        local_window_size=(40, 10),
        key_value_seq_lengths=[60, 65],
        query_segment_ids=segments((2, 9), False),
        key_value_segment_ids=segments((2, 65), False),
        bias=normal((4, 1, 65)),
        mask=boolean((2, 1, 9, 65), 0.9),
        logits_soft_cap=5.0,
        sinks=SINKS,
        alibi_slopes=SLOPES,
        dropout_rate=0.2,
        dropout_key=KEY,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["BTNH", "BNTH"])
def test_everything_together(dtype, layout):
    check(dtype, everything() | dict(layout=layout), value_dim=24)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 63), (65, 1), (63, 65)])
def test_ragged_sizes(queries, keys):
    options = dict(
        bias=normal((2, 1, queries, keys)),
        mask=boolean((queries, keys), 0.9),
        query_segment_ids=integers(0, 2, (2, queries)),
        key_value_segment_ids=integers(0, 2, (2, keys)),
        sinks=SINKS,
        dropout_rate=0.3,
        dropout_key=KEY,
    )
    check("float32", options, queries=queries, keys=keys)


def test_without_batch():
    query, key, value = (x[:1] for x in cases.draw(Case(**SIZES), "float32")[:3])
    options = dict(implementation="hk", return_residual=True, sinks=SINKS)
    ids = segments((9,), True), segments((65,), True)

    def run(arrays, *ids):
        names = "query_segment_ids", "key_value_segment_ids"
        return hk.attention(*arrays, **dict(zip(names, ids, strict=True)), **options)

    single = run([query[0], key[0], value[0]], *ids)
    batched = run([query, key, value], *(x[None] for x in ids))
    bits.assert_same_bits(single, [x[0] for x in batched])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_gradient_of_a_scale_with_a_bias_of_the_dtype_of_the_query(dtype):
    query, key, value = (x[:1] for x in cases.draw(Case(queries=9, keys=7), dtype)[:3])
    bias = jnp.sin(jnp.arange(63.0)).reshape(9, 7).astype(dtype)

    def gradient(implementation):
        def total(scale):
            out = hk.attention(
                *(query, key, value, bias), scale=scale, implementation=implementation
            )
            return jnp.sum(out.astype(jnp.float32) ** 2)

        return jax.grad(total)(jnp.float32(0.3))

    np.testing.assert_allclose(gradient("hk"), gradient("xla"), rtol=3e-2)


def test_a_constant_bias_is_not_copied_for_what_is_mapped():
    query, key, value = cases.draw(Case(batch=2, queries=9, keys=7), "float32")[:3]
    bias = jnp.ones((1, 4, 9, 7))

    def total(query):
        return jnp.sum(hk.attention(query, key, value, bias, implementation="hk"))

    mapped = jax.vmap(jax.grad(total))
    lowered = jax.jit(mapped).lower(jnp.stack([query] * 3)).as_text()
    assert "tensor<1x4x9x7xf32>" in lowered
    assert "tensor<6x4x9x7xf32>" not in lowered
