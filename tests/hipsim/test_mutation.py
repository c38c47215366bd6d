"""The mutation test: which missing waits, barriers and nops the checks notice."""

import numpy as np

from tests.hipsim.assemble import Kernel, assemble
from tests.hipsim.device import Array, Module, launch, options
from tests.hipsim.mutation import mutate, noticed_share, removable, summary

TILES = 3
THREADS = 256

_START = """
  s_load_dwordx4 s[4:7], s[0:1], 0
  v_lshlrev_b32 v1, 2, v0
  v_xor_b32 v2, 0x100, v1
  v_xor_b32 v3, 0x200, v1
  v_mov_b32 v10, 0
  s_nop 0
  v_readfirstlane_b32 s8, v1
  s_waitcnt vmcnt(0)
  s_waitcnt lgkmcnt(0)
  s_mov_b32 m0, s8
  s_nop 0
"""
# Each wave loads a part of the tile; it adds up what two others loaded, and summed.
_TILE = """
  global_load_lds_dword v1, s[4:5]
  s_waitcnt vmcnt(0)
  s_barrier
  ds_read_b32 v4, v2
  ds_read_b32 v5, v3
  s_waitcnt lgkmcnt(1)
  v_add_u32 v10, v10, v4
  s_waitcnt lgkmcnt(0)
  v_add_u32 v10, v10, v5
  ds_write_b32 v1, v10 offset:1024
  s_waitcnt lgkmcnt(0)
  s_barrier
  ds_read_b32 v6, v3 offset:1024
  s_add_u32 s4, s4, 1024
  s_addc_u32 s5, s5, 0
  s_waitcnt lgkmcnt(0)
  v_xor_b32 v10, v10, v6
"""
_END = """
  v_cmp_gt_u32 vcc, v10, v1
  s_nop 1
  v_cndmask_b32 v7, v10, v1, vcc
  v_mov_b32 v8, v7
  s_nop 1
  v_mov_b32_dpp v9, v8 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
  global_store_dwordx2 v1, v[8:9], s[6:7]
  s_endpgm
"""


def staged_kernel():
    listing = _START + _TILE * TILES + _END
    listing = listing.replace("v1, v[8:9], s[6:7]", "v11, v[8:9], s[6:7]")
    listing = listing.replace(
        "  v_mov_b32 v8, v7", "  v_lshlrev_b32 v11, 1, v1\n  v_mov_b32 v8, v7"
    )
    kernel = Kernel(listing, arguments=(8, 8), lds=2048)
    return Module(assemble(kernel)).function()


def expected(tiles: np.ndarray) -> np.ndarray:
    total = np.zeros(THREADS, np.uint32)
    lane = np.arange(THREADS)
    for tile in tiles:
        total = total + tile[lane ^ 64] + tile[lane ^ 128]
        total = total ^ total[lane ^ 128]
    address = (lane * 4).astype(np.uint32)
    chosen = np.where(total > address, address, total)
    return np.stack([chosen, chosen[lane ^ 1]], axis=1)


def test_a_staged_kernel():
    function = staged_kernel()
    rng = np.random.default_rng(0)
    tiles = rng.integers(0, 1 << 32, (TILES, THREADS), np.uint32)
    source = Array.of(tiles)

    def run() -> np.ndarray:
        out = Array((THREADS, 2), np.uint32)
        launch(function, [source, out], block=THREADS)
        return out.get()

    with options():
        np.testing.assert_array_equal(run(), expected(tiles))
    removals = mutate(function, run)
    assert len(removals) == len(removable(function)) == 6 + 7 * TILES
    print("\n" + summary(removals))
    others = [r for r in removals if r.outcome != "noticed"]
    assert [(r.outcome, r.text) for r in others] == [
        ("unneeded", "s_nop 0"),
        ("idle", "s_waitcnt vmcnt(0)"),
    ], others
    assert noticed_share(removals) >= 0.95
