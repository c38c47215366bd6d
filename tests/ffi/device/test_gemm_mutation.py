"""Which missing waits and barriers of the GEMM kernels the simulated device notices.

Every s_waitcnt, s_barrier and s_nop of a kernel is left out in turn, among them those
that the schedules place themselves rather than the compiler.
"""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from jax_hipkittens.bench import static
from tests.hipsim import device, mutation


class Arguments(ctypes.Structure):
    """gemm_arguments of include/hk/kernels/gemm/device_arguments.h."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("a", "b", "c", "z", "bias")),
        *((f"{name}_entry_stride", ctypes.c_int64) for name in ("a", "b", "bias")),
        *(
            (name, ctypes.c_int32)
            for name in (
                *("m", "n", "k", "batch", "row_tiles", "col_tiles", "splits"),
                *("split_terms", "grid_width", "chunk_log2", "group"),
            )
        ),
        *(
            (name, ctypes.c_int8)
            for name in ("act", "c_type", "bias_type", "vectors", "a_words", "b_words")
        ),
    ]


@pytest.mark.parametrize(
    "target, name, tile, threads",
    [
        ("gfx950", "gemm_pingpong_256x256_bf16_nt", 256, 512),
        ("gfx950", "gemm_direct_64x64_bf16_tn", 64, 256),
        ("gfx942", "gemm_staged_64x64_bf16_nn", 64, 256),
    ],
)
def test_missing_waits_are_noticed(target, name, tile, threads):
    code_object = static.device_folder() / f"gemm.{target}.co"
    if not code_object.exists():
        pytest.skip(f"the package was built without {target}")
    size, terms = tile, 320  # five steps: an odd number
    rng = np.random.default_rng(0)
    a = device.Array.of(rng.standard_normal((size, terms)).astype(ml_dtypes.bfloat16))
    b = device.Array.of(rng.standard_normal((size, terms)).astype(ml_dtypes.bfloat16))
    bias = device.Array.of(rng.standard_normal(size).astype(np.float32))

    with device.options(arch=target, report="quiet"):
        function = device.Module(code_object.read_bytes()).function(name)

        def run() -> np.ndarray:
            c = device.Array((size, size), np.float32)
            arguments = Arguments(
                a=a.address, b=b.address, c=c.address, bias=bias.address,
                m=size, n=size, k=terms, batch=1, row_tiles=1, col_tiles=1, splits=1,
                split_terms=384, grid_width=1, group=16, act=2, c_type=2, bias_type=2,
                vectors=1, a_words=1, b_words=1,
            )  # fmt: skip
            device.launch(function, [arguments], block=threads)
            return c.get()

        removals = mutation.mutate(function, run)
    print("\n" + mutation.summary(removals))
    for removal in removals:
        if removal.outcome == "unexplained":
            print(f"{removal.offset:#x} {removal.text}: {removal.reason}")
    assert len(removals) > 20
    assert mutation.noticed_share(removals) >= 0.95
