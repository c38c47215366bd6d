// How the host cuts C into blocks, and what a block reads of A and B.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/gemm/problem.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

// A block's part of C.
struct block {
  int64_t batch;
  int64_t row;
  int64_t col;
  int64_t rows;
  int64_t cols;
};

// How C is cut into blocks: of rows x cols each, but for the last ones.
struct partition {
  int64_t rows;
  int64_t cols;
  int64_t row_blocks;
  int64_t col_blocks;
  int64_t count;

  // Blocks of one column follow each other, so that threads share its part of B.
  block at(const gemm_problem& p, int64_t index) const {
    const int64_t row = index % row_blocks * rows;
    const int64_t col = index / row_blocks % col_blocks * cols;
    return {index / (row_blocks * col_blocks), row, col, std::min(rows, p.m - row),
            std::min(cols, p.n - col)};
  }
};

constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Even blocks of at most rows x cols each, cut at multiples of row_unit and col_unit.
inline partition make_even(const gemm_problem& p, int64_t rows, int64_t cols, int64_t row_unit,
                           int64_t col_unit) {
  const auto even = [](int64_t size, int64_t most, int64_t unit) {
    return ceil_div(ceil_div(size, ceil_div(size, most)), unit) * unit;
  };
  rows = even(p.m, rows, row_unit);
  cols = even(p.n, cols, col_unit);
  const int64_t row_blocks = ceil_div(p.m, rows), col_blocks = ceil_div(p.n, cols);
  return {rows, cols, row_blocks, col_blocks, p.batch * row_blocks * col_blocks};
}

// Rows [row, row + rows) of A, as it is stored: what a block may read of it.
template <element T, bool trans_a>
plane<const T> rows_of_a(const gemm_problem& p, const block& part) {
  const T* a = static_cast<const T*>(p.a) + (p.broadcast_a ? 0 : part.batch * p.m * p.k);
  if constexpr (trans_a) return {a, p.k, part.row + part.rows, p.m};
  return {a, part.row + part.rows, p.k, p.k};
}

template <element T, bool trans_b>
plane<const T> columns_of_b(const gemm_problem& p, const block& part) {
  const T* b = static_cast<const T*>(p.b) + (p.broadcast_b ? 0 : part.batch * p.k * p.n);
  if constexpr (trans_b) return {b, part.col + part.cols, p.k, p.k};
  return {b, p.k, part.col + part.cols, p.n};
}

// A coordinate of a matrix as it is stored.
template <bool transposed>
constexpr coord stored_at(int64_t row, int64_t col) {
  return transposed ? coord{col, row} : coord{row, col};
}

using block_function = bool (*)(const gemm_problem&, const block&);

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
