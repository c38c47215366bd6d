// MI350X and MI355X (CDNA4).
#pragma once

#include "hk/arch/cdna/chip.h"

namespace hk::cdna {

template <>
struct traits<chip::gfx950> {
  static constexpr int lds_bytes = 160 * 1024;
  static constexpr int lds_banks = 64;
  static constexpr int compute_units = 256;
  static constexpr int xcds = 8;
  static constexpr int dma_bytes = 16;
  static constexpr bool transposing_read = true;
  static constexpr int mfma_k = 32;
  static constexpr int mfma_rate = 4096;
  static constexpr bool fp8_is_fnuz = false;  // OCP formats
};

}  // namespace hk::cdna
