// error: B of mma_AB and mma_AtB is a shared tile in layout::col_panels
#include "hk/ops/mma.h"

#ifdef HK_MISUSE
using layout = hk::layout::row_panels;
#else
using layout = hk::layout::col_panels;
#endif

void use(hk::rt<float, 8, 64>& d, const hk::st<float, 8, 32, hk::layout::rows>& a,
         const hk::st<float, 32, 64, layout>& b) {
  hk::mma_AB(d, a, b);
}
