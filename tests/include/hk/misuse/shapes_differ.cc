// error: an elementwise map needs tiles of the same shape
#include "hk/ops/maps.h"

#ifdef HK_MISUSE
using source = hk::rt<float, 4, 32>;
#else
using source = hk::rt<float, 8, 32>;
#endif

void use(hk::rt<float, 8, 32>& dst, const source& src) { hk::copy(dst, src); }
