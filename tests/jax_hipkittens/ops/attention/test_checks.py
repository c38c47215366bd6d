"""What attention refuses, and how it says so."""

import inspect
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from jax_hipkittens import _dispatch
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
        ((Q, K, V[:, :, :1]), {}, r"key \[B,S,K,D\] and value of one shape"),
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
            "is_causal=True with a window or slopes aligned bottom_right",
        ),
        ((Q, K, V), dict(is_causal="no"), "is_causal to be True or False, .* 'no'"),
        ((Q, K, V), dict(is_causal=np.ones(2)), "is_causal to be True or False"),
        ((Q, K, V), dict(return_residual=1), "return_residual to be True or False"),
        ((Q, K, V), dict(causal_alignment=["top_left"]), "causal_alignment"),
        ((Q, K, V), dict(key_value_seq_lengths="66"), "key_value_seq_lengths"),
        ((Q, K, V), dict(layout="BSHD"), "layout to be one of 'BTNH', 'BNTH'"),
        ((Q, K, V), dict(layout="BNTH"), "N = 8 .* K = 6 .*BNTH: heads before time"),
        (
            (Q, K, V),
            dict(logits_soft_cap=0),
            "logits_soft_cap to be an f32 number above 0",
        ),
        ((Q, K, V), dict(logits_soft_cap=np.inf), "but received inf"),
        ((Q, K, V), dict(logits_soft_cap=np.nan), "but received nan"),
        ((Q, K, V), dict(logits_soft_cap=jnp.float32(2)), "known at trace time"),
        ((Q, K, V), dict(sinks=jnp.ones(2)), r"sinks of shape \[N\] = \(4,\)"),
        ((Q, K, V), dict(sinks=jnp.ones(4, jnp.int32)), "sinks of a floating-point"),
        ((Q, K, V), dict(sinks="none"), "sinks to be an array, but received str"),
        ((Q, K, V), dict(alibi_slopes=jnp.ones((4, 1))), r"alibi_slopes of shape"),
        (
            (Q, K, V),
            dict(alibi_slopes=[1, 2, 3, 4]),
            "alibi_slopes of a floating-point",
        ),
        (
            (Q, K, V),
            dict(query_segment_ids=np.zeros((2, 8), np.int32)),
            r"key_value_segment_ids of shape \[B,S\] = \(2, 6\).*int32\[2,8\]",
        ),
        (
            (Q, K, V),
            dict(key_value_segment_ids=np.zeros((2, 6), np.int32)),
            r"query_segment_ids of shape \[B,T\] = \(2, 8\).*int32\[2,6\]",
        ),
        (
            (Q, Q, Q),
            dict(query_segment_ids=np.zeros((2, 8), np.float32)),
            "query_segment_ids of dtype int32",
        ),
        (
            (Q, Q, Q),
            dict(query_positions=np.zeros(8, np.int32)),
            r"query_positions of shape \[B,T\] = \(2, 8\), but received int32\[8\]",
        ),
        (
            (Q, Q, Q),
            dict(key_value_positions=np.ones((2, 8), bool)),
            "positions of dtype int32, but received bool",
        ),
        ((Q, K, V), dict(dropout_rate=-0.1), r"dropout_rate in \[0, 1\].*-0.1"),
        ((Q, K, V), dict(dropout_rate=1.5), r"dropout_rate in \[0, 1\].*1.5"),
        ((Q, K, V), dict(dropout_rate=np.nan), r"dropout_rate in \[0, 1\].*nan"),
        ((Q, K, V), dict(dropout_rate="half"), "dropout_rate to be a number known"),
        ((Q, K, V), dict(dropout_rate=jnp.float32(0.1)), "known at trace time"),
        ((Q, K, V), dict(dropout_rate=0.1), "dropout_key with dropout_rate=0.1"),
        (
            (Q, K, V),
            dict(dropout_rate=0.1, dropout_key=jnp.ones(2)),
            "dropout_key to be one JAX random key",
        ),
        (
            (Q, K, V),
            dict(dropout_rate=0.1, dropout_key=jax.random.split(jax.random.key(0))),
            "dropout_key to be one JAX random key",
        ),
        (
            (Q, K, V),
            dict(causal_alignment="bottom_right", alibi_slopes=jnp.ones(4)),
            "is_causal=True with a window or slopes aligned bottom_right",
        ),
        ((Q, K, V), dict(logits_soft_cap=1e-50), "logits_soft_cap .* 1e-50"),
        ((Q, K, V), dict(logits_soft_cap=1e39), r"logits_soft_cap .* 1e\+39"),
        ((Q, K, V), dict(scale=np.complex64(1)), "scale to be one floating-point"),
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
        (
            (Q, K, jnp.zeros((2, 6, 2, 300))),
            {},
            "head dimension up to 256, but received 300",
        ),
        (
            [x.astype(jnp.float8_e4m3fn) for x in (Q, K, V)],
            {},
            "bfloat16, float16, float32, but received float8_e4m3fn",
        ),
    ],
)
def test_calls_that_only_xla_serves(args, options, message, caplog, monkeypatch):
    monkeypatch.setattr(_dispatch, "_said", set())
    with pytest.raises(NotImplementedError, match=message) as raised:
        hk.attention(*args, **options, implementation="hk")
    assert str(raised.value).startswith("attention: HK kernels serve ")
    assert str(raised.value).endswith("; implementation=None falls back to XLA.")
    if args[0].dtype != jnp.float8_e4m3fn:
        with caplog.at_level(logging.WARNING, "jax_hipkittens"):
            out = hk.attention(*args, **options)
        assert out.shape == (*args[0].shape[:3], args[2].shape[3])
        assert "attention falls back to XLA" in caplog.text


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
    assert list(ours)[: len(theirs)] == list(theirs)
    for name in list(ours)[len(theirs) :]:
        assert ours[name].kind == inspect.Parameter.KEYWORD_ONLY
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


def varlen(*bounds, **options):
    return lambda: hk.attention_varlen(Q[0], K[0], V[0], *bounds, **options)


def decode(lengths, **options):
    return lambda: hk.attention_decode(Q, K, V, lengths, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hk.attention_varlen(Q, K, V, [0, 8]), "query of layout TND.*4 axes"),
        (varlen([[0, 8]]), r"cu_seqlens_q of shape \[I\+1\].*int32\[1,2\]"),
        (varlen([0.0, 8.0]), "cu_seqlens_q of shape .* dtype int32, .*float32"),
        (varlen(np.zeros(0, np.int32)), r"cu_seqlens_q .*int32\[0\]"),
        (varlen("bounds"), "cu_seqlens_q to be an array"),
        (varlen([0, 8], [0, 3, 6]), r"cu_seqlens_k of shape \[I\+1\] = \(2,\)"),
        (varlen([0, 8], query_segment_ids=Q), "no query_segment_ids"),
        (varlen([0, 8], key_value_positions=Q), "no key_value_positions"),
        (varlen([0, 8], query_seq_lengths=[8]), "no query_seq_lengths"),
        (varlen([0, 8], layout="BNTH"), "no layout"),
        (varlen([0, 8], is_causal=1), "is_causal to be True or False"),
        (varlen([0, 8], causal_alignment="left"), "causal_alignment"),
        (varlen([0, 8], is_causal=True, causal_alignment="left"), "causal_alignment"),
        (decode([1, 2, 3]), r"lengths s32\[B\] with B=2, but received int32\[3\]"),
        (decode(None), "lengths"),
        (decode([1.0, 2.0]), r"lengths s32\[B\] with B=2, but received float32\[2\]"),
        (decode([1, 2], is_causal=False), "no is_causal"),
        (decode([1, 2], query_seq_lengths=[1, 1]), "no query_seq_lengths"),
        (decode([1, 2], causal_alignment="top_left"), "no causal_alignment"),
    ],
)
def test_wrong_calls_of_the_packed_forms(call, message):
    with pytest.raises(ValueError, match=message) as raised:
        call()
    sentence = str(raised.value)
    assert ": expected " in sentence and ", but received " in sentence
    assert "; " in sentence and sentence.endswith(".") and "\n" not in sentence


def test_unknown_options_are_type_errors_as_of_any_function():
    for call in (decode([1, 2], window=3), varlen([0, 8], window=3)):
        with pytest.raises(TypeError, match=r"^attention_\w+\(\) .* 'window'"):
            call()
