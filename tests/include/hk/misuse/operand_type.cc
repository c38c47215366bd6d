// error: products are computed in operand<T>, to which loads into shared tiles convert
#include "hk/ops/mma.h"

#ifdef HK_MISUSE
using type = hk::f16;
#else
using type = hk::operand<hk::f16>;
#endif

void use(hk::rt<float, 8, 64>& d, const hk::st<type, 8, 32, hk::layout::rows>& a,
         const hk::st<type, 32, 64, hk::layout::col_panels>& b) {
  hk::mma_AB(d, a, b);
}
