"""The kernels' calls on rows in groups: one call is as good as one for each group."""

import jax.numpy as jnp
import numpy as np
import pytest

from jax_hipkittens.ops.norm import kernel

GROUPS, ROWS, HIDDEN = 3, 5, 12
CONFIG = kernel.Config("layer", 1e-6, 0.25)
RNG = np.random.default_rng(0)


def _normal(*shape, dtype=jnp.float32):
    return jnp.asarray(RNG.standard_normal(shape), dtype)


X, RESIDUAL, DY, DH = (_normal(GROUPS * ROWS, HIDDEN) for _ in range(4))
WEIGHT, BIAS = _normal(GROUPS, HIDDEN), _normal(GROUPS, HIDDEN)
SEED = jnp.asarray([[1, 2], [3, 4], [5, 6]], jnp.uint32)
ORIGIN = jnp.asarray([[0, 0], [7, 1], [2**32 - 2, 0]], jnp.uint32)


def _rows(group):
    return slice(group * ROWS, (group + 1) * ROWS)


def _run(weight, bias, seed, origin, rows=slice(None)):
    """(forward, backward) of some of the rows, by the names of their results."""
    operands = (X[rows], RESIDUAL[rows], weight, bias, seed, origin)
    y, h, mean, rstd = kernel.call_forward(CONFIG, operands, makes_h=True)
    operands = (h, mean, rstd, DY[rows], DH[rows], weight, seed, origin)
    dx, dresidual, dweight, dbias = kernel.call_backward(
        CONFIG, operands, sums=len(weight), has_bias=True
    )
    return dict(y=y, h=h, mean=mean, rstd=rstd, dx=dx, dresidual=dresidual), dict(
        dweight=dweight, dbias=dbias
    )


def _part(array, group):
    return array[group : group + 1] if len(array) == GROUPS else array


@pytest.mark.parametrize("weight", [WEIGHT, WEIGHT[:1]])
@pytest.mark.parametrize("seed", [SEED, SEED[:1]])
def test_groups_are_calls_of_their_own(weight, seed):
    bias = BIAS[: len(weight)]
    rows, sums = _run(weight, bias, seed, ORIGIN)
    singles = [
        _run(
            _part(weight, group),
            _part(bias, group),
            _part(seed, group),
            ORIGIN[group : group + 1],
            _rows(group),
        )
        for group in range(GROUPS)
    ]
    for name, array in rows.items():
        expected = jnp.concatenate([single[name] for single, _ in singles])
        np.testing.assert_array_equal(array, expected)
    for name, array in sums.items():
        expected = jnp.concatenate([single[name] for _, single in singles])
        if len(weight) == 1:
            expected = expected.sum(axis=0, keepdims=True)
        np.testing.assert_allclose(array, expected, rtol=2e-6, atol=2e-6)


def test_the_mask_of_a_part_is_part_of_the_mask():
    def hidden(x, first_row):
        origin = jnp.asarray([[first_row, 0]], jnp.uint32)
        operands = (x, None, None, None, SEED[:1], origin)
        return kernel.call_forward(CONFIG, operands, makes_h=True)[1]

    np.testing.assert_array_equal(hidden(X[4:], 4), hidden(X, 0)[4:])
