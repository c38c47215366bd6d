// Register tiles on CDNA: over the 64 lanes of a wave. Device code only.
//
//   rt<float, R, C>   a result of matrix instructions: fragments of 16 x 16, four adjacent columns
//   of
//                     a row to a lane (lane_map.h, accumulator_place)
//   rt<T, R, K>       an operand of 16-bit elements: fragments of 16 rows x 32 terms, 8 adjacent
//   terms
//                     of a row to a lane (operand_place)
//
// To maps, a fragment is one float of each lane.
#pragma once

#include "hk/arch/cdna/fragment.h"
#include "hk/arch/cdna/instructions.h"
#include "hk/arch/cdna/lane_map.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

template <element T, int R, int C>
struct rt;

template <int R, int C>
struct rt<float, R, C> {
  static_assert(R % 16 == 0 && C % 16 == 0, "a result is made of fragments of 16 x 16");
  using T = float;
  static constexpr int rows_max = R;
  static constexpr int cols = C;

  // Register `reg` of fragment (i, j).
  struct place {
    int i, j, reg;
  };

  HK_INLINE int rows() const { return R; }

  template <class F>
  HK_INLINE void each(F f) const {
#pragma unroll
    for (int i = 0; i < R / 16; ++i)
#pragma unroll
      for (int j = 0; j < C / 16; ++j)
#pragma unroll
        for (int reg = 0; reg < 4; ++reg) f(place{i, j, reg});
  }

  HK_INLINE float get(place at) const { return part[at.i][at.j][at.reg]; }
  HK_INLINE void set(place at, float x) { part[at.i][at.j][at.reg] = x; }

  static HK_INLINE int row_of(place at) {
    return 16 * at.i + cdna::accumulator_place(static_cast<int>(lane_index()), at.reg).row;
  }
  static HK_INLINE int col_of(place at) {
    return 16 * at.j + cdna::accumulator_place(static_cast<int>(lane_index()), at.reg).col;
  }

  f32x4 part[R / 16][C / 16];
};

template <element T_, int R, int K>
  requires(sizeof(T_) == 2)
struct rt<T_, R, K> {
  static_assert(R % 16 == 0 && K % 32 == 0, "an operand is made of fragments of 16 x 32");
  using T = T_;
  static constexpr int rows_max = R;
  static constexpr int cols = K;
  HK_INLINE int rows() const { return R; }

  u32x4 part[R / 16][K / 32];
};

// The compiler moves no work on fragments (i, j) to (i + height, j + width) of d across. Products
// touch no memory, so neither barriers nor fences of memory hold them in their place.
template <int i, int j, int height, int width, int R, int C>
HK_INLINE void pin(rt<float, R, C>& d) {
#pragma unroll
  for (int r = 0; r < height; ++r)
#pragma unroll
    for (int c = 0; c < width; ++c) asm volatile("" : "+v"(d.part[i + r][j + c]));
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
