// The host's matrix instruction, and the tile products made of it.
//
// One step adds the product of a column of A and a row of B to mma_rows x mma_panel accumulators,
// which fill the register file: each step loads one row of a panel of B and broadcasts one element
// (or bf16 pair) of each row of A.
#pragma once

#include <cstdint>
#include <cstring>

#include "hk/arch/host/register_tile.h"
#include "hk/arch/host/shared_layouts.h"
#include "hk/types/register_tile.h"
#include "hk/types/shared_tile.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace mma {

inline constexpr int panel_fragments = mma_panel / simd::lanes;

// Accumulators of the instruction: `Rows` rows of one panel.
template <int Rows>
using accumulators = simd::f32[Rows][panel_fragments];

// A of a product: element (i, k) of the instruction's rows at data[i * row + k / group * step +
// k % group], and the next mma_rows rows `block` elements on.
template <element U>
struct a_operand {
  const U* data;
  std::int64_t row;
  std::int64_t step;
  std::int64_t block;

  HK_INLINE a_operand from_row(int i) const {
    return {data + i / mma_rows * block, row, step, block};
  }
};

// d[i][j] += a * b for the rows of one step, one float per row and panel column.
template <int Rows>
HK_INLINE void multiply_step(accumulators<Rows>& d, a_operand<float> a, const float* b) {
  simd::f32 b_row[panel_fragments];
  for (int j = 0; j < panel_fragments; ++j) b_row[j] = simd::load(b + j * simd::lanes);
  for (int i = 0; i < Rows; ++i) {
    const simd::f32 a_element = simd::splat(a.data[i * a.row]);
    for (int j = 0; j < panel_fragments; ++j) d[i][j] = simd::fma(a_element, b_row[j], d[i][j]);
  }
}

#if defined(HK_HOST_ISA_AVX512_BF16)
// The same for pairs of bf16: each 32-bit lane adds two products.
template <int Rows>
HK_INLINE void multiply_step(accumulators<Rows>& d, a_operand<bf16> a, const bf16* b) {
  simd::i32 b_row[panel_fragments];
  std::memcpy(b_row, b, sizeof(b_row));
  for (int i = 0; i < Rows; ++i) {
    std::int32_t pair;
    std::memcpy(&pair, a.data + i * a.row, sizeof(pair));
    const simd::i32 a_pair = simd::splat(pair);
    for (int j = 0; j < panel_fragments; ++j) d[i][j] = simd::dot_pairs(a_pair, b_row[j], d[i][j]);
  }
}
#endif

// d[i][j] = sum over k of A[i][k] B[k][j], plus the old d[i][j] if `add`, for `Rows` rows of d
// (d_row floats apart) and one panel. The old d is added last, by when it has arrived in the
// first-level cache.
template <int Rows, element U>
HK_NOINLINE void multiply_rows(float* HK_RESTRICT d, std::int64_t d_row, a_operand<U> a,
                               const U* HK_RESTRICT b, int steps, bool add) {
  for (int i = 0; i < Rows; ++i) __builtin_prefetch(d + i * d_row, 1);
  accumulators<Rows> acc;
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < panel_fragments; ++j) acc[i][j] = simd::f32{};
#pragma GCC unroll 4
  for (int s = 0; s < steps; ++s) {
    multiply_step<Rows>(acc, a, b);
    a.data += a.step;
    b += mma_panel * mma_group<U>;
  }
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < panel_fragments; ++j) {
      float* const to = d + i * d_row + j * simd::lanes;
      simd::store(to, add ? simd::load(to) + acc[i][j] : acc[i][j]);
    }
}

// The last rows of a tile, fewer than mma_rows: picks the instruction with just as many.
template <int Rows, element U>
HK_INLINE void multiply_last_rows(int rows, float* d, std::int64_t d_row, a_operand<U> a,
                                  const U* b, int steps, bool add) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return multiply_rows<Rows>(d, d_row, a, b, steps, add);
    multiply_last_rows<Rows - 1>(rows, d, d_row, a, b, steps, add);
  }
}

// Whether a product adds to D or replaces it.
enum class into { sum, result };

// D += A B, or D = A B, over all rows of D in use and `panels` panels of B, panel_stride elements
// apart. The panel is the outer loop: it stays in the first-level cache while A streams past.
template <into form, register_tile D, element U>
HK_INLINE void multiply(D& d, a_operand<U> a, const U* b, std::int64_t panel_stride, int panels,
                        int steps) {
  constexpr bool add = form == into::sum;
  for (int p = 0; p < panels; ++p) {
    float* d_panel = d.data + p * mma_panel;
    const U* b_panel = b + p * panel_stride;
    int i = 0;
    for (; i + mma_rows <= d.rows(); i += mma_rows)
      multiply_rows<mma_rows>(d_panel + i * D::cols, D::cols, a.from_row(i), b_panel, steps, add);
    multiply_last_rows<mma_rows - 1>(d.rows() - i, d_panel + i * D::cols, D::cols, a.from_row(i),
                                     b_panel, steps, add);
  }
}

// The A operand that a tile holds, for AB and ABt.
template <element U, int R, int C>
HK_INLINE a_operand<U> rows_of(const rt<U, R, C>& a) {
  return {a.data, C, mma_group<U>, mma_rows * C};
}
template <element U, int R, int C>
HK_INLINE a_operand<U> rows_of(const st<U, R, C, layout::rows>& a) {
  constexpr int stride = layout::rows::stride<U>(R, C);
  return {a.data, stride, mma_group<U>, mma_rows * stride};
}

// The A operand whose transpose a tile holds, for AtB and AtBt. Of the row-major tiles only a float
// one is an operand as it stands; a bf16 one must be stored in groups first.
template <int R, int C>
HK_INLINE a_operand<float> columns_of(const rt<float, R, C>& a) {
  return {a.data, 1, C, mma_rows};
}
template <int R, int C>
HK_INLINE a_operand<float> columns_of(const st<float, R, C, layout::rows>& a) {
  return {a.data, 1, layout::rows::stride<float>(R, C), mma_rows};
}
template <element U, int R, int C>
HK_INLINE a_operand<U> columns_of(const st<U, R, C, layout::grouped_rows>& a) {
  constexpr int group = mma_group<U>;
  return {a.data, group, layout::grouped_rows::stride<U>(R, C), mma_rows * group};
}
template <element U, int R, int C>
HK_INLINE a_operand<U> columns_of(const st<U, R, C, layout::col_strips>& a) {
  constexpr int group = mma_group<U>;
  return {a.data, group, mma_rows * group, layout::col_strips::stride<U>(R, C)};
}

constexpr int ceil_div(int x, int y) { return (x + y - 1) / y; }

template <class V, class Layout>
concept in_layout = shared_tile<V> && std::same_as<typename V::Layout, Layout>;

// What every product asks of its tiles.
template <class D, class A, class B>
constexpr void check_tiles() {
  static_assert(register_tile<D> && std::same_as<typename D::T, float>,
                "a product accumulates into a register tile of floats");
  static_assert(D::cols % mma_panel == 0,
                "the columns of a product's tile are a multiple of mma_panel");
  static_assert(std::same_as<typename A::T, typename B::T>,
                "A and B of a product have one element type");
  static_assert(std::same_as<typename A::T, operand<typename A::T>>,
                "products are computed in operand<T>, to which loads into shared tiles convert");
}

// A of mma_AB and mma_ABt, or of mma_AtB and mma_AtBt, as the instruction takes it.
template <class A>
HK_INLINE auto row_operand(const A& a) {
  static_assert(
      requires { rows_of(a); },
      "A of mma_AB and mma_ABt is a register tile, or a shared tile in layout::rows");
  return rows_of(a);
}
template <class A>
HK_INLINE auto column_operand(const A& a) {
  static_assert(
      requires { columns_of(a); },
      "A of mma_AtB and mma_AtBt is a shared tile in layout::grouped_rows or "
      "layout::col_strips, or any row-major tile of floats");
  return columns_of(a);
}

// D += A B or D = A B over the columns and rows of B in use, or those of its transpose.
template <into form, class D, element U, class B>
HK_INLINE void multiply_by_columns(D& d, a_operand<U> a, const B& b) {
  static_assert(in_layout<B, layout::col_panels>,
                "B of mma_AB and mma_AtB is a shared tile in layout::col_panels");
  static_assert(B::cols_max <= D::cols, "the product's tile is at least as wide as B");
  multiply<form>(d, a, b.data, B::Layout::template stride<U>(B::rows_max, B::cols_max),
                 ceil_div(b.cols(), mma_panel), ceil_div(b.rows(), mma_group<U>));
}
template <into form, class D, element U, class B>
HK_INLINE void multiply_by_rows(D& d, a_operand<U> a, const B& b) {
  static_assert(in_layout<B, layout::row_panels>,
                "B of mma_ABt and mma_AtBt is a shared tile in layout::row_panels");
  static_assert(B::rows_max <= D::cols, "the product's tile is at least as wide as B has rows");
  multiply<form>(d, a, b.data, B::Layout::template stride<U>(B::rows_max, B::cols_max),
                 ceil_div(b.rows(), mma_panel), ceil_div(b.cols(), mma_group<U>));
}

}  // namespace mma

// mma_* add to D, mm_* replace it: the rows of D in use, and as many columns as B has, rounded up
// to a panel. A has at least D's rows; the reduction is as long as B says. It goes on to the end of
// a group, over zeros of B: what a register tile A holds there must be finite.

// D[i][j] += sum over k of A[i][k] B[k][j]; or D[i][j] = the sum.
template <class D, class A, class B>
HK_INLINE void mma_AB(D& d, const A& a, const B& b) {
  mma::check_tiles<D, A, B>();
  mma::multiply_by_columns<mma::into::sum>(d, mma::row_operand(a), b);
}
template <class D, class A, class B>
HK_INLINE void mm_AB(D& d, const A& a, const B& b) {
  mma::check_tiles<D, A, B>();
  mma::multiply_by_columns<mma::into::result>(d, mma::row_operand(a), b);
}

// D[i][j] += sum over k of A[i][k] B[j][k]; or D[i][j] = the sum.
template <class D, class A, class B>
HK_INLINE void mma_ABt(D& d, const A& a, const B& b) {
  mma::check_tiles<D, A, B>();
  mma::multiply_by_rows<mma::into::sum>(d, mma::row_operand(a), b);
}
template <class D, class A, class B>
HK_INLINE void mm_ABt(D& d, const A& a, const B& b) {
  mma::check_tiles<D, A, B>();
  mma::multiply_by_rows<mma::into::result>(d, mma::row_operand(a), b);
}

// D[i][j] += sum over k of A[k][i] B[k][j]; or D[i][j] = the sum.
template <class D, class A, class B>
HK_INLINE void mma_AtB(D& d, const A& a, const B& b) {
  mma::check_tiles<D, A, B>();
  mma::multiply_by_columns<mma::into::sum>(d, mma::column_operand(a), b);
}
template <class D, class A, class B>
HK_INLINE void mm_AtB(D& d, const A& a, const B& b) {
  mma::check_tiles<D, A, B>();
  mma::multiply_by_columns<mma::into::result>(d, mma::column_operand(a), b);
}

// D[i][j] += sum over k of A[k][i] B[j][k]; or D[i][j] = the sum.
template <class D, class A, class B>
HK_INLINE void mma_AtBt(D& d, const A& a, const B& b) {
  mma::check_tiles<D, A, B>();
  mma::multiply_by_rows<mma::into::sum>(d, mma::column_operand(a), b);
}
template <class D, class A, class B>
HK_INLINE void mm_AtBt(D& d, const A& a, const B& b) {
  mma::check_tiles<D, A, B>();
  mma::multiply_by_rows<mma::into::result>(d, mma::column_operand(a), b);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
