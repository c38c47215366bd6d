// Reductions of tiles along rows or columns into vectors, and of vectors to a scalar, in f32. The
// order of the terms depends on nothing but the tile's size, so results are reproducible.
// docs/tiles.md gives each as a formula.
#pragma once

#include "hk/ops/maps.h"
#include "hk/types/register_tile.h"
#include "hk/types/register_vector.h"
#if HK_ARCH_HOST
#include "hk/arch/host/reductions.h"
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// dst[r] = max over c of src[r][c]; with `init`, also of init[r]. dst may be init.
template <register_vector D, register_tile S>
HK_INLINE void row_max(D& dst, const S& src) {
  row_reduce(dst, src, fn::max, [](int) { return fragment::splat(-__builtin_inff()); });
}
template <register_vector D, register_tile S>
HK_INLINE void row_max(D& dst, const S& src, const D& init) {
  row_reduce(dst, src, fn::max, [&](int i) { return init.get(i); });
}

// dst[r] = sum over c of src[r][c]; with `init`, plus init[r]. dst may be init.
template <register_vector D, register_tile S>
HK_INLINE void row_sum(D& dst, const S& src) {
  row_reduce(dst, src, fn::add, [](int) { return fragment::splat(0.0f); });
}
template <register_vector D, register_tile S>
HK_INLINE void row_sum(D& dst, const S& src, const D& init) {
  row_reduce(dst, src, fn::add, [&](int i) { return init.get(i); });
}

// dst[c] = max over r of src[r][c], over the rows in use.
template <register_vector D, register_tile S>
HK_INLINE void col_max(D& dst, const S& src) {
  neg_infinity(dst);
  col_reduce(dst, src, fn::max);
}

// dst[c] = sum over r of src[r][c], over the rows in use; with `init`, plus init[c].
template <register_vector D, register_tile S>
HK_INLINE void col_sum(D& dst, const S& src) {
  zero(dst);
  col_reduce(dst, src, fn::add);
}
template <register_vector D, register_tile S>
HK_INLINE void col_sum(D& dst, const S& src, const D& init) {
  copy(dst, init);
  col_reduce(dst, src, fn::add);
}

// The sum, the maximum and the minimum of a vector's elements.
template <register_vector V>
HK_INLINE float sum(const V& v) {
  return vector_reduce(v, fn::add, 0.0f);
}
template <register_vector V>
HK_INLINE float max(const V& v) {
  return vector_reduce(v, fn::max, -__builtin_inff());
}
template <register_vector V>
HK_INLINE float min(const V& v) {
  return vector_reduce(v, fn::min, __builtin_inff());
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
