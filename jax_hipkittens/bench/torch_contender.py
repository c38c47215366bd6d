"""PyTorch's row of the bench: what a PyTorch user would call for the same work.

PyTorch is optional: ``available`` says whether it can be imported. On a CPU without
bf16 instructions it multiplies bf16 matrices by a plain loop, which takes minutes at
the bench's size, so a product that would take too long is left out, saying so.
"""

import importlib.util
import logging
from typing import Any

import jax
import numpy as np

from jax_hipkittens.bench.cases import Case
from jax_hipkittens.bench.timing import Run, seconds_of

logger = logging.getLogger("jax_hipkittens")

_LONGEST_SECONDS = 20.0
_PROBE_SIZE = 256


def available() -> bool:
    """Whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


def contender(case: Case, threads: int) -> Run | None:
    """PyTorch's call for ``case`` on ``threads`` threads, or None if it has none."""
    if case.torch is None or not available():
        return None
    import torch

    torch.set_num_threads(threads)
    operands = [_tensor(torch, array) for array in case.inputs()]
    function = _FUNCTIONS[case.torch]
    if case.torch == "gemm" and _takes_too_long(torch, operands, case):
        return None
    if not case.backward:
        return lambda: _without_grad(torch, function, operands, case.causal)
    for operand in operands:
        operand.requires_grad_()
    cotangent = torch.ones_like(function(torch, operands, case.causal))

    def run() -> Any:
        out = function(torch, operands, case.causal)
        return out, torch.autograd.grad(out, operands, cotangent)

    return run


def _takes_too_long(torch: Any, operands: Any, case: Case) -> bool:
    """Judges a product of square matrices by one of ``_PROBE_SIZE``."""
    small = [operand[:_PROBE_SIZE, :_PROBE_SIZE] for operand in operands]
    scale = (operands[0].shape[0] / _PROBE_SIZE) ** 3
    expected = scale * seconds_of(lambda: torch.matmul(*small))
    if expected < _LONGEST_SECONDS:
        return False
    logger.warning(
        "bench: PyTorch would take %.0f s for %s and is left out", expected, case.name
    )
    return True


def _tensor(torch: Any, array: jax.Array) -> Any:
    wide = torch.from_numpy(np.array(array, np.float32))
    return wide.to(getattr(torch, str(array.dtype)))


def _without_grad(torch: Any, function: Any, operands: Any, causal: bool) -> Any:
    with torch.no_grad():
        return function(torch, operands, causal)


def _attention(torch: Any, operands: Any, causal: bool) -> Any:
    # PyTorch's layout is BNTD; the transposes are views, as in a model.
    query, key, value = (operand.transpose(1, 2) for operand in operands)
    out = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=causal, enable_gqa=True
    )
    return out.transpose(1, 2)


def _gemm(torch: Any, operands: Any, causal: bool) -> Any:
    return torch.matmul(*operands)


def _layer_norm(torch: Any, operands: Any, causal: bool) -> Any:
    x, weight, bias = operands
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-6)


def _rms_norm(torch: Any, operands: Any, causal: bool) -> Any:
    x, weight = operands
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)


_FUNCTIONS = {
    "attention": _attention,
    "gemm": _gemm,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
}
