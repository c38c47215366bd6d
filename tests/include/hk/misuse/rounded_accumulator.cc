// error: a product accumulates into a register tile of floats
#include "hk/ops/mma.h"

#ifdef HK_MISUSE
using type = hk::bf16;
#else
using type = float;
#endif

void use(hk::rt<type, 8, 64>& d, const hk::st<float, 8, 32, hk::layout::rows>& a,
         const hk::st<float, 32, 64, hk::layout::col_panels>& b) {
  hk::mma_AB(d, a, b);
}
