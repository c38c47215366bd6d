// Matrix products on the host.
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
#include <atomic>
#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/gemm/epilogue.h"
#include "hk/kernels/gemm/problem.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

// Sizes in elements. A panel of b takes 16 KiB, half of a small first-level cache.
inline constexpr int stripe_cols = 64;
inline constexpr int max_stripes = 8;
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

// The largest blocks that keep all threads busy; then evened out. Small blocks load the same
// elements more often, so there is a least size, and a least amount of work (in multiply-adds) that
// is worth a thread.
inline partition make_partition(const gemm_problem& p, int64_t threads) {
  constexpr int64_t least_work = int64_t{1} << 19;
  const int64_t work = p.batch * p.m * p.n * std::max<int64_t>(p.k, 1);
  const int64_t wanted = threads == 1 ? 1 : std::min(4 * threads, work / least_work);
  int64_t rows = max_block_rows, cols = max_stripes * stripe_cols;
  const auto count = [&] { return p.batch * ceil_div(p.m, rows) * ceil_div(p.n, cols); };
  while (count() < wanted && rows > 4 * mma_rows) {
    const bool halve_cols = std::min(cols, p.n) > std::min(rows, p.m) && cols > stripe_cols;
    (halve_cols ? cols : rows) /= 2;
  }
  const int64_t row_blocks = ceil_div(p.m, rows);
  const int64_t col_blocks = ceil_div(p.n, cols);
  rows = ceil_div(ceil_div(p.m, row_blocks), mma_rows) * mma_rows;
  cols = ceil_div(ceil_div(p.n, col_blocks), stripe_cols) * stripe_cols;
  return {rows, cols, ceil_div(p.m, rows), ceil_div(p.n, cols),
          p.batch * ceil_div(p.m, rows) * ceil_div(p.n, cols)};
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
    epilogue(t->d[s], p, part.batch, {part.row, part.col + s * stripe_cols});
  return true;
}

using block_function = bool (*)(const gemm_problem&, const block&);

template <element T>
block_function choose_block_function(bool trans_a, bool trans_b) {
  if (trans_a) return trans_b ? multiply_block<T, true, true> : multiply_block<T, true, false>;
  return trans_b ? multiply_block<T, false, true> : multiply_block<T, false, false>;
}

// What the threads share.
struct context {
  const gemm_problem& problem;
  partition blocks;
  block_function run;
  std::atomic<bool> out_of_memory;
};

}  // namespace gemm

inline status gemm_host(const gemm_problem& problem, const launcher& launch) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return status::ok;
  gemm::context context{problem, gemm::make_partition(problem, launch.threads),
                        visit(problem.in_type,
                              [&]<element T>(T*) {
                                return gemm::choose_block_function<T>(problem.trans_a,
                                                                      problem.trans_b);
                              }),
                        false};
  const auto run_block = [](void* opaque, int64_t index) {
    auto& c = *static_cast<gemm::context*>(opaque);
    if (!c.run(c.problem, c.blocks.at(c.problem, index))) c.out_of_memory = true;
  };
  launch.run(launch.pool, context.blocks.count, run_block, &context);
  return context.out_of_memory ? status::out_of_memory : status::ok;
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
