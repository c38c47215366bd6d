import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_hipkittens.ops import philox
from tests.jax_hipkittens.ops.norm import oracle

# The known answers published with the authors' Random123 library, philox4x32-10.
KNOWN = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def words(values):
    return tuple(jnp.uint32(value) for value in values)


@pytest.mark.parametrize("counter, key, expected", KNOWN)
def test_known_answers(counter, key, expected):
    actual = philox.philox4x32(words(counter), words(key))
    assert tuple(int(word) for word in actual) == expected
    assert tuple(oracle.philox(counter, key)) == expected


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 3, 7), (64, 33), (0, 4)])
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999, 1.0])
def test_mask_is_the_oracles(shape, rate):
    seed = (0x243F6A88, 0x85A308D3)
    mask = philox.keep_mask(jnp.array(seed, jnp.uint32), rate, shape)
    np.testing.assert_array_equal(mask, oracle.keep_mask(seed, rate, shape))


def test_kept_share():
    seed = jax.random.bits(jax.random.key(0), (2,), jnp.uint32)
    mask = philox.keep_mask(seed, 0.3, (1000, 1000))
    # 4 standard deviations of a binomial of 10^6 draws.
    assert abs(float(mask.mean()) - 0.7) < 4 * np.sqrt(0.3 * 0.7 / 1e6)


def test_scale():
    assert philox.keep_scale(0.5) == 2.0
    assert philox.keep_scale(1.0) == 0.0


def test_too_many_elements():
    with pytest.raises(NotImplementedError, match="at most 17179869184 elements"):
        philox.keep_mask(jnp.zeros(2, jnp.uint32), 0.5, (1 << 20, 1 << 15))
