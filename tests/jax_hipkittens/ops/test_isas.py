"""Every op on every instruction set that this CPU has."""

import pytest

from jax_hipkittens import _ffi
from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.attention import cases
from tests.jax_hipkittens.ops.attention import test_values as attention
from tests.jax_hipkittens.ops.gemm import test_matmul as gemm
from tests.jax_hipkittens.ops.gemm.cases import draw
from tests.jax_hipkittens.ops.norm import test_norm as norm
from tests.jax_hipkittens.ops.rotary import test_rotary as rotary

VARIABLE = "JAX_HIPKITTENS_HOST_ISA"


def main():
    """Runs in a process of its own: the instruction set is chosen once in each."""
    for dtype in attention.DTYPES:
        for case in attention.CORE:
            attention.assert_right(case, cases.draw(case, dtype))
        a, b, bias = draw(0, dtype, (2, 70, 90), (90, 50), (50,))
        gemm.assert_right(a, (b / 9).astype(dtype), bias, "gelu")
        for kind in norm.KINDS:
            norm.assert_right(kind, dtype, (17, 100))
        for interleaved in (False, True):
            rotary.assert_right(interleaved, dtype, 104, 66)
    print(_ffi.require().host_isa())


@pytest.mark.parametrize("isa", _ffi.require().host_isas())
def test_values_and_gradients(isa):
    assert bits.main_in_process(__name__, **{VARIABLE: isa}) == isa
