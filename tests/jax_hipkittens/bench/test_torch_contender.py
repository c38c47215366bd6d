import dataclasses

import numpy as np
import pytest

from jax_hipkittens.bench import cases, timing, torch_contender

pytest.importorskip("torch")

SMALL = {
    "attention": ((1, 16, 4, 8), (1, 16, 2, 8), (1, 16, 2, 8)),
    "gemm": ((16, 16), (16, 16)),
    "layer_norm": ((8, 32), (32,), (32,)),
    "rms_norm": ((8, 32), (32,)),
}


def small_cases():
    """One case for each way of calling PyTorch, at a small size in f32."""
    found = {
        (case.op, case.causal, case.backward): dataclasses.replace(
            case, inputs=cases.normal_inputs("float32", *SMALL[case.op])
        )
        for case in cases.all_cases()
        if case.torch is not None
    }
    return list(found.values())


def numpy_of(tensor):
    return tensor.detach().numpy()


@pytest.mark.parametrize("case", small_cases(), ids=lambda c: c.name)
def test_computes_what_xla_computes(case):
    out = torch_contender.contender(case, threads=2)()
    expected = timing.compiled(case, case.xla["reference"])()
    out, expected = (out[0], expected[0]) if case.backward else (out, expected)
    np.testing.assert_allclose(numpy_of(out), expected, rtol=1e-3, atol=1e-4)


def test_gradients_are_of_every_operand():
    case = next(c for c in small_cases() if c.op == "layer_norm" and c.backward)
    _, grads = torch_contender.contender(case, threads=2)()
    assert [tuple(grad.shape) for grad in grads] == list(SMALL["layer_norm"])


@pytest.mark.parametrize("longest, left_out", [(0.0, True), (1e9, False)])
def test_a_product_that_takes_too_long_is_left_out(
    longest, left_out, monkeypatch, caplog
):
    monkeypatch.setattr(torch_contender, "_LONGEST_SECONDS", longest)
    case = next(c for c in small_cases() if c.op == "gemm")
    assert (torch_contender.contender(case, threads=2) is None) == left_out
    assert ("is left out" in caplog.text) == left_out


def test_a_case_without_a_pytorch_call():
    case = next(c for c in cases.all_cases() if c.torch is None)
    assert torch_contender.contender(case, threads=2) is None
