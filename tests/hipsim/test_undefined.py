"""What comes from registers never written is followed to the store that shows it."""

import numpy as np
import pytest

from tests.hipsim import device
from tests.hipsim.assemble import Kernel, assemble

# v4 and v6 are written, v20 to v29 and s40 to s49 never.
DEFINED = [
    "v_add_u32 v10, v4, v6",
    "v_mov_b32 v10, v4",
    # The half of a pair that op_sel does not choose.
    "v_pk_mul_f32 v[10:11], v[4:5], s[8:9] op_sel_hi:[1,0]",
    "v_pk_fma_f32 v[10:11], v[4:5], v[6:7], v[8:9] op_sel_hi:[0,0,0]",
    # Carries go up.
    "v_mad_u64_u32 v[10:11], s[20:21], v4, v6, v[8:9]",
    "v_lshl_add_u64 v[10:11], v[4:5], 2, v[8:9]",
    "v_lshlrev_b64 v[10:11], 3, v[8:9]",
    # The source that no lane selects, and a zero that decides AND.
    "s_mov_b64 vcc, 0\n v_cndmask_b32 v10, v4, v20, vcc",
    "s_mov_b32 s20, 0\n s_and_b32 s20, s20, s40\n v_mov_b32 v10, s20",
    "s_mov_b32 s20, 0\n s_andn2_b32 s20, s20, s40\n v_mov_b32 v10, s20",
    "s_mov_b32 s20, -1\n s_or_b32 s20, s20, s40\n v_mov_b32 v10, s20",
    # Another lane's value.
    "v_mov_b32 v20, v4\n s_nop 1\n v_mov_b32_dpp v10, v20 row_ror:3",
]
UNDEFINED = [
    "v_mov_b32 v10, v20",
    "v_add_u32 v10, v4, v20",
    "v_add_u32 v10, s40, v4",
    "v_fma_f32 v10, v4, v6, v20",
    "v_pk_mul_f32 v[10:11], v[4:5], s[8:9] op_sel:[0,1]",
    "v_mad_u64_u32 v[10:11], s[20:21], v4, v6, v[20:21]",
    "v_lshrrev_b64 v[10:11], 3, v[8:9]",
    "s_mov_b64 vcc, -1\n v_cndmask_b32 v10, v4, v20, vcc",
    "v_cmp_lt_u32 vcc, v4, v20\n s_nop 4\n v_cndmask_b32 v10, v4, v6, vcc",
    "s_mov_b32 s20, 1\n s_and_b32 s20, s20, s40\n v_mov_b32 v10, s20",
    "s_add_u32 s20, s40, 1\n v_mov_b32 v10, s20",
    "v_readfirstlane_b32 s20, v20\n s_nop 4\n v_mov_b32 v10, s20",
    "v_writelane_b32 v10, s40, 7",
    "s_nop 1\n v_mov_b32_dpp v10, v20 row_ror:3",
    "v_accvgpr_read_b32 v10, a3",
]
STOPPING = [
    "s_cmp_eq_u32 s40, 0\n s_cbranch_scc1 0",
    "s_and_b64 vcc, exec, s[40:41]\n s_cbranch_vccnz 0",
    "s_mov_b64 exec, s[40:41]",
    "s_setpc_b64 s[40:41]",
    "v_cmpx_lt_u32 vcc, v4, v20",
    "v_readlane_b32 s20, v4, s40",
]


def run(listing: str) -> np.ndarray:
    """Stores v10 after a listing; s8 is written, s9, v5, v7 and v9 are not."""
    body = f"""
  s_load_dwordx2 s[4:5], s[0:1], 0
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v4, v0
  v_mov_b32 v6, 3
  v_mov_b32 v8, 5
  v_mov_b32 v10, 7
  s_mov_b32 s8, 9
  s_waitcnt lgkmcnt(0)
  s_nop 4
  {listing}
  s_nop 4
  global_store_dword v1, v10, s[4:5]
  s_endpgm
"""
    with device.options(arch="gfx950"):
        out = device.Array((64,), np.uint32)
        module = device.Module(assemble(Kernel(body, vgprs=32, agprs=8), "gfx950"))
        device.launch(module.function(), [out])
        return out.get()


@pytest.mark.parametrize("listing", DEFINED)
def test_results_that_do_not_depend_on_undefined_registers(listing):
    run(listing)


@pytest.mark.parametrize("listing", UNDEFINED)
def test_results_that_depend_on_undefined_registers(listing):
    with pytest.raises(device.HipError, match="never written|undefined"):
        run(listing)


@pytest.mark.parametrize("listing", STOPPING)
def test_undefined_decisions_stop(listing):
    with pytest.raises(device.HipError, match="never written|undefined"):
        run(listing)
