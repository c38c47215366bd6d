"""HK ops inside flax.linen modules: the same parameters, results and gradients."""

import functools
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from jax_hipkittens import _dispatch
from jax_hipkittens.flax import linen as hk_nn
from tests.jax_hipkittens import accuracy


def normal(seed, shape, dtype="float32"):
    return jax.random.normal(jax.random.key(seed), shape, dtype)


def value_and_gradients(module, variables, *args, **kwargs):
    def loss(variables, *args):
        y = module.apply(variables, *args, **kwargs)
        return jnp.sum(jnp.sin(y.astype(jnp.float32))), y

    grads, y = jax.jit(jax.grad(loss, has_aux=True))(variables, *args)
    return y, grads


def assert_same(ours, flaxs, variables, *args, **kwargs):
    """Same values and gradients; trees must match leaf by leaf."""
    actual = value_and_gradients(ours, variables, *args, **kwargs)
    expected = value_and_gradients(flaxs, variables, *args, **kwargs)
    assert actual[0].dtype == expected[0].dtype

    def close(a, b):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)

    jax.tree.map(close, actual, expected)


def lowered(module, variables, *args):
    return jax.jit(module.apply).lower(variables, *args).as_text()


def attention(attention_fn, **arguments):
    return nn.MultiHeadAttention(
        num_heads=4, qkv_features=32, attention_fn=attention_fn, **arguments
    )


def pair(hk_arguments=None, **arguments):
    hk_fn = functools.partial(hk_nn.attention_fn, **(hk_arguments or {}))
    ours = attention(hk_fn, **arguments)
    return ours, attention(nn.dot_product_attention, **arguments)


@pytest.mark.parametrize("shape", [(2, 7, 16), (7, 16), (2, 3, 7, 16)])
def test_attention(shape):
    ours, flaxs = pair({"implementation": "hk"})
    x = normal(0, shape)
    variables = flaxs.init(jax.random.key(1), x)
    assert_same(ours, flaxs, variables, x)
    assert "jax_hipkittens_attention_forward" in lowered(ours, variables, x)


def test_cross_attention():
    ours, flaxs = pair({"implementation": "hk"})
    q, kv = normal(0, (2, 5, 16)), normal(1, (2, 9, 16))
    assert_same(ours, flaxs, flaxs.init(jax.random.key(1), q, kv), q, kv)


@pytest.mark.parametrize(
    "dtype, shape",
    [
        ("bool", (2, 7, 16)),
        ("float32", (2, 7, 16)),
        ("int32", (3, 2, 7, 16)),
    ],
)
def test_masks_of_any_dtype(dtype, shape):
    ours, flaxs = pair()
    x = normal(0, shape)
    mask = nn.make_causal_mask(x[..., 0], dtype=dtype)
    assert_same(ours, flaxs, flaxs.init(jax.random.key(1), x), x, mask=mask)


def test_masks_run_the_kernel():
    x = normal(0, (2, 7, 16))
    mask = nn.make_causal_mask(x[..., 0])
    ours, flaxs = pair({"implementation": "hk"})
    variables = flaxs.init(jax.random.key(1), x)
    assert_same(ours, flaxs, variables, x, mask=mask)


@pytest.mark.parametrize("window", [None, (2, 0)])
def test_causal_by_keyword(window):
    causal = {"is_causal": True, "local_window_size": window}
    ours, flaxs = pair({"implementation": "hk", **causal})
    x = normal(0, (2, 7, 16))
    variables = flaxs.init(jax.random.key(1), x)
    near = np.tri(7, dtype=bool) & (~np.tri(7, k=-3, dtype=bool) | (window is None))
    expected = value_and_gradients(flaxs, variables, x, mask=near)
    actual = value_and_gradients(ours, variables, x)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5),
        actual,
        expected,
    )


def test_bfloat16():
    x = normal(0, (2, 64, 16))
    ours, flaxs = pair({"implementation": "hk"}, dtype=jnp.bfloat16)
    _, exact = pair()
    variables = flaxs.init(jax.random.key(1), x)
    accuracy.assert_as_accurate(
        ours.apply(variables, x),
        flaxs.apply(variables, x),
        exact.apply(variables, x),
    )


def test_dropout_runs_flaxs_own(caplog, monkeypatch):
    monkeypatch.setattr(_dispatch, "_said", set())
    ours, flaxs = pair(dropout_rate=0.5, deterministic=False)
    x = normal(0, (2, 7, 16))
    variables = flaxs.init(jax.random.key(1), x)
    with caplog.at_level(logging.WARNING, "jax_hipkittens"):
        assert_same(ours, flaxs, variables, x, rngs={"dropout": jax.random.key(2)})
    assert "attention_fn falls back to XLA" in caplog.text
    assert "dropout_rate=0.5" in caplog.text
    strict, _ = pair({"implementation": "hk"}, dropout_rate=0.5, deterministic=False)
    with pytest.raises(NotImplementedError, match="attention_fn: .*dropout_rate=0.5"):
        strict.apply(variables, x, rngs={"dropout": jax.random.key(2)})


def test_dropout_of_own_weights_runs_the_kernel():
    """Its mean over many keys is attention without dropout."""
    arguments = dict(dropout_rate=0.5, broadcast_dropout=False)
    ours, flaxs = pair({"implementation": "hk"}, **arguments)
    x = normal(0, (2, 7, 16))
    variables = flaxs.init(jax.random.key(1), x, deterministic=True)

    @jax.jit
    @jax.vmap
    def run(key):
        rngs = {"dropout": key}
        return ours.apply(variables, x, deterministic=False, rngs=rngs)

    outs = run(jax.random.split(jax.random.key(2), 400))
    expected = flaxs.apply(variables, x, deterministic=True)
    assert np.all(np.abs(outs.mean(0) - expected) < 6 * outs.std(0) / 400**0.5)


def test_dropout_at_inference_is_served():
    ours, flaxs = pair({"implementation": "hk"}, dropout_rate=0.5, deterministic=True)
    x = normal(0, (2, 7, 16))
    assert_same(ours, flaxs, flaxs.init(jax.random.key(1), x), x)


def test_causal_dropout_keeps_the_mask():
    ours, flaxs = pair({"is_causal": True}, dropout_rate=0.5, deterministic=False)
    x = normal(0, (2, 7, 16))
    variables = flaxs.init(jax.random.key(1), x)
    rngs = {"dropout": jax.random.key(2)}
    np.testing.assert_array_equal(
        ours.apply(variables, x, rngs=rngs),
        flaxs.apply(variables, x, mask=nn.make_causal_mask(x[..., 0]), rngs=rngs),
    )


def test_sown_weights():
    ours, flaxs = pair()
    x = normal(0, (2, 7, 16))
    variables = flaxs.init(jax.random.key(1), x)
    apply = functools.partial(
        nn.Module.apply, mutable="intermediates", sow_weights=True
    )
    actual, expected = (apply(module, variables, x) for module in (ours, flaxs))
    assert jax.tree.leaves(actual[1])
    jax.tree.map(np.testing.assert_array_equal, actual, expected)


def test_decoding():
    ours, flaxs = pair(decode=True)
    x = normal(0, (2, 5, 16))
    variables = flaxs.init(jax.random.key(1), x)
    caches = [variables["cache"]] * 2
    for step in range(5):
        outs = []
        for i, module in enumerate((ours, flaxs)):
            out, state = module.apply(
                {"params": variables["params"], "cache": caches[i]},
                x[:, step : step + 1],
                mutable="cache",
            )
            caches[i] = state["cache"]
            outs.append(out)
        np.testing.assert_allclose(*outs, rtol=1e-4, atol=2e-5)


DENSE = {
    "Dense": (nn.Dense, dict(features=6), (2, 5, 16)),
    "DenseGeneral to two axes": (nn.DenseGeneral, dict(features=(3, 4)), (2, 5, 16)),
    "DenseGeneral from two axes": (
        nn.DenseGeneral,
        dict(features=6, axis=(-2, -1)),
        (2, 5, 4, 3),
    ),
}


@pytest.mark.parametrize("name", DENSE)
def test_dot_general(name):
    module, arguments, shape = DENSE[name]
    hook = functools.partial(hk_nn.dot_general, implementation="hk")
    ours, flaxs = module(dot_general=hook, **arguments), module(**arguments)
    x = normal(0, shape)
    variables = flaxs.init(jax.random.key(1), x)
    assert_same(ours, flaxs, variables, x)
    assert "jax_hipkittens_gemm" in lowered(ours, variables, x)


def test_dot_general_of_attention():
    hook = functools.partial(hk_nn.dot_general, implementation="hk")
    ours, _ = pair({"implementation": "hk"}, qkv_dot_general=hook, out_dot_general=hook)
    _, flaxs = pair()
    x = normal(0, (2, 7, 16))
    assert_same(ours, flaxs, flaxs.init(jax.random.key(1), x), x)


NORMS = {"LayerNorm": "layer", "RMSNorm": "rms"}


def norms(name, implementation="hk", **arguments):
    arguments["use_fast_variance"] = False
    ours = getattr(hk_nn, name)(implementation=implementation, **arguments)
    return ours, getattr(nn, name)(**arguments)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("use_scale", [False, True])
def test_norms(name, use_scale):
    ours, flaxs = norms(name, use_scale=use_scale, epsilon=1e-3)
    x = normal(0, (2, 5, 48)) * 3 + 1
    variables = flaxs.init(jax.random.key(1), x)
    variables = jax.tree.map(lambda p: p + normal(2, p.shape), variables)
    assert_same(ours, flaxs, variables, x)
    jax.tree.map(
        np.testing.assert_array_equal,
        ours.init(jax.random.key(3), x),
        flaxs.init(jax.random.key(3), x),
    )
    assert "jax_hipkittens_norm_forward" in lowered(ours, variables, x)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize(
    "x_dtype, dtype, param_dtype",
    [
        ("bfloat16", None, "float32"),
        ("float32", "bfloat16", "float32"),
        ("bfloat16", "bfloat16", "float32"),
        ("bfloat16", None, "bfloat16"),
        ("float32", None, "bfloat16"),
        ("int32", None, "float32"),
    ],
)
def test_norm_dtypes(name, x_dtype, dtype, param_dtype):
    ours, flaxs = norms(name, dtype=dtype, param_dtype=param_dtype)
    x = (10 * normal(0, (3, 40))).astype(x_dtype)
    variables = ours.init(jax.random.key(1), x)
    jax.tree.map(lambda p: p.dtype == param_dtype or pytest.fail(), variables)
    actual, expected = ours.apply(variables, x), flaxs.apply(variables, x)
    assert actual.dtype == expected.dtype
    error = accuracy.largest_error(actual, np.asarray(expected, np.float64))
    assert error <= accuracy.rounding(actual.dtype, expected) + 1e-5


def test_norm_names_its_parameters_in_a_model():
    def model(library):
        return nn.Sequential([nn.Dense(8), library.LayerNorm(), library.RMSNorm()])

    x = normal(0, (2, 4))
    jax.tree.map(
        np.testing.assert_array_equal,
        model(hk_nn).init(jax.random.key(1), x),
        model(nn).init(jax.random.key(1), x),
    )


OTHER_AXES = [
    dict(reduction_axes=(0, 1)),
    dict(feature_axes=(1, 2)),
    dict(force_float32_reductions=False),
]


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("arguments", OTHER_AXES)
def test_what_only_flax_serves(name, arguments):
    x = normal(0, (2, 5, 8))
    ours, flaxs = norms(name, implementation=None, **arguments)
    variables = flaxs.init(jax.random.key(1), x)
    assert_same(ours, flaxs, variables, x)
    strict, _ = norms(name, **arguments)
    with pytest.raises(NotImplementedError, match=f"{name}: .*{next(iter(arguments))}"):
        strict.apply(variables, x)


@pytest.mark.parametrize("name", NORMS)
def test_masked_statistics(name):
    x = normal(0, (2, 5, 8))
    mask = jnp.arange(8) < 6
    ours, flaxs = norms(name, implementation=None)
    variables = flaxs.init(jax.random.key(1), x)
    assert_same(ours, flaxs, variables, x, mask=mask)
