"""Attention over packed sequences, and over a cache of keys and values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jax_hipkittens as hk
from tests.jax_hipkittens.ops.attention import cases
from tests.jax_hipkittens.ops.attention.cases import Case

IMPLEMENTATIONS = ["hk", "xla"]
QUERIES, KEYS = 33, 70
ARRAYS = [
    x[0] for x in cases.draw(Case(queries=QUERIES, keys=KEYS, dim=16), "float32")[:4]
]
STARTS_Q = np.array([0, 10, 10, 11, 30], np.int32)  # Three tokens are padding.
STARTS_K = np.array([0, 20, 25, 25, 64], np.int32)


def varlen(implementation, starts_k, **options):
    def of(query, key, value):
        return hk.attention_varlen(
            *(query, key, value, STARTS_Q, starts_k),
            implementation=implementation,
            return_residual=True,
            **options,
        )

    return of


def one_by_one(starts_k, **options):
    """Each sequence by itself; whoever belongs to none gives zeros."""

    def of(query, key, value):
        out, lse = jnp.zeros_like(query), jnp.full(query.shape[:2], -jnp.inf)
        for i in range(len(STARTS_Q) - 1):
            t, s = (slice(x[i], x[i + 1]) for x in (STARTS_Q, starts_k))
            found = hk.attention(
                *(query[t], key[s], value[s]),
                implementation="xla",
                return_residual=True,
                **options,
            )
            out, lse = (x.at[t].set(y) for x, y in zip((out, lse), found, strict=True))
        return out, lse

    return of


def value_and_gradients(function, arrays):
    @jax.jit
    def run(query, key, value, d_out):
        (out, lse), pullback = jax.vjp(function, query, key, value)
        d_lse = jnp.where(jnp.isneginf(lse), 0.0, jnp.sin(d_out[..., 0]))
        return out, lse, *pullback((d_out, d_lse))

    return run(*arrays)


def assert_close(actual, expected):
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        dict(is_causal=True),
        dict(is_causal=True, causal_alignment="bottom_right"),
        dict(
            is_causal=True,
            causal_alignment="bottom_right",
            local_window_size=(6, 0),
            logits_soft_cap=3.0,
        ),
    ],
)
def test_packed_sequences(options):
    expected = value_and_gradients(one_by_one(STARTS_K, **options), ARRAYS)
    for implementation in IMPLEMENTATIONS:
        function = varlen(implementation, STARTS_K, **options)
        assert_close(value_and_gradients(function, ARRAYS), expected)


def test_bounds_of_keys_default_to_those_of_queries():
    arrays = [ARRAYS[0], ARRAYS[1][:QUERIES], ARRAYS[2][:QUERIES], ARRAYS[3]]
    expected = value_and_gradients(one_by_one(STARTS_Q, is_causal=True), arrays)
    actual = value_and_gradients(varlen("hk", None, is_causal=True), arrays)
    assert_close(actual, expected)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_padding_tokens(implementation):
    """They give zeros and take no part, whatever they hold."""
    function = varlen(implementation, STARTS_K, is_causal=True)
    results = value_and_gradients(function, ARRAYS)
    out, lse, *gradients = results
    np.testing.assert_array_equal(out[30:], 0)
    np.testing.assert_array_equal(lse[30:], -np.inf)
    for gradient, end in zip(gradients, (30, 64, 64), strict=True):
        np.testing.assert_array_equal(gradient[end:], 0)
    loud = [
        x.at[end:].set(1e3) for x, end in zip(ARRAYS, (30, 64, 64, 30), strict=True)
    ]
    again = value_and_gradients(function, loud)
    for x, y, end in zip(again, results, (30, 30, 30, 64, 64), strict=True):
        np.testing.assert_array_equal(x[:end], y[:end])


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_no_sequences(implementation):
    out = hk.attention_varlen(*ARRAYS[:3], [0], implementation=implementation)
    np.testing.assert_array_equal(out, 0)
    causal = dict(is_causal=True, causal_alignment="bottom_right")
    out = hk.attention_varlen(
        *ARRAYS[:3], np.zeros(1, np.int32), **causal, implementation=implementation
    )
    np.testing.assert_array_equal(out, 0)


def decode_inputs(steps, dtype="float32"):
    return cases.draw(Case(batch=3, queries=steps, keys=70, dim=16), dtype)[:3]


LENGTHS = [1, 40, 70]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("steps", [1, 3])
def test_decoding(implementation, steps):
    """Against the last rows of causal attention of each sequence's tokens alone."""
    query, key, value = decode_inputs(steps)
    out, lse = jax.jit(
        lambda *arrays: hk.attention_decode(
            *arrays, implementation=implementation, return_residual=True
        )
    )(query, key, value, jnp.asarray(LENGTHS, jnp.int32))
    for b, length in enumerate(LENGTHS):
        for t in range(steps):
            seen = length - steps + t + 1
            if seen <= 0:
                np.testing.assert_array_equal(out[b, t], 0)
                np.testing.assert_array_equal(lse[b, t], -np.inf)
                continue
            expected = hk.attention(
                *(query[b, t : t + 1], key[b, :seen], value[b, :seen]),
                implementation="xla",
                return_residual=True,
            )
            assert_close((out[b, t], lse[b, t]), (x[0] for x in expected))


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf])
def test_decoding_does_not_read_beyond_the_lengths(implementation, dtype, garbage):
    query, key, value = decode_inputs(3, dtype)
    beyond = np.arange(70).reshape(1, 70, 1, 1) >= np.reshape(LENGTHS, (3, 1, 1, 1))

    def run(filler):
        caches = (
            jnp.where(beyond, jnp.asarray(filler, dtype), x) for x in (key, value)
        )
        return hk.attention_decode(
            query, *caches, LENGTHS, implementation=implementation, return_residual=True
        )

    for x, y in zip(run(garbage), run(0), strict=True):
        np.testing.assert_array_equal(x, y)


def test_causality_may_be_a_numpy_bool():
    found = [
        varlen("hk", STARTS_K, is_causal=flag, causal_alignment="bottom_right")(
            *ARRAYS[:3]
        )
        for flag in (True, np.True_)
    ]
    assert_close(*found)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_nobody_reads_keys_of_padding(implementation):
    query, key, value = ARRAYS[:3]
    op = varlen(implementation, STARTS_K)
    spoiled = op(query, key.at[64:].set(jnp.nan), value.at[64:].set(jnp.nan))
    assert_close(spoiled, op(query, key, value))


def test_decoding_takes_no_positions():
    query, key, value = (x[None] for x in ARRAYS[:3])
    with pytest.raises(ValueError, match="^attention_decode: .* query_positions"):
        hk.attention_decode(
            query[:, :1], key, value, [9], query_positions=jnp.zeros((1, 1), int)
        )


def test_ranks():
    query, key, value = decode_inputs(1)
    with pytest.raises(ValueError, match=r"^attention_decode: .* layout BTND"):
        hk.attention_decode(query[0], key[0], value[0], [1])
    with pytest.raises(ValueError, match=r"^attention_varlen: .* layout SKE"):
        hk.attention_varlen(query[0], key[0], value, [0, 1])
