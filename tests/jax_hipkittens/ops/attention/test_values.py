"""Values and gradients of attention against float64, at every kind of size."""

import jax.numpy as jnp
import numpy as np
import pytest

from tests.jax_hipkittens import accuracy, bits
from tests.jax_hipkittens.ops.attention import cases
from tests.jax_hipkittens.ops.attention.cases import Case

DTYPES = ["bfloat16", "float16", "float32"]

CORE = [
    Case(),
    Case(batch=2, queries=100, keys=70, heads=8, dim=128),
    Case(queries=130, keys=130, options=dict(is_causal=True)),
]
LENGTHS = [
    Case(queries=t, keys=s)
    for t, s in [
        *((1, 1), (1, 2), (2, 1), (2, 63), (63, 2), (64, 64), (65, 65), (64, 65)),
        *((127, 65), (65, 127), (192, 252), (252, 192), (1, 1000), (1000, 1)),
    ]
] + [Case(queries=1000, keys=1000, heads=2, kv_heads=1)]
HEADS = [
    Case(batch=2, queries=33, keys=40, heads=n, kv_heads=k)
    for n, k in [(1, 1), (2, 2), (2, 1), (4, 1), (8, 1), (6, 3), (16, 2), (12, 3)]
]
DIMS = [
    Case(queries=70, keys=50, heads=2, kv_heads=1, dim=d)
    for d in (1, 8, 19, 48, 64, 72, 96, 104, 128, 255, 256)
]
MASKS = [
    Case(queries=t, keys=s, batch=2, options=options)
    for options in [
        dict(is_causal=True),
        dict(is_causal=True, causal_alignment="bottom_right"),
        dict(local_window_size=(5, 3)),
        dict(local_window_size=(0, 0)),
        dict(local_window_size=(70, 0)),
        dict(is_causal=True, local_window_size=(20, 7)),
        dict(
            is_causal=True,
            local_window_size=(9, 0),
            causal_alignment="bottom_right",
        ),
    ]
    for t, s in [(70, 130), (130, 70)]
]
RAGGED = [
    Case(
        queries=70,
        keys=90,
        batch=5,
        options=dict(
            query_seq_lengths=[0, 1, 70, 33, 64],
            key_value_seq_lengths=[90, 1, 0, 64, 65],
            **options,
        ),
    )
    for options in [
        {},
        dict(is_causal=True),
        dict(is_causal=True, causal_alignment="bottom_right"),
        dict(local_window_size=(7, 2)),
        dict(
            is_causal=True,
            causal_alignment="bottom_right",
            local_window_size=(40, 1),
        ),
    ]
]
SCALES = [Case(options=dict(scale=scale)) for scale in (1.0, 0.01, 0.0, -0.3)]


def assert_right(case, inputs):
    """HK and XLA are both right against float64, HK within its bound."""
    bits.poison_heap(*inputs)
    exact = cases.exact(case, inputs)
    results = zip(
        case.names,
        cases.run(case, "hk", inputs),
        cases.run(case, "xla", inputs),
        [getattr(exact, name) for name in case.names],
        cases.noise(case, inputs),
        strict=True,
    )
    for name, actual, xla, exact, noise in results:
        if name == "lse":
            hidden = np.isneginf(exact)
            np.testing.assert_array_equal(np.isneginf(actual), hidden)
            np.testing.assert_array_equal(np.isneginf(xla), hidden)
            actual, xla = (jnp.where(hidden, 0, x) for x in (actual, xla))
            exact = np.where(hidden, 0, exact)
        assert_close(name, actual, xla, exact, noise, inputs.query.dtype)


def assert_close(name, actual, xla, exact, noise, dtype):
    # The yardstick itself: XLA rounds probabilities to the inputs' dtype before it sums
    # them, and logits of 50 to f32.
    coarse = float(jnp.finfo(dtype).eps)
    try:
        allowance = max(4 * coarse, 2e-5) + 2 * noise
        accuracy.assert_rounded(xla, exact, ulps=8, noise=allowance)
    except AssertionError as error:
        raise AssertionError(f"XLA's {name}: {error}") from error
    try:
        accuracy.assert_as_accurate(actual, xla, exact, noise)
    except AssertionError as error:
        raise AssertionError(f"HK's {name}: {error}") from error


def with_dtypes(all_dtypes, in_turn):
    """Every dtype for the former cases, and one for each of the latter."""
    pairs = [(case, dtype) for case in all_dtypes for dtype in DTYPES]
    return pairs + [(case, DTYPES[i % 3]) for i, case in enumerate(in_turn)]


@pytest.mark.parametrize(
    ("case", "dtype"),
    with_dtypes(CORE, LENGTHS + HEADS + DIMS + MASKS + RAGGED + SCALES),
    ids=str,
)
def test_values_and_gradients(case, dtype):
    assert_right(case, cases.draw(case, dtype))
