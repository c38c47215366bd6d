"""Ring attention; what needs several devices runs in a process of its own."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import jax_hipkittens as hk
from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.attention import rings


@pytest.fixture(scope="module")
def outcomes():
    """What became of every check in the other process."""
    flags = "--xla_force_host_platform_device_count=8"
    module = "tests.jax_hipkittens.ops.attention.rings"
    return json.loads(bits.main_in_process(module, XLA_FLAGS=flags).splitlines()[-1])


@pytest.mark.parametrize("check", list(rings.CHECKS))
def test_on_several_devices(outcomes, check):
    assert outcomes[check] == "right", outcomes[check]


def test_zigzag_order():
    order = hk.zigzag_order(12, 3)
    np.testing.assert_array_equal(order, [0, 1, 10, 11, 2, 3, 8, 9, 4, 5, 6, 7])
    with pytest.raises(ValueError, match=r"multiple of 2 \* parts, but received.* 10 "):
        hk.zigzag_order(10, 2)
    with pytest.raises(
        ValueError, match=r"multiple of 2 \* parts, but received.*8\.0 "
    ):
        hk.zigzag_order(8.0, 2)


def mesh(kind=AxisType.Auto):
    return jax.make_mesh((1,), ("tokens",), axis_types=(kind,))


def sharded(query, key, **options):
    given = {"mesh": mesh(), "axis_name": "tokens"} | options
    return hk.ring_attention_sharded(query, key, key, **given)


X = jnp.ones((1, 3, 2, 4))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("order", ["contiguous", "zigzag"])
def test_one_device_is_attention(order, kind):
    x = jnp.ones((1, 4, 2, 8)) * jnp.arange(4.0).reshape(1, 4, 1, 1)
    options = dict(is_causal=True, return_residual=True)
    actual = sharded(x, x, order=order, mesh=mesh(kind), **options)
    bits.assert_same_bits(actual, hk.attention(x, x, x, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(axis_name="heads"), r"axes of the mesh, which has .*axis_name='heads'"),
        (dict(head_axes="tokens"), r"different axes of the mesh.*head_axes='tokens'"),
        (dict(order="zigzag"), r"query with T a multiple of 2.*float32\[1,3,2,4\]"),
        (dict(order="random"), r"order to be one of 'contiguous', 'zigzag'.*'random'"),
        (dict(mesh=None), r"mesh to be a jax.sharding.Mesh, but received None"),
        (dict(implementation="cuda"), r"implementation to be one of"),
        (dict(return_residual=1), r"return_residual to be True or False"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        sharded(X, X, **options)


def test_mistakes_in_shard_map():
    def local(x, **options):
        return hk.ring_attention(x, x, x, **options)

    def mapped(**options):
        spec = PartitionSpec(None, "tokens")
        return jax.shard_map(
            lambda x: local(x, **options), mesh=mesh(), in_specs=spec, out_specs=spec
        )(X)

    with pytest.raises(ValueError, match=r"where the axes are \('tokens',\); call it"):
        mapped(axis_name="heads")
    with pytest.raises(ValueError, match=r"even number of tokens per device.*\[1,3,2"):
        mapped(axis_name="tokens", order="zigzag")
    with pytest.raises(ValueError, match=r"axis_name to be a mesh axis.*inside jax.sh"):
        local(X, axis_name="tokens")
    with pytest.raises(ValueError, match=r"query of layout BTND, but received 3 axes"):
        sharded(X[0], X)
    with pytest.raises(NotImplementedError, match=r"ring_attention: HK kernels serve"):
        big = jnp.ones((1, 2, 1, 512))
        sharded(big, big, implementation="hk")
