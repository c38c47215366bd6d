"""What attention refuses, and how it says so."""

import inspect
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from tests.jax_hipkittens.ops.attention import cases
from tests.jax_hipkittens.ops.attention.cases import Case

Q, K, V = cases.draw(Case(batch=2, queries=8, keys=6), "float32")[:3]


def wide(case):
    return cases.draw(case, "float32")[:3]


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (
            wide(Case(heads=5, kv_heads=2)),
            {},
            r"multiple of the number of key/value heads K, but received N = 5 .* K = 2",
        ),
        (wide(Case(heads=5, kv_heads=0)), {}, "K = 0"),
        (
            [x.swapaxes(1, 2) for x in wide(Case(queries=65, keys=30))],
            {},
            r"look like BNTD: swap axes with jnp.swapaxes\(x, 1, 2\)",
        ),
        (
            [x[0].swapaxes(0, 1) for x in wide(Case(queries=65, keys=30))],
            {},
            r"look like BNTD: swap axes with jnp.swapaxes\(x, 0, 1\)",
        ),
        ((Q[..., :16], K, V), {}, r"head dimension D, .*\[2,8,4,16\].*\[2,6,2,32\]"),
        ((Q[:1], K, V), {}, "same batch B"),
        ((Q, K, V[:, :5]), {}, r"one shape .*\[2,6,2,32\] and value .*\[2,5,2,32\]"),
        ((Q, K, V[..., :16]), {}, "key and value of one shape"),
        (
            (Q.astype(jnp.bfloat16), K, V),
            {},
            "one dtype for query, key, value, but received query bfloat16, key float32",
        ),
        ((Q[0, 0], K, V), {}, r"query of layout BTND or TND, but received 2 axes"),
        ((Q[None], K, V), {}, "but received 5 axes"),
        ((Q[0], K, V), {}, r"query float32\[8,4,32\] and key float32\[2,6,2,32\]"),
        ((Q.astype(jnp.int32), K, V), {}, r"floating-point dtype, but received int32"),
        (("query", K, V), {}, "query to be an array, but received str"),
        ((Q[..., :0], K[..., :0], V[..., :0]), {}, "head dimension of at least 1"),
        ((Q, K, V), dict(mask=jnp.ones((8, 6))), r"boolean mask.*float32\[1,1,8,6\]"),
        (
            (Q, K, V),
            dict(mask=jnp.ones((2, 3, 8, 6), bool)),
            r"mask broadcastable to \[B,N,T,S\] = \(2, 4, 8, 6\).*bool\[2,3,8,6\]",
        ),
        ((Q, K, V), dict(bias=jnp.ones((1, 1, 1, 8, 6))), r"bias broadcastable"),
        ((Q, K, V), dict(local_window_size=-1), "at least 0, but received -1"),
        ((Q, K, V), dict(local_window_size=(3, -2)), r"received \(3, -2\)"),
        ((Q, K, V), dict(local_window_size=(1, 2, 3)), r"received \(1, 2, 3\)"),
        ((Q, K, V), dict(local_window_size=2.5), r"received 2.5"),
        (
            (Q, K, V),
            dict(query_seq_lengths=np.array([1, 2], np.int16)),
            r"query_seq_lengths of dtype int32, but received int16\[2\]",
        ),
        (
            (Q, K, V),
            dict(key_value_seq_lengths=jnp.array([1], jnp.int32)),
            r"key_value_seq_lengths of shape \[B\] = \(2,\), but received int32\[1\]",
        ),
        ((Q, K, V), dict(key_value_seq_lengths=[1.0, 2.0]), "dtype int32"),
        ((Q, K, V), dict(scale=jnp.ones(3)), r"scale to be one.*float32\[3\]"),
        ((Q, K, V), dict(causal_alignment="left"), "causal_alignment .* 'left'"),
        (
            (Q, K, V),
            dict(causal_alignment="bottom_right", local_window_size=1),
            "is_causal=True with a window aligned bottom_right",
        ),
        ((Q, K, V), dict(is_causal="no"), "is_causal to be True or False, .* 'no'"),
        ((Q, K, V), dict(is_causal=np.ones(2)), "is_causal to be True or False"),
        ((Q, K, V), dict(return_residual=1), "return_residual to be True or False"),
        ((Q, K, V), dict(causal_alignment=["top_left"]), "causal_alignment"),
        ((Q, K, V), dict(key_value_seq_lengths="66"), "key_value_seq_lengths"),
        ((Q, K, V), dict(implementation="cudnn"), "'hk', 'xla', but received 'cudnn'"),
        ((Q, K, V), dict(implementation=()), "at least one implementation"),
    ],
)
def test_wrong_calls(args, options, message):
    with pytest.raises(ValueError, match=message) as raised:
        hk.attention(*args, **options)
    sentence = str(raised.value)
    assert sentence.startswith("attention: expected ") and sentence.endswith(".")
    assert "; " in sentence  # and says what to do
    assert "\n" not in sentence


def test_wrong_calls_are_found_while_tracing():
    def outer(is_causal):
        return hk.attention(Q, K, V, is_causal=is_causal)

    with pytest.raises(ValueError, match="known at trace time"):
        jax.eval_shape(outer, True)
    with pytest.raises(ValueError, match="multiple of"):
        jax.eval_shape(hk.attention, Q[:, :, :3], K, V)


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (wide(Case(dim=257)), {}, "head dimension up to 256, but received 257"),
        ((Q, K, V), dict(bias=jnp.zeros((8, 6))), r"bias.*float32\[1,1,8,6\]"),
        ((Q, K, V), dict(mask=jnp.ones((8, 6), bool)), r"a mask bool\[1,1,8,6\]"),
        (
            [x.astype(jnp.float8_e4m3fn) for x in (Q, K, V)],
            {},
            "bfloat16, float16, float32, but received float8_e4m3fn",
        ),
    ],
)
def test_calls_that_only_xla_serves(args, options, message, caplog):
    with pytest.raises(NotImplementedError, match=message) as raised:
        hk.attention(*args, **options, implementation="hk")
    assert str(raised.value).startswith("attention: HK kernels serve ")
    assert str(raised.value).endswith("; implementation=None falls back to XLA.")
    if args[0].dtype != jnp.float8_e4m3fn:
        with caplog.at_level(logging.WARNING, "jax_hipkittens"):
            out = hk.attention(*args, **options)
        assert out.shape == args[0].shape


@pytest.mark.parametrize(
    ("case", "warns"),
    [
        (Case(queries=64, keys=64, heads=8, kv_heads=2), True),
        (Case(queries=64, keys=64, heads=8, kv_heads=8), True),
        (Case(queries=4, keys=4, heads=8, kv_heads=8), False),
    ],
)
def test_shapes_that_look_like_heads_before_time(case, warns, caplog):
    """Such a call is right by its shapes, so it runs, with a warning."""
    swapped = [x.swapaxes(1, 2) for x in wide(case)]
    assert hk.attention(*swapped).shape == swapped[0].shape
    assert ("look like BNTD" in caplog.text) == warns
    caplog.clear()
    hk.attention(*wide(case))
    assert not caplog.records


def test_takes_the_arguments_of_jax_nn():
    """Same names, order, kinds and defaults, then ours."""
    theirs = inspect.signature(jax.nn.dot_product_attention).parameters
    ours = inspect.signature(hk.attention).parameters
    assert list(ours) == [*theirs, "causal_alignment"]
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind
        assert ours[name].default == parameter.default


@pytest.mark.parametrize(
    "lengths",
    [
        [3, 2**40],
        (3, 2**70),
        np.array([3, 2**40]),
        np.array([3, 2**40 + 1], np.uint64),
        np.array([3, 6], np.int64),
        [np.int64(3), jnp.int32(6)],
    ],
)
def test_lengths_of_any_size_do_not_wrap(lengths):
    expected = hk.attention(Q, K, V, key_value_seq_lengths=jnp.array([3, 6], jnp.int32))
    actual = hk.attention(Q, K, V, key_value_seq_lengths=lengths)
    np.testing.assert_array_equal(actual, expected)


def test_lengths_may_have_64_bits():
    with jax.enable_x64(True):
        lengths = jnp.array([3, 2**40])
        assert lengths.dtype == jnp.int64
        actual = hk.attention(Q, K, V, key_value_seq_lengths=lengths)
    expected = hk.attention(Q, K, V, key_value_seq_lengths=[3, 6])
    np.testing.assert_array_equal(actual, expected)
