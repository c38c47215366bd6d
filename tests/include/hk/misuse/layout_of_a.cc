// error: A of mma_AB and mma_ABt is a register tile, or a shared tile in layout::rows
#include "hk/ops/mma.h"

#ifdef HK_MISUSE
using layout = hk::layout::col_strips;
#else
using layout = hk::layout::rows;
#endif

void use(hk::rt<float, 8, 64>& d, const hk::st<float, 8, 32, layout>& a,
         const hk::st<float, 64, 32, hk::layout::row_panels>& b) {
  hk::mma_ABt(d, a, b);
}
