"""f32 and f16 as sums of bf16, and products of them."""

import jax.numpy as jnp
import numpy as np
import pytest

from jax_hipkittens.ops.gemm import parts
from tests.jax_hipkittens.ops.gemm.cases import draw

COUNTS = {"float32": 3, "float16": 2, "bfloat16": 1}


def sum_of(split):
    assert all(part.dtype == jnp.bfloat16 for part in split)
    return sum(np.asarray(part, np.float64) for part in split)


@pytest.mark.parametrize("dtype", COUNTS)
def test_the_parts_of_a_number_are_exact(dtype):
    (x,) = draw(0, dtype, (1000,))
    most = float(jnp.finfo(dtype).max)
    extreme = jnp.asarray([most, -most, -1e-3, 1 + 2**-20, 0.0, -0.0], dtype)
    for array in x, extreme:
        split = parts.split(array)
        assert len(split) == COUNTS[dtype]
        np.testing.assert_array_equal(sum_of(split), np.asarray(array, np.float64))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_is_no_number_is_the_first_part(dtype):
    x = jnp.asarray([jnp.inf, -jnp.inf, jnp.nan], dtype)
    first, *others = parts.split(x)
    np.testing.assert_array_equal(first.astype(dtype), x)
    for part in others:
        np.testing.assert_array_equal(part, 0)


@pytest.mark.parametrize("left", COUNTS)
@pytest.mark.parametrize("right", COUNTS)
def test_products_lose_less_than_f32_does(left, right):
    (x,), (y,) = draw(1, left, (5, 70)), draw(2, right, (70, 6))
    a, b = parts.pairs((x, 1), (y, 0))
    assert a.shape == (5, b.shape[0], 70) and b.shape[1:] == (70, 6)
    counts = range(COUNTS[left]), range(COUNTS[right])
    assert a.shape[1] == sum(i + j < 3 for i in counts[0] for j in counts[1])
    found = np.einsum("mpk,pkn->mn", *(np.asarray(z, np.float64) for z in (a, b)))
    exact = np.asarray(x, np.float64) @ np.asarray(y, np.float64)
    np.testing.assert_allclose(found, exact, rtol=0, atol=2.0**-22 * 70)


def test_infinities_meet_first_parts_alone():
    x = jnp.asarray([[jnp.inf, 1.0]], jnp.float32)
    y = jnp.ones((2, 1), jnp.float32)
    a, b = (np.asarray(z, np.float64) for z in parts.pairs((x, 1), (y, 0)))
    assert np.einsum("mpk,pkn->mn", a, b) == np.inf
