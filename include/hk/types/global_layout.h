// Global layouts: arrays in memory that tiles are loaded from and stored to.
#pragma once

#include <cstdint>

#include "hk/core/element.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// A matrix of rows x cols elements whose columns are contiguous; rows are row_stride elements
// apart. What a tile operation sees of a larger array. T may be const.
//
// Rows may fold two dimensions of that array: with fold > 0, row r is the (r % fold)-th of its
// group of `fold` rows, and groups are fold_stride elements apart. In BTNH the query heads that
// share a key head are folded with time, so that a tile holds rows of all of them.
template <class T>
struct plane {
  T* data;
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t row_stride;
  std::int64_t fold = 0;
  std::int64_t fold_stride = 0;

  HK_INLINE T* row(std::int64_t r) const {
    if (fold == 0) return data + r * row_stride;
    return data + r / fold * fold_stride + r % fold * row_stride;
  }
};

// A dense four-dimensional array [batch, depth, rows, cols], row-major, sizes in elements. Any of
// its outer dimensions can be the row dimension of a plane.
template <class T>
struct gl {
  T* data;
  std::int64_t batch;
  std::int64_t depth;
  std::int64_t rows;
  std::int64_t cols;

  // The matrix (rows, cols) at batch entry b and depth entry d.
  HK_INLINE plane<T> row_plane(std::int64_t b, std::int64_t d) const {
    return {data + (b * depth + d) * rows * cols, rows, cols, cols};
  }

  // The matrix (depth, cols) at batch entry b and row entry r: in BTNH, head r's (time, head dim).
  HK_INLINE plane<T> depth_plane(std::int64_t b, std::int64_t r) const {
    return {data + (b * depth * rows + r) * cols, depth, cols, rows * cols};
  }
};

// Where a tile's first element stands in a plane, in elements.
struct coord {
  std::int64_t row;
  std::int64_t col;
};

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
