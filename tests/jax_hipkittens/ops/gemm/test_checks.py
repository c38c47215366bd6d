"""What matmul refuses, and how it says so."""

import jax
import jax.numpy as jnp
import pytest

import jax_hipkittens as hk
from tests.jax_hipkittens.ops.gemm.cases import draw

A, B, BIAS = draw(0, "float32", (3, 4), (4, 5), (5,))


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        ((A, A), {}, r"same K, but received a float32\[3,4\].*use dot_general"),
        ((A, B[:, 0][:3]), {}, r"same K, .* b float32\[3\]"),
        ((A[0, 0], B), {}, r"but received a float32\[\]"),
        ((A, B.astype(jnp.bfloat16)), {}, "a float32, b bfloat16; cast them"),
        ((A.astype(int), B.astype(int)), {}, "floating-point dtype, .* int32"),
        ((A, "b"), {}, "b to be an array, but received str"),
        (
            (jnp.ones((2, 3, 4)), jnp.ones((3, 4, 5))),
            {},
            r"batch axes that broadcast, .*\[2,3,4\] and b float32\[3,4,5\]",
        ),
        ((A, B), dict(bias=BIAS[:4]), r"bias of shape \[N\] = \(5,\), .*float32\[4\]"),
        ((A, B), dict(bias=BIAS[None]), r"float32\[1,5\]"),
        ((A, B), dict(bias=BIAS.astype(int)), "bias of a floating-point dtype"),
        ((A, B[:, 0]), dict(bias=BIAS[:1]), "no bias with a vector b"),
        ((A, B), dict(activation="relu"), "'gelu_exact', 'silu', but received 'relu'"),
        ((A, B), dict(precision="exact"), "precision .* but received 'exact'"),
        ((A, B), dict(precision=3), "precision to be a jax.lax.Pre.* but received 3"),
        ((A, B), dict(preferred_element_type="zzz"), "to be a dtype, .* 'zzz'"),
        ((A, B), dict(activation=["silu"]), "activation to be one of"),
        ((A, B), dict(preferred_element_type=int), "preferred_element_type"),
        ((A, B), dict(implementation="cublas"), "but received 'cublas'"),
    ],
)
def test_wrong_calls(args, options, message):
    with pytest.raises(ValueError, match=message) as raised:
        hk.matmul(*args, **options)
    sentence = str(raised.value)
    assert sentence.startswith("matmul: expected ") and sentence.endswith(".")
    assert "\n" not in sentence and "; " in sentence
    if not any(isinstance(arg, str) for arg in args):
        with pytest.raises(ValueError, match=message):
            jax.eval_shape(lambda *args: hk.matmul(*args, **options), *args)


@pytest.mark.parametrize(
    ("dtype", "options", "message"),
    [
        ("float8_e4m3fn", {}, "received float8_e4m3fn and float8_e4m3fn"),
        ("float32", dict(preferred_element_type="float8_e5m2"), "float8_e5m2"),
        ("float32", dict(precision="BF16_BF16_F32"), "BF16_BF16_F32"),
    ],
)
def test_calls_that_only_xla_serves(dtype, options, message):
    with pytest.raises(NotImplementedError, match=message) as raised:
        hk.matmul(A.astype(dtype), B.astype(dtype), **options, implementation="hk")
    assert str(raised.value).startswith("matmul: HK kernels serve ")


def test_a_result_of_64_bits_needs_them_enabled():
    options = dict(preferred_element_type="float64")
    assert hk.matmul(A, B, **options).dtype == jnp.float32
    with jax.enable_x64(True), pytest.raises(NotImplementedError, match="float64"):
        hk.matmul(A, B, **options, implementation="hk")
