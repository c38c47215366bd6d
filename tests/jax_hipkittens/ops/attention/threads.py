"""Prints a digest of attention's results; run in processes of one and two CPUs."""

from tests.jax_hipkittens import bits
from tests.jax_hipkittens.ops.attention import cases

CASES = [
    cases.Case(batch=2, queries=200, keys=300, heads=8, dim=64),
    cases.Case(queries=257, keys=257, options=dict(is_causal=True)),
]


def main():
    """Forward and backward of every case in every dtype."""
    results = [
        cases.run(case, "hk", cases.draw(case, dtype))
        for case in CASES
        for dtype in ("bfloat16", "float16", "float32")
    ]
    print(bits.digest(results))
