// Products of register tiles on CDNA. Device code only.
#pragma once

#include "hk/types/register_tile.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// d[i][j] += sum over k of a[i][k] b[j][k], where a and b belong to the rows and columns of d from
// 16 i0 and 16 j0 on. b is the instruction's first operand: the result then lies transposed, a
// lane's four registers along a row.
template <int i0 = 0, int j0 = 0, element T, int R, int C, int RA, int RB, int K>
HK_INLINE void mma_ABt(rt<float, R, C>& d, const rt<T, RA, K>& a, const rt<T, RB, K>& b) {
  static_assert(16 * i0 + RA <= R && 16 * j0 + RB <= C, "the product lies inside of d");
#pragma unroll
  for (int k = 0; k < K / 32; ++k)
#pragma unroll
    for (int i = 0; i < RA / 16; ++i)
#pragma unroll
      for (int j = 0; j < RB / 16; ++j) {
        f32x4& part = d.part[i0 + i][j0 + j];
        part = multiply_add(T{}, b.part[j][k], a.part[i][k], part);
      }
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
