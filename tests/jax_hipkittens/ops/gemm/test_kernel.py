"""The kernel's call with a bias for each batch entry."""

import jax.numpy as jnp
import numpy as np
import pytest

from jax_hipkittens.ops.gemm import kernel

B, M, K, N = 3, 4, 7, 10
RNG = np.random.default_rng(0)


def _normal(*shape):
    return jnp.asarray(RNG.standard_normal(shape), jnp.float32)


@pytest.mark.parametrize("batch_a", [1, B])
@pytest.mark.parametrize("batch_b", [1, B])
@pytest.mark.parametrize("batch_bias", [1, B])
def test_bias_for_each_entry(batch_a, batch_b, batch_bias):
    a, b = _normal(batch_a, M, K), _normal(batch_b, K, N)
    bias = _normal(batch_bias, N)
    product = kernel.Gemm(
        present=(True, True, True),
        strict=True,
        m=1,
        n=1,
        k=1,
        trans_a=False,
        trans_b=False,
        dtype=np.dtype(np.float32),
        activation="silu",
        with_z=True,
    )
    c, z = product.call(a, b, bias)
    batch = max(batch_a, batch_b, batch_bias)
    c, z = (x.reshape(batch, M, N) for x in (c, z))  # rows of all entries may be one's
    for i in range(c.shape[0]):
        a_i, b_i, bias_i = (x[i % x.shape[0]] for x in (a, b, bias))
        single = product.call(a_i[None], b_i[None], bias_i[None])
        np.testing.assert_array_equal(c[i], single[0][0])
        np.testing.assert_array_equal(z[i], single[1][0])
