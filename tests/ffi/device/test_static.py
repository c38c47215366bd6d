"""What the machine code of the GPU kernels has to be like, from the build's reports."""

import pytest

from jax_hipkittens.bench import static

TARGETS = ("gfx942", "gfx950")
LAYOUTS = ("nn", "nt", "tn", "tt")


def kernels_of(target: str) -> dict[str, static.Kernel]:
    folder = static.device_folder()
    if not (folder / f"gemm.{target}.co").exists():
        pytest.skip(f"the package was built without {target}")
    return static.read_kernels(folder, "gemm", target)


@pytest.fixture(params=TARGETS)
def kernels(request: pytest.FixtureRequest) -> dict[str, static.Kernel]:
    return kernels_of(request.param)


def test_no_kernel_spills(kernels):
    for kernel in kernels.values():
        facts = kernel.facts
        assert facts["scratch_bytes"] == 0, kernel.name
        assert facts["vgpr_spills"] == facts["sgpr_spills"] == 0, kernel.name


def test_no_kernel_loops_over_lanes(kernels):
    for kernel in kernels.values():
        assert kernel.facts["waterfall_loops"] == 0, kernel.name


def test_every_schedule_has_every_layout_and_type(kernels):
    products = [name for name in kernels if name != "gemm_reduce"]
    schedules = {name.rsplit("_", 2)[0] for name in products}
    for schedule in schedules:
        for dtype in ("bf16", "f16"):
            for layout in LAYOUTS:
                assert f"{schedule}_{dtype}_{layout}" in kernels


def test_hot_loops_are_made_of_matrix_instructions(kernels):
    for name, kernel in kernels.items():
        if name == "gemm_reduce":
            continue
        rows, cols = map(int, name.split("_")[2].split("x"))
        waves = kernel.facts["threads"] // 64
        # 16 x 16 x 32 on gfx950, 16 x 16 x 16 on gfx942; two steps of 64 a ping-pong.
        terms = 128 if "pingpong" in name else 64
        per_step = terms // (32 if kernel.target == "gfx950" else 16)
        assert kernel.counts["mfma"] == rows * cols // 256 // waves * per_step, name
        assert kernel.counts["scratch"] == 0, name


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_ping_pong_does_nothing_but_move_and_multiply(dtype, layout):
    kernel = kernels_of("gfx950")[f"gemm_pingpong_256x256_{dtype}_{layout}"]
    counts = kernel.counts
    assert counts["mfma"] == 128
    assert counts["valu"] == 0
    assert counts["lds_load"] == 16
    assert counts["barrier"] == 16
    assert counts["vmem"] == counts["ds_other"] == counts["scratch"] == 0
    # Operands of adjacent terms are read 16 bytes a lane, others 8, transposed.
    adjacent = (32 if layout[0] == "n" else 0) + (16 if layout[1] == "t" else 0)
    assert counts["ds_read_b128"] == adjacent
    assert counts["ds_read_tr"] == 2 * (48 - adjacent)
    facts = kernel.facts
    assert facts["vgpr"] + facts["agpr"] <= 256
    assert facts["waves_per_simd"] == 2


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_little_is_issued_beside_the_products_of_a_ping_pong(dtype):
    """A wave issues one instruction a pass; the best known schedule has 186 others."""
    counts = kernels_of("gfx950")[f"gemm_pingpong_256x256_{dtype}_nt"].counts
    assert sum(counts.values()) - counts["mfma"] <= 175


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_the_ping_pong_is_as_quick_as_the_best_known_schedule(dtype):
    kernel = kernels_of("gfx950")[f"gemm_pingpong_256x256_{dtype}_nt"]
    cycles = static.mca_cycles(kernel)
    if cycles is None:
        pytest.skip("no llvm-mca that knows gfx950 is installed")
    assert cycles <= 698


def test_the_table_has_a_line_for_each_kernel(kernels):
    target = next(iter(kernels.values())).target
    text = static.table(static.device_folder(), "gemm", target)
    assert len(text.splitlines()) == len(kernels) + 1
