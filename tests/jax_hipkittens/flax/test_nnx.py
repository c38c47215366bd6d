"""HK ops inside flax.nnx modules: the same parameters, results and gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jax_hipkittens.flax import nnx as hk_nnx
from tests.jax_hipkittens import accuracy


def normal(seed, shape, dtype="float32"):
    return jax.random.normal(jax.random.key(seed), shape, dtype)


def value_and_gradients(module, *args, **kwargs):
    def loss(module):
        y = module(*args, **kwargs)
        return jnp.sum(jnp.sin(y.astype(jnp.float32))), y

    grads, y = nnx.jit(nnx.grad(loss, has_aux=True))(module)
    return y, nnx.to_pure_dict(grads)


def assert_same(ours, flaxs, *args, **kwargs):
    """Same values and gradients with the parameters of ``flaxs``."""
    nnx.update(ours, nnx.state(flaxs, nnx.Param))
    actual = value_and_gradients(ours, *args, **kwargs)
    expected = value_and_gradients(flaxs, *args, **kwargs)
    assert actual[0].dtype == expected[0].dtype

    def close(a, b):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)

    jax.tree.map(close, actual, expected)


def lowered(module, x):
    graph, state = nnx.split(module)
    return (
        jax.jit(lambda state, x: nnx.merge(graph, state)(x)).lower(state, x).as_text()
    )


def attention(attention_fn, **arguments):
    arguments = dict(num_heads=4, qkv_features=32, decode=False) | arguments
    return nnx.MultiHeadAttention(
        in_features=16, attention_fn=attention_fn, rngs=nnx.Rngs(0), **arguments
    )


def pair(implementation="hk", **arguments):
    hk_fn = functools.partial(hk_nnx.attention_fn, implementation=implementation)
    ours = attention(hk_fn, **arguments)
    return ours, attention(nnx.dot_product_attention, **arguments)


@pytest.mark.parametrize("shape", [(2, 7, 16), (7, 16), (2, 3, 7, 16)])
def test_attention(shape):
    ours, flaxs = pair()
    x = normal(0, shape)
    assert_same(ours, flaxs, x)
    assert "jax_hipkittens_attention_forward" in lowered(ours, x)


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("num_kv_heads", [1, 2])
def test_grouped_queries(is_causal, num_kv_heads):
    ours, flaxs = pair(num_kv_heads=num_kv_heads)
    assert_same(ours, flaxs, normal(0, (2, 7, 16)), is_causal=is_causal)


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_masks_of_any_dtype(dtype):
    ours, flaxs = pair()
    x = normal(0, (2, 7, 16))
    mask = nnx.make_causal_mask(x[..., 0], dtype=dtype)
    assert_same(ours, flaxs, x, mask=mask)


def test_bfloat16():
    ours, flaxs = pair(dtype=jnp.bfloat16)
    _, exact = pair()
    x = normal(0, (2, 64, 16))
    accuracy.assert_as_accurate(ours(x), flaxs(x), exact(x))


def test_dropout_runs_flaxs_own():
    arguments = dict(dropout_rate=0.5, deterministic=False, keep_rngs=False)
    ours, flaxs = pair(implementation=None, **arguments)
    x = normal(0, (2, 7, 16))
    for is_causal in (False, True):
        results = [
            module(x, is_causal=is_causal, rngs=nnx.Rngs(dropout=3))
            for module in (ours, flaxs)
        ]
        np.testing.assert_array_equal(*results)
    strict, _ = pair(**arguments)
    with pytest.raises(NotImplementedError, match="attention_fn: .*dropout_rate=0.5"):
        strict(x, rngs=nnx.Rngs(dropout=3))
    assert_same(strict, flaxs, x, deterministic=True)


@pytest.mark.filterwarnings("ignore:Using 'Module.sow:DeprecationWarning")
def test_sown_weights():
    ours, flaxs = pair(implementation=None)
    x = normal(0, (2, 7, 16))
    outs = [module(x, sow_weights=True) for module in (ours, flaxs)]
    np.testing.assert_array_equal(*outs)
    sown = [
        jax.tree.leaves(nnx.state(module, nnx.Intermediate)) for module in (ours, flaxs)
    ]
    assert sown[0]
    np.testing.assert_array_equal(*sown)


def test_decoding():
    ours, flaxs = pair(implementation=None, decode=True)
    x = normal(0, (2, 5, 16))
    for module in (ours, flaxs):
        module.init_cache(x.shape)
    for step in range(5):
        outs = [module(x[:, step : step + 1]) for module in (ours, flaxs)]
        np.testing.assert_allclose(*outs, rtol=1e-4, atol=2e-5)


HOOK = functools.partial(hk_nnx.dot_general, implementation="hk")
DENSE = {
    "Linear": (nnx.Linear, (16, 6), {}, (2, 5, 16)),
    "LinearGeneral": (
        nnx.LinearGeneral,
        ((4, 3), (2, 5)),
        dict(axis=(-2, -1)),
        (2, 5, 4, 3),
    ),
}


@pytest.mark.parametrize("name", DENSE)
def test_dot_general(name):
    module, features, arguments, shape = DENSE[name]
    ours = module(*features, rngs=nnx.Rngs(0), dot_general=HOOK, **arguments)
    flaxs = module(*features, rngs=nnx.Rngs(0), **arguments)
    x = normal(0, shape)
    assert_same(ours, flaxs, x)
    assert "jax_hipkittens_gemm" in lowered(ours, x)


def test_preferred_element_type():
    def linear(**arguments):
        return nnx.Linear(16, 6, rngs=nnx.Rngs(0), **arguments)

    x = normal(0, (2, 5, 16))
    to_bfloat16 = dict(preferred_element_type=jnp.bfloat16)
    ours = linear(dot_general=HOOK, **to_bfloat16)(x)
    accuracy.assert_as_accurate(ours, linear(**to_bfloat16)(x), linear()(x))


def test_dot_general_of_attention():
    ours, _ = pair(qkv_dot_general=HOOK, out_dot_general=HOOK)
    _, flaxs = pair()
    assert_same(ours, flaxs, normal(0, (2, 7, 16)))


NORMS = ["LayerNorm", "RMSNorm"]


def norms(name, implementation="hk", features=48, **arguments):
    def make(library, **more):
        module = getattr(library, name)
        return module(
            features, use_fast_variance=False, rngs=nnx.Rngs(0), **arguments, **more
        )

    return make(hk_nnx, implementation=implementation), make(nnx)


def randomise(module):
    state = nnx.state(module, nnx.Param)
    shifted = jax.tree.map(lambda p: p + normal(2, p.shape, p.dtype), state)
    nnx.update(module, shifted)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("use_scale", [False, True])
def test_norms(name, use_scale):
    ours, flaxs = norms(name, use_scale=use_scale, epsilon=1e-3)
    assert jax.tree.structure(nnx.to_pure_dict(nnx.state(ours))) == jax.tree.structure(
        nnx.to_pure_dict(nnx.state(flaxs))
    )
    randomise(flaxs)
    x = normal(0, (2, 5, 48)) * 3 + 1
    assert_same(ours, flaxs, x)
    assert "jax_hipkittens_norm_forward" in lowered(ours, x)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(
    "x_dtype, dtype, param_dtype",
    [
        ("bfloat16", None, "float32"),
        ("float32", "bfloat16", "float32"),
        ("bfloat16", "bfloat16", "float32"),
        ("bfloat16", None, "bfloat16"),
    ],
)
def test_norm_dtypes(name, x_dtype, dtype, param_dtype):
    dtype = dtype and jnp.dtype(dtype)
    ours, flaxs = norms(name, dtype=dtype, param_dtype=jnp.dtype(param_dtype))
    x = normal(0, (3, 48), x_dtype)
    actual, expected = ours(x), flaxs(x)
    assert actual.dtype == expected.dtype
    error = accuracy.largest_error(actual, np.asarray(expected, np.float64))
    assert error <= 2 * accuracy.rounding(actual.dtype, expected) + 1e-5


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(
    "arguments", [dict(reduction_axes=(0, 1)), dict(reduction_axes=0)]
)
def test_what_only_flax_serves(name, arguments):
    x = normal(0, (2, 5, 48))
    ours, flaxs = norms(name, implementation=None, **arguments)
    assert_same(ours, flaxs, x)
    strict, _ = norms(name, **arguments)
    with pytest.raises(NotImplementedError, match=f"{name}: .*reduction_axes"):
        strict(x)


@pytest.mark.parametrize("name", NORMS)
def test_masked_statistics(name):
    ours, flaxs = norms(name, implementation=("hk", "xla"))
    assert_same(ours, flaxs, normal(0, (2, 5, 48)), mask=jnp.arange(48) < 40)


@pytest.mark.parametrize("name", NORMS)
def test_norm_under_nnx_jit(name):
    ours, flaxs = norms(name, implementation=["hk"])
    x = normal(0, (3, 48))
    y = nnx.jit(lambda module, x: module(x))(ours, x)
    np.testing.assert_allclose(y, flaxs(x), rtol=1e-4, atol=2e-5)
