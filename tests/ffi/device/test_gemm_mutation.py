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


FLOAT32, SILU = 2, 2


def product_runner(function, m, n, k, tile, threads, layout):
    """Launches C = silu(A B + bias), C in f32, and what that is."""
    rng = np.random.default_rng(0)
    a, b = (
        rng.standard_normal(shape).astype(ml_dtypes.bfloat16)
        for shape in ((m, k), (k, n))
    )
    bias = rng.standard_normal(n).astype(np.float32)
    stored = a.T if layout[0] == "t" else a, b.T if layout[1] == "t" else b
    arrays = [device.Array.of(np.ascontiguousarray(x)) for x in (*stored, bias)]
    row_tiles, col_tiles = -(-m // tile), -(-n // tile)

    def run() -> np.ndarray:
        c = device.Array((m, n), np.float32)
        arguments = Arguments(
            a=arrays[0].address, b=arrays[1].address, bias=arrays[2].address,
            c=c.address, m=m, n=n, k=k, batch=1, row_tiles=row_tiles,
            col_tiles=col_tiles, splits=1, split_terms=384,
            grid_width=row_tiles * col_tiles, group=16, act=SILU, c_type=FLOAT32,
            bias_type=FLOAT32, vectors=1, a_words=1, b_words=1,
        )  # fmt: skip
        grid = row_tiles * col_tiles, 1, 1
        device.launch(function, [arguments], grid=grid, block=threads)
        return c.get()

    z = a.astype(np.float64) @ b.astype(np.float64) + bias
    return run, z / (1 + np.exp(-z))


@pytest.mark.parametrize(
    "target, name, tile, threads",
    [
        ("gfx950", "gemm_pingpong_256x256_bf16_nt", 256, 512),
        ("gfx950", "gemm_direct_64x64_bf16_tn", 64, 256),
        ("gfx942", "gemm_staged_64x64_bf16_nn", 64, 256),
        ("gfx942", "gemm_staged_64x64_bf16_nt", 64, 256),
    ],
)
def test_missing_waits_are_noticed(target, name, tile, threads):
    code_object = static.device_folder() / f"gemm.{target}.co"
    if not code_object.exists():
        pytest.skip(f"the package was built without {target}")
    with device.options(arch=target, report="quiet"):
        function = device.Module(code_object.read_bytes()).function(name)
        layout = name.rsplit("_", 1)[1]
        # Ragged tiles, and six steps of which the last is short.
        run, want = product_runner(
            function, tile - 8, tile + 8, 328, tile, threads, layout
        )
        np.testing.assert_allclose(run(), want, rtol=1e-4, atol=1e-3)
        removals = mutation.mutate(function, run)
    print("\n" + mutation.summary(removals))
    for removal in removals:
        if removal.outcome == "unexplained":
            print(f"{removal.offset:#x} {removal.text}: {removal.reason}")
    assert len(removals) > 20
    assert mutation.noticed_share(removals) >= 0.95
    # Few of those that held up anything are covered by others.
    noticed = sum(removal.outcome == "noticed" for removal in removals)
    redundant = sum(removal.outcome == "redundant" for removal in removals)
    assert redundant <= 0.15 * noticed
