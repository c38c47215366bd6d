// Matrix products with few rows on the host: the decoding of a token, a matrix times a vector.
//
// Every element of B is used by so few rows that arranging it for the matrix instruction would cost
// more than the product. So B is read once, as it is stored and in the order it is stored, and what
// stays in the first-level cache is A and the sums. A block computes all rows of `cols` columns:
//
//     B stored [K, N]                             B stored [N, K]
//          a [M, K]        b                           a [M, K]        b
//       .-----------.   .------.                    .-----------.   .-------.
//       | . . s s . |   |      |                    |   block_k |   |       |
//       '-----------'   | ssss | <- group_rows      '-----------'   |kkkkkkk| <- group_rows
//                       |      |                                    |       |
//                       '------'                                    '-------'
//       d [M, cols] += a column group              d[i][j] = sum over k, a register of
//       times a row group of b                     partial sums for each (i, j)
//
// The order of an element's sum depends on K and the layout of B alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/gemm/epilogue.h"
#include "hk/kernels/gemm/host_partition.h"
#include "hk/kernels/gemm/problem.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

// Sizes in elements.
inline constexpr int skinny_rows = 8;
inline constexpr int skinny_cols = 512;
inline constexpr int group_rows = 4;  // rows of B that are worked on together

template <bool trans_a, bool trans_b>
struct skinny_tiles {
  // Dot products run along rows of B, whose long pieces are what the hardware prefetches best.
  static constexpr int skinny_k = trans_b ? 2048 : 256;
  using a_rows = st<float, skinny_rows, skinny_k, layout::rows>;
  using a_columns = st<float, skinny_k, skinny_rows, layout::rows>;
  std::conditional_t<trans_a, a_columns, a_rows> a;
  rt<float, skinny_rows, skinny_cols> d;
};

// A product of one vector by B^T is skinny, and one of A by a column; A^T B^T is left to the tiles.
inline bool is_skinny(const gemm_problem& p) {
  return p.m <= skinny_rows && !(p.trans_a && p.trans_b);
}

// d[i][j] += sum over s < Steps of A[i][s] B[s][j], for `cols` columns of rows of B at b.
template <int Steps, class D, element T>
HK_INLINE void add_row_group(D& d, mma::a_operand<float> a, const T* b, int64_t b_row, int cols) {
  memory::in_pieces<simd::lanes>(cols, [&](int c, int n) HK_LAMBDA_INLINE {
    simd::f32 x[Steps];
    for (int s = 0; s < Steps; ++s) {
      x[s] = simd::load_first(b + s * b_row + c, n);
      __builtin_prefetch(b + (s + Steps) * b_row + c);
    }
    for (int i = 0; i < d.rows(); ++i) {
      const fragment_at at{i, c / simd::lanes};
      simd::f32 sum = d.get(at);
      for (int s = 0; s < Steps; ++s)
        sum = simd::fma(simd::splat(a.data[i * a.row + s * a.step]), x[s], sum);
      d.set(at, sum);
    }
  });
}

// D += A B for the rows of B in [k, k + steps), read from memory.
template <class D, element T>
HK_NOINLINE void multiply_streamed(D& d, mma::a_operand<float> a, plane<const T> b, coord at,
                                   int steps) {
  const int cols = memory::inside(b.cols, at.col, D::cols);
  const T* row = b.row(at.row) + at.col;
  memory::in_pieces<group_rows>(steps, [&](int, int n) HK_LAMBDA_INLINE {
    if (n == group_rows) {
      add_row_group<group_rows>(d, a, row, b.row_stride, cols);
      a.data += group_rows * a.step;
      row += group_rows * b.row_stride;
      return;
    }
    for (int s = 0; s < n; ++s, a.data += a.step, row += b.row_stride)
      add_row_group<1>(d, a, row, b.row_stride, cols);
  });
}

// d[j] += sum over c < length of a[c] b[j][c], for `Rows` rows of B at b: registers of partial sums
// along c, reduced as a tree.
template <int Rows, element T>
HK_INLINE void add_dot_products(float* d, const float* a, const T* b, int64_t b_row, int length) {
  simd::f32 sum[Rows];
  for (int j = 0; j < Rows; ++j) sum[j] = simd::f32{};
  memory::in_pieces<simd::lanes>(length, [&](int c, int n) HK_LAMBDA_INLINE {
    const simd::f32 x = simd::load_first(a + c, n);
    for (int j = 0; j < Rows; ++j)
      sum[j] = simd::fma(x, simd::load_first(b + j * b_row + c, n), sum[j]);
  });
  for (int j = 0; j < Rows; ++j) d[j] += simd::reduce(sum[j], fn::add);
}

// D += A B^T for columns [k, k + steps) of the stored B, read from memory.
template <class D, element T>
HK_NOINLINE void multiply_streamed_transposed(D& d, mma::a_operand<float> a, plane<const T> b,
                                              coord at, int steps) {
  const int rows = memory::inside(b.rows, at.row, D::cols);
  memory::in_pieces<group_rows>(rows, [&](int j, int n) HK_LAMBDA_INLINE {
    const T* const b_rows = b.row(at.row + j) + at.col;
    for (int i = 0; i < d.rows(); ++i) {
      const float* const a_row = a.data + i * a.row;
      if (n == group_rows) {
        add_dot_products<group_rows>(d.row(i) + j, a_row, b_rows, b.row_stride, steps);
        continue;
      }
      for (int l = 0; l < n; ++l)
        add_dot_products<1>(d.row(i) + j + l, a_row, b_rows + l * b.row_stride, 0, steps);
    }
  });
}

// One block of C: sums over K, then the epilogue. False if there is no memory for the tiles.
template <element T, bool trans_a, bool trans_b>
bool multiply_skinny_block(const gemm_problem& p, const block& part) {
  static_assert(!(trans_a && trans_b), "dot products need rows of A");
  using tiles_t = skinny_tiles<trans_a, trans_b>;
  constexpr int skinny_k = tiles_t::skinny_k;
  auto* const t = shared_tiles<tiles_t>();
  if (!t) return false;
  const plane<const T> a = rows_of_a<T, trans_a>(p, part);
  const plane<const T> b = columns_of_b<T, trans_b>(p, part);
  t->d.resize_rows(static_cast<int>(part.rows));
  zero(t->d);
  for (int64_t k = 0; k < p.k; k += skinny_k) {
    const int steps = memory::inside(p.k, k, skinny_k);
    load(t->a, a, stored_at<trans_a>(part.row, k));
    if constexpr (trans_b)
      multiply_streamed_transposed(t->d, mma::rows_of(t->a), b, {part.col, k}, steps);
    else if constexpr (trans_a)
      multiply_streamed(t->d, mma::columns_of(t->a), b, {k, part.col}, steps);
    else
      multiply_streamed(t->d, mma::rows_of(t->a), b, {k, part.col}, steps);
  }
  epilogue(t->d, p, part.batch, {part.row, part.col}, part.col + part.cols);
  return true;
}

template <element T>
block_function choose_skinny(bool trans_a, bool trans_b) {
  if (trans_a) return multiply_skinny_block<T, true, false>;
  return trans_b ? multiply_skinny_block<T, false, true> : multiply_skinny_block<T, false, false>;
}

// Two blocks for a thread, of whole cache lines of C, if every block still reads enough of B to be
// worth a thread.
inline partition cut_into_columns(const gemm_problem& p, int64_t threads) {
  constexpr int64_t least_read = int64_t{1} << 16;
  const int64_t wanted =
      threads == 1 ? 1 : std::clamp<int64_t>(p.n * p.k / least_read, 1, 2 * threads);
  const int64_t cols = std::min<int64_t>(skinny_cols, ceil_div(p.n, wanted));
  return make_even(p, skinny_rows, cols, skinny_rows, 32);
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
