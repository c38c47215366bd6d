// A register tile on the host: rows of SIMD registers. The host has too few registers to hold one
// between operations, so it lives in the first-level cache and each operation streams over it; the
// registers proper are those of the matrix instruction in mma.h.
#pragma once

#include "hk/arch/host/register_vector.h"
#include "hk/arch/host/simd.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// Fragment (row, index) holds columns [index * lanes, (index + 1) * lanes) of a row.
struct fragment_at {
  int row;
  int index;
};

// R x C elements, row-major. Of the R rows the first rows() are in use: tiles are cut short where
// a matrix ends. T is float for accumulators; bf16 or f16 for results that feed a matrix product.
template <element T_, int R, int C>
struct rt {
  static_assert(R > 0 && C > 0 && C % simd::lanes == 0,
                "a register tile's columns are a multiple of the SIMD lanes");
  using T = T_;
  static constexpr int rows_max = R;
  static constexpr int cols = C;
  static constexpr int row_fragments = C / simd::lanes;

  HK_INLINE int rows() const { return rows_; }
  HK_INLINE void resize_rows(int rows) { rows_ = rows; }

  template <class F>
  HK_INLINE void each(F f) const {
    for (int r = 0; r < rows_; ++r)
      for (int i = 0; i < row_fragments; ++i) f(fragment_at{r, i});
  }

  HK_INLINE simd::f32 get(fragment_at at) const {
    return simd::load(row(at.row) + at.index * simd::lanes);
  }
  HK_INLINE void set(fragment_at at, simd::f32 x) {
    simd::store(row(at.row) + at.index * simd::lanes, x);
  }

  static HK_INLINE int row_of(fragment_at at) { return at.row; }
  static HK_INLINE simd::i32 col_of(fragment_at at) {
    return simd::splat(at.index * simd::lanes) + simd::iota();
  }

  template <class V>
  static HK_INLINE auto row_value(const V& v, fragment_at at) {
    return simd::splat(v[at.row]);
  }
  template <class V>
  static HK_INLINE auto col_value(const V& v, fragment_at at) {
    return v.get(at.index);
  }

  HK_INLINE T* row(int r) { return data + r * C; }
  HK_INLINE const T* row(int r) const { return data + r * C; }

  alignas(64) T data[R * C];

 private:
  int rows_ = R;
};

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
