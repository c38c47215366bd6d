// Matrix products of any size on the host.
//
// A block computes block_rows x block_cols elements of C, in stripes of stripe_cols columns:
//
//                               K
//                          .---------.        B [K, N]: one tile at a time, arranged in panels
//                  block_k |    b    |
//                          '---------'
//         K                 stripe_cols
//     .---------.          .----.----.----.
//     |         |          |    |    |    |
//     |    a    |          | d0 | d1 | d2 |   block_rows
//     |         |          |    |    |    |
//     '---------'          '----'----'----'
//       block_k
//
// For each block_k of K the tile a is loaded once and multiplied by the tiles b of all stripes: a
// and d stay in the second-level cache, a panel of b in the first. Loads convert to the operand
// type and arrange the tiles for the matrix instruction, so that all four layouts of A and B run
// the same instruction and no whole matrix is ever copied.
//
// An element's sum depends on K and block_k alone: for each block_k in turn, the products in order.
// So results do not depend on how C is cut into blocks, nor on the number of threads.
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

// Sizes in elements. A panel of b takes 16 KiB, half of a small first-level cache.
inline constexpr int stripe_cols = 128;
inline constexpr int max_stripes = 4;
inline constexpr int max_block_rows = 288 / mma_rows * mma_rows;
template <element U>
inline constexpr int block_k = 16384 / (mma_panel * sizeof(U));

// The tiles of one block, for operands of type U; A and B are stored transposed or not.
template <element U, bool trans_a, bool trans_b>
struct tiles {
  static constexpr int block_k = gemm::block_k<U>;
  using a_rows = st<U, max_block_rows, block_k, layout::rows>;
  using a_columns = st<U, block_k, max_block_rows, layout::col_strips>;
  using b_rows = st<U, stripe_cols, block_k, layout::row_panels>;
  using b_columns = st<U, block_k, stripe_cols, layout::col_panels>;

  std::conditional_t<trans_a, a_columns, a_rows> a;
  std::conditional_t<trans_b, b_rows, b_columns> b;
  rt<float, max_block_rows, stripe_cols> d[max_stripes];
};

// The largest blocks that keep all threads busy; then evened out. Small blocks load the same
// elements more often, so there is a least size, and a least amount of work (in multiply-adds) that
// is worth a thread.
inline partition cut_into_blocks(const gemm_problem& p, int64_t threads) {
  constexpr int64_t least_work = int64_t{1} << 19;
  const int64_t work = p.batch * p.m * p.n * std::max<int64_t>(p.k, 1);
  const int64_t wanted = threads == 1 ? 1 : std::min(4 * threads, work / least_work);
  int64_t rows = max_block_rows, cols = max_stripes * stripe_cols;
  const auto count = [&] { return p.batch * ceil_div(p.m, rows) * ceil_div(p.n, cols); };
  while (count() < wanted && rows > 4 * mma_rows) {
    const bool halve_cols = std::min(cols, p.n) > std::min(rows, p.m) && cols > stripe_cols;
    (halve_cols ? cols : rows) /= 2;
  }
  return make_even(p, rows, cols, mma_rows, stripe_cols);
}

// Loads are functions of their own: one for each element type and layout.
template <class Tile, class T>
HK_NOINLINE void load_operand(Tile& tile, plane<const T> src, coord at) {
  load(tile, src, at);
}

// D = A B for the first tiles along K, D += A B for the others.
template <bool trans_a, bool trans_b, class D, class A, class B>
HK_INLINE void multiply(D& d, const A& a, const B& b, bool first) {
  if constexpr (trans_a && trans_b) return first ? mm_AtBt(d, a, b) : mma_AtBt(d, a, b);
  if constexpr (trans_a && !trans_b) return first ? mm_AtB(d, a, b) : mma_AtB(d, a, b);
  if constexpr (!trans_a && trans_b) return first ? mm_ABt(d, a, b) : mma_ABt(d, a, b);
  if constexpr (!trans_a && !trans_b) return first ? mm_AB(d, a, b) : mma_AB(d, a, b);
}

// One block of C: sums over K (an empty K too gives a sum), then the epilogue. False if there is no
// memory for the tiles.
template <element T, bool trans_a, bool trans_b>
bool multiply_block(const gemm_problem& p, const block& part) {
  using tiles_t = tiles<operand<T>, trans_a, trans_b>;
  tiles_t* const t = shared_tiles<tiles_t>();
  if (!t) return false;
  const plane<const T> a = rows_of_a<T, trans_a>(p, part);
  const plane<const T> b = columns_of_b<T, trans_b>(p, part);
  const int stripes = static_cast<int>(ceil_div(part.cols, stripe_cols));
  for (int s = 0; s < stripes; ++s) t->d[s].resize_rows(static_cast<int>(part.rows));
  int64_t k = 0;
  do {
    load_operand(t->a, a, stored_at<trans_a>(part.row, k));
    for (int s = 0; s < stripes; ++s) {
      load_operand(t->b, b, stored_at<trans_b>(k, part.col + s * stripe_cols));
      multiply<trans_a, trans_b>(t->d[s], t->a, t->b, k == 0);
    }
    k += tiles_t::block_k;
  } while (k < p.k);
  for (int s = 0; s < stripes; ++s)
    epilogue(t->d[s], p, part.batch, {part.row, part.col + s * stripe_cols}, part.col + part.cols);
  return true;
}

template <element T>
block_function choose_tiled(bool trans_a, bool trans_b) {
  if (trans_a) return trans_b ? multiply_block<T, true, true> : multiply_block<T, true, false>;
  return trans_b ? multiply_block<T, false, true> : multiply_block<T, false, false>;
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
