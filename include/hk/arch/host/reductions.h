// Reductions on the host: fragments are combined lane by lane, then the lanes as a tree.
#pragma once

#include <cstring>

#include "hk/arch/host/register_tile.h"
#include "hk/arch/host/register_vector.h"
#include "hk/arch/host/shared_layouts.h"
#include "hk/ops/maps.h"
#include "hk/types/shared_tile.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

namespace detail {

// x[i] = row(r + i) for the rows in use from r on, and 0 behind.
template <class Row>
HK_INLINE void rows_from(simd::f32 (&x)[simd::lanes], int r, int rows, Row row) {
  for (int i = 0; i < simd::lanes; ++i) x[i] = r + i < rows ? row(r + i) : simd::f32{};
}

}  // namespace detail

// dst[r] = op over c of src[r][c] and init(r), for the rows in use.
template <class D, class S, class Op, class Init>
HK_INLINE void row_reduce(D& dst, const S& src, Op op, Init init) {
  static_assert(D::length >= S::rows_max, "a row reduction needs a place for each row of the tile");
  for (int r = 0; r < src.rows(); r += simd::lanes) {
    simd::f32 x[simd::lanes];
    detail::rows_from(x, r, src.rows(), [&](int row) HK_LAMBDA_INLINE {
      simd::f32 lanes = src.get({row, 0});
      for (int i = 1; i < S::row_fragments; ++i) lanes = op(lanes, src.get({row, i}));
      return lanes;
    });
    const simd::f32 rows = simd::reduce_each(x, op);
    dst.set(r / simd::lanes, op(init(r / simd::lanes), rows));
  }
}

// dst[r][c] = f(src[r][c], v[r]), and sum[r] += sum over c of that, before it is rounded to dst's
// type: a map and the reduction of its result in one pass. dst may be src.
template <class D, class S, class V, class F>
HK_INLINE void map_row_sum(D& dst, const S& src, const V& v, F f, V& sum) {
  static_assert(same_shape<D, S>, "a row map needs tiles of the same shape");
  static_assert(V::length >= S::rows_max, "a row map needs a value for each row of the tile");
  for (int r = 0; r < src.rows(); r += simd::lanes) {
    simd::f32 x[simd::lanes];
    detail::rows_from(x, r, src.rows(), [&](int row) HK_LAMBDA_INLINE {
      const simd::f32 value = simd::splat(v[row]);
      simd::f32 lanes{};
      for (int i = 0; i < S::row_fragments; ++i) {
        const simd::f32 y = f(src.get({row, i}), value);
        dst.set({row, i}, y);
        lanes += y;
      }
      return lanes;
    });
    const int i = r / simd::lanes;
    sum.set(i, sum.get(i) + simd::reduce_each(x, fn::add));
  }
}

// dst[c] = op over r of dst[c] and src[r][c], for the rows in use.
template <class D, class S, class Op>
HK_INLINE void col_reduce(D& dst, const S& src, Op op) {
  static_assert(D::length == S::cols, "a column reduction needs a place for each column");
  for (int i = 0; i < S::row_fragments; ++i) {
    simd::f32 column = dst.get(i);
    for (int r = 0; r < src.rows(); ++r) column = op(column, src.get({r, i}));
    dst.set(i, column);
  }
}

namespace detail {

// sum + a * b for one group of each lane's row.
HK_INLINE simd::f32 dot_step(const float* a, const float* b, simd::f32 sum) {
  return simd::fma(simd::load(a), simd::load(b), sum);
}
#if defined(HK_HOST_ISA_AVX512_BF16)
HK_INLINE simd::f32 dot_step(const bf16* a, const bf16* b, simd::f32 sum) {
  simd::i32 a_pairs, b_pairs;
  std::memcpy(&a_pairs, a, sizeof(a_pairs));
  std::memcpy(&b_pairs, b, sizeof(b_pairs));
  return simd::dot_pairs(a_pairs, b_pairs, sum);
}
#endif

}  // namespace detail

// dst[r] = sum over c of a[r][c] b[r][c], for whole fragments of rows. Terms are added in the order
// of the matrix instruction: dst[r] is, bit for bit, element (r, r) of mma_ABt.
template <class D, element U, int R, int C>
HK_INLINE void row_dot(D& dst, const st<U, R, C, layout::row_panels>& a,
                       const st<U, R, C, layout::row_panels>& b) {
  static_assert(D::length >= R, "a row dot needs a place for each row of the tile");
  for (int r = 0; r < a.rows(); r += simd::lanes) {
    simd::f32 sum{};
    for (int c = 0; c < a.cols(); c += mma_group<U>)
      sum = detail::dot_step(&a.at(r, c), &b.at(r, c), sum);
    dst.set(r / simd::lanes, sum);
  }
}

// op over j of v[j]; lanes behind the vector's length count as `neutral`.
template <class V, class Op>
HK_INLINE float vector_reduce(const V& v, Op op, float neutral) {
  constexpr int tail = V::length % simd::lanes;
  simd::f32 lanes = simd::splat(neutral);
  for (int i = 0; i < V::length / simd::lanes; ++i) lanes = op(lanes, v.get(i));
  if constexpr (tail != 0) {
    const simd::f32 last = v.get(V::fragments - 1);
    lanes = op(lanes, simd::select(simd::iota() < tail, last, simd::splat(neutral)));
  }
  return simd::reduce(lanes, op);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
