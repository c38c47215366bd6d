"""Any call of an op is right, or refused in one sentence while it is traced.

Shapes, dtypes and options are drawn, right or wrong; shardings in sharding.py. Only the
FFI calls of HK kernels are compiled: the reference in float32 runs op by op, on arrays
of few sizes.
"""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import jax_hipkittens as hk

EXAMPLES = settings(max_examples=12)
DTYPES = st.sampled_from(["float32", "bfloat16", "float16"])
ODD_DTYPES = st.sampled_from(["float32", "bfloat16", "float16", "int32", "float8_e5m2"])
SIZES = st.sampled_from([1, 2, 3, 5])


def normal(seed, shape, dtype):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def sometimes(strategy, default):
    """``default`` in most draws."""
    return st.one_of(st.just(default), st.just(default), strategy)


def check(op, arrays, options):
    """HK's result is the reference's, or both are refused for the same mistake."""
    try:
        jax.eval_shape(lambda *x: op(*x, **options, implementation="hk"), *arrays)
    except (ValueError, NotImplementedError) as error:
        one_sentence(str(error))
        if isinstance(error, ValueError):
            return
    try:
        expected = op(*map(_wide, arrays), **options, implementation="xla")
    except (ValueError, NotImplementedError) as error:
        one_sentence(str(error))
        return
    actual = op(*arrays, **options)  # HK, or XLA where HK declines.
    close(actual, expected)
    if all(jnp.issubdtype(x.dtype, jnp.floating) for x in arrays):
        check_gradients(op, [_wide(x) for x in arrays], options)


def check_gradients(op, arrays, options):
    def gradients(implementation):
        results, pullback = jax.vjp(
            lambda *x: op(*x, **options, implementation=implementation), *arrays
        )
        return pullback(jax.tree.map(_cotangent, results))

    close(gradients(None), gradients("xla"))


def _cotangent(result):
    """One for every element, another; none where it is not finite, as an LSE may be."""
    ramp = jnp.sin(jnp.arange(result.size, dtype=result.dtype)).reshape(result.shape)
    return jnp.where(jnp.isfinite(result), ramp, 0)


def close(actual, expected):
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert x.shape == y.shape
        floats = jnp.issubdtype(x.dtype, jnp.floating)
        eps = float(jnp.finfo(x.dtype).eps) if floats else 0.0
        y = np.asarray(y, np.float64)
        finite = np.isfinite(y)
        np.testing.assert_array_equal(np.isfinite(np.asarray(x, np.float32)), finite)
        x, y = np.asarray(x, np.float64)[finite], y[finite]
        bound = 16 * max(eps, 2.0**-20) * max(1.0, np.abs(y).max(initial=0))
        np.testing.assert_allclose(x, y, rtol=0, atol=bound)


def _wide(x):
    """The same values in float32, where a call in x's dtype would be right."""
    return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x


def one_sentence(message):
    assert message.endswith(".") and "\n" not in message
    assert ". " not in message.replace("e.g. ", "")
    assert ": " in message


@st.composite
def attention_calls(draw):
    batch, queries, keys, kv_heads, group = (draw(SIZES) for _ in range(5))
    heads, dim = kv_heads * group, draw(st.sampled_from([1, 8, 16]))
    kv_heads = draw(sometimes(SIZES, kv_heads))
    dtype = draw(sometimes(ODD_DTYPES, "float32"))
    of_value = draw(sometimes(ODD_DTYPES, dtype))
    arrays = [
        normal(0, (batch, queries, heads, dim), dtype),
        normal(1, (batch, keys, kv_heads, draw(sometimes(SIZES, dim))), dtype),
        normal(2, (batch, draw(sometimes(SIZES, keys)), kv_heads, dim), of_value),
    ]
    options = {"is_causal": draw(st.booleans()), "return_residual": draw(st.booleans())}
    full = batch, heads, queries, keys

    def some_shape():
        whole = [draw(st.booleans()) for _ in full]
        shape = [n if w else 1 for n, w in zip(full, whole, strict=True)]
        return draw(sometimes(st.just((7,)), tuple(shape)))

    makers = {
        "bias": lambda: normal(3, some_shape(), "float32"),
        "mask": lambda: normal(4, some_shape(), "float32") < 0.5,
        "scale": lambda: draw(st.sampled_from([0.5, 0, -1.0, None])),
        "query_seq_lengths": lambda: [draw(st.integers(-1, 6)) for _ in range(batch)],
        "key_value_seq_lengths": lambda: [draw(st.integers(-1, 6))] * draw(SIZES),
        "local_window_size": lambda: draw(st.sampled_from([0, 2, (1, 0), -1, (1,)])),
        "causal_alignment": lambda: draw(
            st.sampled_from(["bottom_right", "top_left", "left"])
        ),
        "logits_soft_cap": lambda: draw(st.sampled_from([2.0, 0.5, 0, "cap"])),
        "sinks": lambda: normal(5, (draw(sometimes(SIZES, heads)),), "float32"),
        "alibi_slopes": lambda: normal(6, (heads,), "float32"),
        "query_segment_ids": lambda: np.arange(batch * queries).reshape(batch, -1) % 2,
        "query_positions": lambda: np.ones((batch, queries), np.int32),
        "dropout_rate": lambda: draw(st.sampled_from([0, 1.0, 1.5, 0.5])),
        "dropout_key": lambda: jax.random.key(0),
    }
    for name in draw(st.sets(st.sampled_from(sorted(makers)), max_size=4)):
        options[name] = makers[name]()
    return arrays, options


@EXAMPLES
@given(attention_calls())
def test_attention(call):
    check(hk.attention, *call)


@st.composite
def matmul_calls(draw):
    m, k, n = (draw(SIZES) for _ in range(3))
    dtype = draw(sometimes(ODD_DTYPES, "float32"))
    batches = [draw(st.sampled_from([(), (1,), (3,), (2, 3)])) for _ in range(2)]
    arrays = [
        normal(0, (*batches[0], m, k), dtype),
        normal(1, (*batches[1], draw(sometimes(SIZES, k)), n), dtype),
    ]
    options = {
        "activation": draw(
            st.sampled_from([None, "gelu", "silu", "gelu_exact", "relu"])
        ),
        "precision": draw(sometimes(st.sampled_from(["highest", "exact"]), None)),
    }
    if draw(st.booleans()):
        options["bias"] = normal(2, (draw(sometimes(SIZES, n)),), draw(DTYPES))
    return arrays, options


@EXAMPLES
@given(matmul_calls())
def test_matmul(call):
    check(hk.matmul, *call)


@st.composite
def dot_general_calls(draw):
    ranks = [draw(st.integers(0, 3)) for _ in range(2)]
    dtype = draw(sometimes(ODD_DTYPES, "float32"))
    arrays = [
        normal(i, [draw(st.sampled_from([2, 3])) for _ in range(rank)], dtype)
        for i, rank in enumerate(ranks)
    ]
    pairs = draw(st.integers(0, 2))
    axes = [draw(st.lists(st.integers(0, 3), max_size=pairs)) for _ in range(4)]
    numbers = (axes[0], axes[1]), (axes[2], axes[3])
    numbers = draw(sometimes(st.sampled_from([None, 3, ((0,), (0,))]), numbers))
    return arrays, {"dimension_numbers": numbers}


@EXAMPLES
@given(dot_general_calls())
def test_dot_general(call):
    check(hk.dot_general, *call)


@st.composite
def norm_calls(draw):
    shape = [draw(SIZES) for _ in range(draw(st.integers(0, 3)))]
    dtype = draw(sometimes(ODD_DTYPES, "float32"))
    hidden = shape[-1] if shape else 1
    options = {"epsilon": draw(sometimes(st.sampled_from([0, -1.0, "small"]), 1e-3))}
    for i, name in enumerate(("weight", "bias")):
        if draw(st.booleans()):
            size = draw(sometimes(SIZES, hidden))
            options[name] = normal(i + 1, (size,), draw(DTYPES))
    if draw(st.booleans()):
        options["residual"] = normal(3, shape, "float32")
        if dtype != "float32":
            shape = [*shape, 2]  # Wrong in the wide call as well.
    if draw(st.booleans()):
        options["dropout_rate"] = draw(st.sampled_from([0, 1.0, 0.5, 2.0]))
        options["dropout_key"] = draw(sometimes(st.none(), jax.random.key(1)))
    return [normal(0, shape, dtype)], options


@EXAMPLES
@given(norm_calls(), st.sampled_from([hk.layer_norm, hk.rms_norm]))
def test_norms(call, op):
    check(op, *call)


@st.composite
def rotary_calls(draw):
    batch, steps, heads = (draw(SIZES) for _ in range(3))
    dim = draw(st.sampled_from([2, 4, 7]))
    tables = (draw(st.sampled_from([4, 8])), draw(st.sampled_from([1, 2, 4])))
    if draw(st.booleans()):
        tables = (draw(sometimes(SIZES, batch)), *tables)
    dtype = draw(sometimes(ODD_DTYPES, "float32"))
    arrays = [
        normal(0, (batch, steps, heads, dim), dtype),
        normal(1, tables, "float32"),
        normal(2, draw(sometimes(st.just((1, 1)), tables)), "float32"),
    ]
    offset = st.sampled_from([2, -1, 100, "first", np.ones(batch, np.int32)])
    options = {
        "interleaved": draw(sometimes(st.just("yes"), True)),
        "offset": draw(sometimes(offset, None)),
    }
    return arrays, options


@EXAMPLES
@given(rotary_calls())
def test_rotary(call):
    check(hk.rotary, *call)
