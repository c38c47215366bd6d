"""Prints a digest of products; run in processes of one and two CPUs."""

from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.gemm.cases import draw
from tests.jax_hipkittens.ops.gemm.test_matmul import run

SHAPES = [((300, 500), (500, 257)), ((3, 70, 90), (3, 90, 130)), ((2, 1000), (1000, 3))]


def main():
    """Forward and backward of every product in every dtype."""
    results = []
    for dtype in ("bfloat16", "float16", "float32"):
        for a, b in SHAPES:
            d_c = (*a[:-2], a[-2], b[-1])
            operands = draw(0, dtype, a, b, b[-1:], d_c)
            results.append(run("hk", *operands, "gelu", None))
    print(bits.digest(results))
