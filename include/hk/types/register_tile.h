// Register tiles: what a matrix instruction accumulates into, and what maps and reductions work on.
//
// rt<T, R, C> holds R x C elements (sizes are in elements) split into fragments, the pieces that
// one instruction works on. An architecture defines rt with
//   T, rows_max, cols      element type and size
//   rows()                 rows in use, at most rows_max
//   each(f)                calls f(at) for every fragment in use; `at` names the fragment
//   get(at), set(at, x)    a fragment's elements, as f32
//   row_of(at), col_of(at) the row and column of each element of a fragment, as integers or vectors
//                          of integers that compare elementwise
//   row_value(v, at)       from a vector v with a value per row: each element's row's value
//   col_value(v, at)       from a vector v with a value per column: each element's column's value
// so that maps and masks, written on these, are the same code everywhere.
#pragma once

#include <concepts>

#include "hk/core/config.h"
#if HK_ARCH_HOST
#include "hk/arch/host/register_tile.h"
#elif HK_ARCH_CDNA
#include "hk/arch/cdna/register_tile.h"
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

template <class V>
concept register_tile = requires(const V tile) {
  typename V::T;
  { V::rows_max } -> std::convertible_to<int>;
  { V::cols } -> std::convertible_to<int>;
  { tile.rows() } -> std::convertible_to<int>;
};

// Tiles that an elementwise operation may combine.
template <class A, class B>
concept same_shape =
    register_tile<A> && register_tile<B> && A::rows_max == B::rows_max && A::cols == B::cols;

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
