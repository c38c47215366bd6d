// error: a register tile's columns are a multiple of the SIMD lanes
#include "hk/ops/maps.h"

#ifdef HK_MISUSE
constexpr int cols = 33;
#else
constexpr int cols = 32;
#endif

void use(hk::rt<float, 8, cols>& tile) { hk::zero(tile); }
