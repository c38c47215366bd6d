// Shared tiles: staging memory between global memory and the matrix instruction, laid out the way
// the instruction wants to read it. LDS on a GPU; on the host a buffer that stays in the cache.
//
// A Layout maps an element to its place: Layout::offset<T>(r, c, R, C) in elements, a bijection
// into [0, Layout::size<T>(R, C)). On CDNA it is an XOR swizzle that avoids bank conflicts; on the
// host, panels as wide as the matrix instruction.
#pragma once

#include "hk/core/element.h"
#if HK_ARCH_HOST
#include "hk/arch/host/shared_layouts.h"
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// R x C elements of capacity, of which rows() x cols() are in use (set by the load that fills it).
template <element T_, int R, int C, class Layout_>
struct st {
  static_assert(R > 0 && C > 0, "a shared tile has at least one element");
  using T = T_;
  using Layout = Layout_;
  static constexpr int rows_max = R;
  static constexpr int cols_max = C;

  HK_INLINE int rows() const { return rows_; }
  HK_INLINE int cols() const { return cols_; }
  HK_INLINE void resize(int rows, int cols) {
    rows_ = rows;
    cols_ = cols;
  }

  static constexpr int offset(int r, int c) { return Layout::template offset<T>(r, c, R, C); }
  HK_INLINE T& at(int r, int c) { return data[offset(r, c)]; }
  HK_INLINE const T& at(int r, int c) const { return data[offset(r, c)]; }

  alignas(64) T data[Layout::template size<T>(R, C)];

 private:
  int rows_ = R;
  int cols_ = C;
};

template <class V>
concept shared_tile = requires(const V tile) {
  typename V::T;
  typename V::Layout;
  tile.rows();
  tile.cols();
};

// N elements of staging memory.
template <element T_, int N>
struct sv {
  using T = T_;
  static constexpr int length = N;
  HK_INLINE T& operator[](int j) { return data[j]; }
  HK_INLINE const T& operator[](int j) const { return data[j]; }
  alignas(64) T data[N];
};

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
