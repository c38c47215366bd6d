"""Each check of the simulated device: a kernel that it stops, and a near miss."""

import functools

import numpy as np
import pytest

from tests.hipsim import device
from tests.hipsim.assemble import Kernel, assemble
from tests.hipsim.device import Array, HipError, Module, launch, options

# s[4:5] and s[6:7] hold the arguments; v0 is 4 times the lane in the wave's first 64.
START = """
  s_load_dwordx4 s[4:7], s[0:1], 0
  v_lshlrev_b32 v0, 2, v0
  s_waitcnt lgkmcnt(0)
"""
END = "\n s_endpgm\n"


@functools.cache
def function(body: str, target: str = "gfx950", lds: int = 0, start: str = START):
    kernel = Kernel(start + body + END, arguments=(8, 8), lds=lds, agprs=64)
    with options(arch=target):
        return Module(assemble(kernel, target)).function()


def run(body, target="gfx950", lds=0, block=64, grid=1, **choices):
    """Runs a listing with two buffers of 1024 dwords; returns the second."""
    first = Array.of(np.arange(1024, dtype=np.uint32))
    second = Array((1024,), np.uint32, fill=0)
    with options(arch=target, **choices):
        launch(function(body, target, lds), [first, second], grid, block)
        return second.get()


def stops(check, match, body, **more):
    """The listing is stopped by a check, with a sentence."""
    with pytest.raises(HipError, match=match) as error:
        run(body, **more)
    assert error.value.check == check
    return error.value.report


# ---- Waits ----


def test_report_names_all():
    report = stops(
        "wait",
        "reads v1",
        "global_load_dword v1, v0, s[4:5]\n global_store_dword v0, v1, s[6:7]",
    )
    for part in (
        "kernel 'kernel'",
        "workgroup (0, 0, 0)",
        "wave 0",
        "offset 0x",
        "'global_store_dword v0, v1, s[6:7]'",
        "'global_load_dword v1, v0, s[4:5]'",
    ):
        assert part in report


def test_vmcnt_completes_in_order():
    body = """
      global_load_dword v1, v0, s[4:5]
      global_load_dword v2, v0, s[4:5] offset:4
      s_waitcnt vmcnt(1)
      global_store_dword v0, {}, s[6:7]
    """
    np.testing.assert_array_equal(run(body.format("v1"))[:64], range(64))
    stops("wait", "reads v2", body.format("v2"))


def test_loads_may_not_be_overwritten_before_their_wait():
    body = "global_load_dword v1, v0, s[4:5]\n {} v_mov_b32 v1, 0"
    stops("wait", "overwrites v1", body.format(""))
    run(body.format("s_waitcnt vmcnt(0)\n"))


def test_loads_that_return_in_order_may_follow_each_other_into_a_register():
    body = "global_load_dword v1, v0, s[4:5]\n {} v1, v0, s[4:5] offset:4"
    body += "\n s_waitcnt vmcnt(0)\n global_store_dword v0, v1, s[6:7]"
    got = run(body.format("global_load_dword"))
    np.testing.assert_array_equal(got[:64], np.arange(1, 65))


def test_scalar_loads_complete_out_of_order():
    body = """
      s_load_dword s8, s[4:5], 0
      s_load_dword s9, s[4:5], 4
      s_waitcnt lgkmcnt({})
      v_mov_b32 v1, s8
    """
    stops("wait", "reads s8", body.format(1))
    run(body.format(0))


def test_lgkmcnt_completes_lds_in_order():
    body = """
      ds_write_b32 v0, v0
      s_waitcnt lgkmcnt(0)
      ds_read_b32 v1, v0
      ds_read_b32 v2, v0
      s_waitcnt lgkmcnt(1)
      global_store_dword v0, {}, s[6:7]
    """
    run(body.format("v1"), lds=256)
    stops("wait", "reads v2", body.format("v2"), lds=256)


def test_a_scalar_load_among_lds_loads_does_not_help_them():
    body = """
      ds_write_b32 v0, v0
      s_waitcnt lgkmcnt(0)
      ds_read_b32 v1, v0
      s_load_dword s8, s[4:5], 0
      s_waitcnt lgkmcnt({})
      v_mov_b32 v2, v1
      s_waitcnt lgkmcnt(0)
    """
    stops("wait", "reads v1", body.format(1), lds=256)
    run(body.format(0), lds=256)


def test_flat_loads_need_both_counters():
    body = """
      v_mov_b32 v2, s4
      v_mov_b32 v3, s5
      flat_load_dword v1, v[2:3]
      s_waitcnt {}
      v_mov_b32 v4, v1
    """
    stops("wait", "reads v1", body.format("vmcnt(0)"))
    stops("wait", "reads v1", body.format("lgkmcnt(0)"))
    run(body.format("vmcnt(0) lgkmcnt(0)"))


def test_results_come_at_the_wait_and_not_before():
    body = """
      v_mov_b32 v1, 77
      global_load_dword v1, v0, s[4:5]
      v_mov_b32 v2, v1
      s_waitcnt vmcnt(0)
      global_store_dword v0, v2, s[6:7]
    """
    assert (run(body, checks="all,-waits")[:64] == 77).all()


# ---- LDS races ----

# v1 is 4 times the work item; v2 the same of the next wave, around.
TWO_WAVES = """
  v_and_b32 v1, 0x1fc, v0
  v_xor_b32 v2, 0x100, v1
"""


def test_a_barrier_orders_waves():
    body = (
        TWO_WAVES
        + """
      ds_write_b32 v1, v1
      s_waitcnt lgkmcnt(0)
      {}
      ds_read_b32 v3, v2
      s_waitcnt lgkmcnt(0)
      global_store_dword v1, v3, s[6:7]
    """
    )
    got = run(body.format("s_barrier"), lds=512, block=128)
    np.testing.assert_array_equal(got[:128], np.arange(128) * 4 ^ 0x100)
    for seed in range(4):
        report = stops(
            "race",
            "no barrier orders",
            body.format(""),
            lds=512,
            block=128,
            seed=seed,
            checks="races",
        )
        assert "ds_write_b32" in report and "ds_read_b32" in report


def test_two_writes_race_and_two_reads_do_not():
    body = "v_mov_b32 v1, 0\n {}"
    write = "ds_write_b32 v1, v0"
    stops("race", "no barrier orders", body.format(write), lds=512, block=128)
    run(body.format(write), lds=512, block=64)
    read = f"""
      {write}
      s_waitcnt lgkmcnt(0)
      ds_read_b32 v2, v1
    """
    run(body.format(read), lds=512, block=64)


def test_an_access_lasts_until_its_wait():
    """The write of before the barrier is not waited for until after it."""
    body = (
        TWO_WAVES
        + """
      ds_write_b32 v1, v1
      {}
      s_barrier
      ds_read_b32 v3, v2
    """
    )
    stops("race", "no barrier orders", body.format(""), lds=512, block=128)
    run(body.format("s_waitcnt lgkmcnt(0)"), lds=512, block=128)


def test_a_read_lasts_until_its_wait():
    body = (
        TWO_WAVES
        + """
      ds_write_b32 v1, v1
      s_waitcnt lgkmcnt(0)
      s_barrier
      ds_read_b32 v3, v2
      {}
      s_barrier
      ds_write_b32 v1, v1
    """
    )
    stops("race", "no barrier orders", body.format(""), lds=512, block=128)
    run(body.format("s_waitcnt lgkmcnt(0)"), lds=512, block=128)


def test_bytes_of_a_dword_are_apart():
    """Wave 0 writes the even halves, wave 1 the odd ones."""
    body = """
      v_and_b32 v1, 0xfc, v0
      v_lshrrev_b32 v2, {}, v0
      v_and_b32 v2, 2, v2
      v_or_b32 v1, v1, v2
      ds_write_b16 v1, v0
    """
    run(body.format(7), lds=512, block=128)
    stops("race", "no barrier orders", body.format(12), lds=512, block=128)


def test_atomics_do_not_race_with_each_other():
    body = """
      v_mov_b32 v1, 0
      v_mov_b32 v3, 0
      v_cmp_gt_u32 vcc, 4, v0
      s_and_saveexec_b64 s[8:9], vcc
      ds_write_b32 v1, v3
      s_mov_b64 exec, s[8:9]
      s_waitcnt lgkmcnt(0)
      s_barrier
      ds_add_u32 v1, v0
      {}
    """
    run(body.format(""), lds=512, block=256)
    read = "ds_read_b32 v2, v1"
    stops("race", "no barrier orders", body.format(read), lds=512, block=256)


DIRECT = """
  s_mov_b32 m0, 0
  s_nop 0
  global_load_lds_dword v0, s[4:5]
  {}
  ds_read_b32 v1, v0
  s_waitcnt lgkmcnt(0)
  global_store_dword v0, v1, s[6:7]
"""


def test_direct_loads_end_at_vmcnt():
    stops("race", "whose direct load no s_waitcnt vmcnt", DIRECT.format(""), lds=256)
    got = run(DIRECT.format("s_waitcnt vmcnt(0)"), lds=256)
    np.testing.assert_array_equal(got[:64], range(64))


def test_direct_loads_land_at_the_wait():
    body = "ds_write_b32 v0, v0\n s_waitcnt lgkmcnt(0)\n"
    body += DIRECT.format("").replace(
        "global_store", "s_waitcnt vmcnt(0)\n global_store"
    )
    got = run(body, lds=256, checks="all,-races")
    np.testing.assert_array_equal(got[:64], np.arange(64) * 4)


def test_direct_loads_of_another_wave_need_its_wait_and_a_barrier():
    body = (
        TWO_WAVES
        + """
      v_readfirstlane_b32 s8, v1
      s_mov_b32 m0, s8
      s_nop 0
      global_load_lds_dword v1, s[4:5]
      {}
      s_barrier
      ds_read_b32 v3, v2
      s_waitcnt lgkmcnt(0)
      global_store_dword v1, v3, s[6:7]
    """
    )
    stops("race", "no barrier orders", body.format(""), lds=512, block=128)
    got = run(body.format("s_waitcnt vmcnt(0)"), lds=512, block=128)
    np.testing.assert_array_equal(got[:128], np.arange(128) ^ 64)


def test_direct_loads_do_not_wait_for_their_waves_reads():
    body = """
      ds_write_b32 v0, v0
      s_waitcnt lgkmcnt(0)
      s_mov_b32 m0, 0
      ds_read_b32 v1, v0
      {}
      global_load_lds_dword v0, s[4:5]
      s_waitcnt vmcnt(0)
    """
    stops("race", "before this wave's ds_read_b32", body.format(""), lds=256)
    run(body.format("s_waitcnt lgkmcnt(0)"), lds=256)


# ---- Wait states ----

MATRIX = """
  v_mov_b32 v8, 0
  v_mov_b32 v9, 0
  v_mov_b32 v10, 0
  v_mov_b32 v11, 0
  v_mov_b32 v12, 0
  v_mov_b32 v13, 0
  v_mov_b32 v14, 0
  v_mov_b32 v15, 0
""" + "".join(f"v_mov_b32 v{r}, 0\n" for r in range(16, 64))
SMALL = "v_mfma_f32_16x16x32_bf16 v[16:19], v[8:11], v[12:15], {}"
LARGE = "v_mfma_f32_32x32x16_bf16 v[16:31], v[8:11], v[12:15], {}"
OLD_SMALL = "v_mfma_f32_16x16x16_bf16 v[16:19], v[8:9], v[12:13], {}"
OLD_LARGE = "v_mfma_f32_32x32x8_bf16 v[16:31], v[8:9], v[12:13], {}"
OLD_TINY = "v_mfma_f32_4x4x4_16b_bf16 v[16:19], v[8:9], v[12:13], {}"

OLD_SMALL_C = "v_mfma_f32_16x16x16_bf16 v[40:43], v[8:9], v[12:13], v[16:19]"
DPP = "v_mov_b32_dpp v1, {} row_shr:1 row_mask:0xf bank_mask:0xf"
SDWA = "v_mov_b32_sdwa v8, v9 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD"


def product(d: str, a: str, c: str) -> str:
    return f"v_mfma_f32_16x16x32_bf16 {d}, {a}, v[12:15], {c}"


# (target, first, second, wait states needed)
HAZARDS = [
    ("gfx950", SMALL.format(0), "v_mov_b32 v1, v16", 8),
    ("gfx950", SMALL.format(0), "v_mov_b32 v19, 0", 8),
    ("gfx950", SMALL.format(0), "global_store_dword v0, v17, s[6:7]", 8),
    ("gfx950", LARGE.format(0), "v_mov_b32 v1, v31", 12),
    ("gfx950", LARGE.format(0), "ds_write_b32 v0, v31", 12),
    ("gfx950", OLD_TINY.format(0), "v_mov_b32 v1, v16", 5),
    ("gfx942", OLD_SMALL.format(0), "v_mov_b32 v1, v16", 7),
    ("gfx942", OLD_LARGE.format(0), "v_mov_b32 v1, v31", 11),
    ("gfx942", OLD_TINY.format(0), "v_mov_b32 v1, v16", 5),
    # MFMA results as A or B, and as C.
    ("gfx950", SMALL.format(0), product("v[20:23]", "v[16:19]", "0"), 8),
    ("gfx950", SMALL.format(0), SMALL.format("v[16:19]"), 0),
    ("gfx950", LARGE.format(0), LARGE.format("v[16:31]"), 0),
    ("gfx950", OLD_TINY.format(0), OLD_TINY.format("v[16:19]"), 2),
    ("gfx950", SMALL.format(0), product("v[20:23]", "v[8:11]", "v[18:21]"), 6),
    ("gfx950", LARGE.format(0), product("v[40:43]", "v[8:11]", "v[16:19]"), 10),
    ("gfx942", OLD_LARGE.format(0), OLD_SMALL_C, 9),
    # MFMA's C, overwritten.
    ("gfx950", LARGE.format("v[32:47]"), "v_mov_b32 v40, 0", 7),
    ("gfx950", SMALL.format("v[32:35]"), "v_mov_b32 v33, 0", 3),
    # Vector results.
    ("gfx950", "v_mov_b32 v8, 0", SMALL.format(0), 2),
    ("gfx950", "v_mov_b32 v32, 0", SMALL.format("v[32:35]"), 2),
    ("gfx950", "v_mov_b32 v8, 0", DPP.format("v8"), 2),
    ("gfx950", "v_mov_b32 v8, 0", "v_permlane32_swap_b32 v8, v9", 2),
    ("gfx950", "v_exp_f32 v8, v9", "v_mov_b32 v1, v8", 1),
    ("gfx950", "v_exp_f32 v8, v9", "v_exp_f32 v1, v8", 0),
    ("gfx950", "v_mov_b32 v8, 0", "v_mov_b32 v1, v8", 0),
    ("gfx950", "v_mov_b32 v8, 0", "v_readfirstlane_b32 s8, v8", 1),
    ("gfx950", SDWA, "v_mov_b32 v1, v8", 1),
    # Scalar results of the VALU.
    ("gfx950", "v_readfirstlane_b32 s8, v8", "v_readlane_b32 s9, v9, s8", 4),
    ("gfx950", "v_readfirstlane_b32 s4, v62", "global_load_dword v1, v0, s[4:5]", 5),
    ("gfx950", "v_cmp_eq_u32 vcc, v8, v9", "v_cndmask_b32 v1, v8, v9, vcc", 2),
    ("gfx950", "v_cmp_eq_u32 vcc, v8, v9", "v_div_fmas_f32 v1, v8, v9, v10", 4),
    ("gfx950", "v_cmpx_eq_u32 vcc, v8, v9", SMALL.format(0), 4),
    ("gfx950", "v_cmpx_eq_u32 vcc, v8, v9", "v_readfirstlane_b32 s8, v9", 4),
    ("gfx950", "v_cmpx_eq_u32 vcc, v8, v9", DPP.format("v9"), 5),
    # M0, and stored data.
    ("gfx950", "s_mov_b32 m0, 0", "global_load_lds_dword v0, s[4:5]", 1),
    ("gfx950", "global_store_dwordx4 v0, v[8:11], s[6:7]", "v_mov_b32 v9, 0", 2),
    ("gfx950", "global_store_dwordx2 v0, v[8:9], s[6:7]", "v_mov_b32 v9, 0", 0),
]


def spaced(first: str, states: int, second: str) -> str:
    """Two instructions with some wait states in between."""
    nops = [16] * (states // 16) + ([states % 16] if states % 16 else [])
    # s62 and v62 keep the address that the readfirstlane case takes.
    head = MATRIX + "\n v_mov_b32 v62, s4\n s_nop 15\n s_nop 15\n"
    return (
        head
        + f" {first}\n"
        + "".join(f" s_nop {n - 1}\n" for n in nops)
        + f" {second}\n s_nop 15\n s_nop 15\n s_waitcnt vmcnt(0) lgkmcnt(0)\n"
    )


@pytest.mark.parametrize("target, first, second, needed", HAZARDS)
def test_wait_states(target, first, second, needed):
    run(spaced(first, needed, second), target=target, lds=256)
    if needed:
        body = spaced(first, needed - 1, second)
        states = f"needs {needed} wait states.*it has {needed - 1}"
        stops("hazard", states, body, target=target, lds=256)
        run(body, target=target, lds=256, checks="all,-hazards")


# ---- Bounds ----


def test_buffers_that_are_no_argument():
    other = Array.of(np.arange(64, dtype=np.uint32))
    body = f"""
      s_mov_b32 s4, {other.address & 0xFFFFFFFF:#x}
      s_mov_b32 s5, {other.address >> 32:#x}
      global_load_dword v1, v0, s[4:5]
      s_waitcnt vmcnt(0)
      global_store_dword v0, v1, s[6:7]
    """
    stops("bounds", "which no argument of the launch points into", body)
    np.testing.assert_array_equal(run(body, buffers="any")[:64], range(64))


def test_misaligned_scalar_loads():
    stops("alignment", "not a multiple of 4", "s_load_dword s8, s[4:5], 2")


# ---- Undefined data ----


def test_undefined_registers_in_stores_addresses_and_data():
    stops("undefined", "stored data", "global_store_dword v0, v5, s[6:7]")
    stops("undefined", "the address", "global_store_dword v5, v0, s[6:7]")
    stops("undefined", "the scalar address", "global_store_dword v0, v0, s[30:31]")
    stops("undefined", "M0", "global_load_lds_dword v0, s[4:5]", lds=256)
    stops(
        "undefined",
        "stored data",
        "v_add_u32 v5, v6, v0\n global_store_dword v0, v5, s[6:7]",
    )
    run("v_mov_b32 v5, 0\n global_store_dword v0, v5, s[6:7]")


def test_undefined_branches():
    body = "{} s_cmp_eq_u32 s30, 0\n s_cbranch_scc1 end\n end:"
    stops("undefined", "the branch", body.format(""))
    run(body.format("s_mov_b32 s30, 0\n"))


def test_undefined_lanes_count_only_where_they_are_stored():
    body = """
      s_mov_b64 exec, 0xff
      v_mov_b32 v5, 1
      {}
      global_store_dword v0, v5, s[6:7]
    """
    run(body.format(""))
    stops("undefined", "lane 8", body.format("s_mov_b64 exec, -1"))


def test_undefined_lds():
    body = "{} ds_read_b32 v1, v0\n s_waitcnt lgkmcnt(0)\n"
    body += " global_store_dword v0, v1, s[6:7]"
    stops("undefined", "stored data", body.format(""), lds=256)
    run(body.format("ds_write_b32 v0, v0\n"), lds=256)


def test_undefined_device_memory():
    body = "global_load_dword v1, v0, s[4:5]\n s_waitcnt vmcnt(0)\n"
    body += " global_store_dword v0, v1, s[6:7]"
    source, to = Array(64, np.uint32), Array(64, np.uint32)
    with options():
        with pytest.raises(HipError, match="stored data") as error:
            launch(function(body), [source, to])
        assert error.value.check == "undefined"
        source.set(np.arange(64, dtype=np.uint32))
        launch(function(body), [source, to])
        mark = device.ctypes.c_void_p(source.address + 40), device.ctypes.c_size_t(4)
        device.call("hipsim_mark_undefined", *mark, 1)
        with pytest.raises(HipError, match="lane 10.*stored data"):
            launch(function(body), [source, to])
    assert source.get()[10] == 0xFFFFFFFF


def test_undefined_data_may_be_moved_through_lds_and_scratch():
    body = """
      ds_write_b32 v0, v5
      s_waitcnt lgkmcnt(0)
      ds_read_b32 v6, v0
      s_waitcnt lgkmcnt(0)
    """
    run(body, lds=256)


# ---- Barriers, deadlocks and loops ----

LOOP = """
  v_readfirstlane_b32 s8, v0
  s_cmp_eq_u32 s8, 0
  s_cbranch_scc1 join
  loop:
  s_branch {}
  join:
  s_barrier
"""


def test_a_wave_that_does_not_come_to_the_barrier():
    report = stops(
        "barrier",
        "at which these waves wait: 0",
        LOOP.format("loop"),
        block=128,
        limit=1000,
    )
    assert "wave 1 has executed 1000 instructions" in report
    run(LOOP.format("join"), block=128, limit=1000)


def test_an_ended_wave_counts_at_barriers():
    body = LOOP.replace("loop:\n  s_branch {}", "s_endpgm")
    run(body, block=128, limit=1000)


def test_runaway_loops():
    stops(
        "limit",
        "without ending; if it needs more, raise HIPSIM_LIMIT",
        "loop:\n s_branch loop",
        limit=1000,
    )


def test_waves_run_in_seeded_orders():
    """Eight waves draw tickets; who gets which depends on the seed alone."""
    body = """
      v_lshrrev_b32 v1, 8, v0
      v_lshlrev_b32 v1, 2, v1
      s_mov_b64 exec, 1
      v_mov_b32 v2, 0
      v_mov_b32 v3, 1
      global_atomic_add v4, v2, v3, s[6:7] offset:1024 sc0
      s_waitcnt vmcnt(0)
      global_store_dword v1, v4, s[6:7]
    """
    orders = {}
    for seed in range(8):
        first = run(body, block=512, seed=seed, quantum=2)[:8]
        again = run(body, block=512, seed=seed, quantum=2)[:8]
        np.testing.assert_array_equal(first, again)
        assert sorted(first) == list(range(8))
        orders[tuple(first)] = seed
    assert len(orders) > 4


# ---- Instructions ----


def test_unknown_instructions_are_named():
    report = stops(
        "instruction", "unknown instruction: the words fe000000", ".long 0xfe000000"
    )
    assert "offset 0x" in report


def test_registers_past_the_allotment():
    stops("instruction", "past the wave's 128 VGPRs and 64 AGPRs", "v_mov_b32 v200, 0")


def test_traps_stop_the_launch():
    stops("instruction", "come to a trap", "s_trap 2")


def test_the_end_of_the_code():
    with pytest.raises(HipError, match="left the kernel's code|unknown instruction"):
        run("s_branch 0x7000")


def test_skipped_instructions():
    """The control of the mutation test leaves one instruction out."""
    body = "v_mov_b32 v1, 1\n v_mov_b32 v1, 2\n global_store_dword v0, v1, s[6:7]"
    assert run(body)[0] == 2
    # START takes 8 + 4 + 4 bytes, the first move 4.
    assert run(body, skip=20)[0] == 1
    first, second = (Array((1024,), np.uint32, fill=0) for _ in range(2))
    items = device.json.loads(
        device.library().hipsim_removable_instructions(function("s_nop 3\n s_barrier"))
    )
    assert [item["text"] for item in items] == [
        "s_waitcnt lgkmcnt(0)",
        "s_nop 3",
        "s_barrier",
    ]
    assert [item["offset"] for item in items] == [12, 16, 20]
