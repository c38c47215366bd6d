// MI300X and MI325X (CDNA3).
#pragma once

#include "hk/arch/cdna/chip.h"

namespace hk::cdna {

template <>
struct traits<chip::gfx942> {
  static constexpr int lds_bytes = 64 * 1024;
  static constexpr int lds_banks = 32;
  static constexpr int compute_units = 304;
  static constexpr int xcds = 8;
  static constexpr int dma_bytes = 4;
  static constexpr bool transposing_read = false;
  static constexpr int mfma_k = 16;
  static constexpr int mfma_rate = 2048;
  static constexpr bool fp8_is_fnuz = true;
};

}  // namespace hk::cdna
