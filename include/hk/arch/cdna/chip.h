// What the CDNA chips have in common, and the form of a chip's traits. Plain C++: the device code,
// the host's launch plans and the unit tests all read it.
#pragma once

#include <cstdint>

namespace hk::cdna {

enum class chip : int32_t { gfx942, gfx950 };

inline constexpr int wave_lanes = 64;

// One file per chip defines its traits:
//   lds_bytes        local memory of a compute unit, and the most that a workgroup may have
//   lds_banks        banks of 4 bytes each
//   compute_units    of the largest product; a launch plan is told the actual number
//   xcds             chiplets, to which workgroups go round-robin by their linear number
//   dma_bytes        largest piece that a lane can bring from memory to LDS directly
//   transposing_read whether LDS reads can transpose 16-bit elements (ds_read_b64_tr_b16)
//   mfma_k           terms of the 16x16 matrix instruction for 16-bit operands
//   mfma_rate        operations on them that a compute unit does in a clock
//   fp8_is_fnuz      whether fp8 operands have no minus zero and no infinities (else OCP's)
template <chip>
struct traits;

}  // namespace hk::cdna
