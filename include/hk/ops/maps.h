// Maps: operations on each element of a tile or a vector. dst may be a source. Values are computed
// in f32 and rounded to dst's type once. docs/tiles.md gives each as a formula.
#pragma once

#include "hk/types/register_tile.h"
#include "hk/types/register_vector.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// The elementwise functions, on fragments.
namespace fn {
inline constexpr auto copy = [](auto x) HK_LAMBDA_INLINE { return x; };
inline constexpr auto neg = [](auto x) HK_LAMBDA_INLINE { return -x; };
inline constexpr auto exp2 = [](auto x) HK_LAMBDA_INLINE { return fragment::exp2(x); };
inline constexpr auto add = [](auto x, auto y) HK_LAMBDA_INLINE { return x + y; };
inline constexpr auto sub = [](auto x, auto y) HK_LAMBDA_INLINE { return x - y; };
inline constexpr auto mul = [](auto x, auto y) HK_LAMBDA_INLINE { return x * y; };
inline constexpr auto div = [](auto x, auto y) HK_LAMBDA_INLINE { return x / y; };
inline constexpr auto mul_add = [](auto x, auto y, auto z)
                                    HK_LAMBDA_INLINE { return fragment::fma(x, y, z); };
inline constexpr auto max = [](auto x, auto y) HK_LAMBDA_INLINE { return fragment::maximum(x, y); };
inline constexpr auto min = [](auto x, auto y) HK_LAMBDA_INLINE { return fragment::minimum(x, y); };
}  // namespace fn

// dst = f(src, ...), fragment by fragment: the form that every other map is made of.
template <register_tile D, class F, register_tile... S>
HK_INLINE void map(D& dst, F f, const S&... src) {
  static_assert((same_shape<D, S> && ...), "an elementwise map needs tiles of the same shape");
  dst.each([&](auto at) HK_LAMBDA_INLINE { dst.set(at, f(src.get(at)...)); });
}

template <register_vector D, class F, register_vector... S>
HK_INLINE void map(D& dst, F f, const S&... src) {
  static_assert(((D::length == S::length) && ...),
                "an elementwise map needs vectors of the same length");
  for (int i = 0; i < D::fragments; ++i) dst.set(i, f(src.get(i)...));
}

// dst[r][c] = f(src[r][c], v[r])
template <register_tile D, register_tile S, register_vector V, class F>
HK_INLINE void map_row(D& dst, const S& src, const V& v, F f) {
  static_assert(same_shape<D, S>, "a row map needs tiles of the same shape");
  static_assert(V::length >= D::rows_max, "a row map needs a value for each row of the tile");
  dst.each([&](auto at) HK_LAMBDA_INLINE { dst.set(at, f(src.get(at), D::row_value(v, at))); });
}

// dst[r][c] = f(src[r][c], v[c])
template <register_tile D, register_tile S, register_vector V, class F>
HK_INLINE void map_col(D& dst, const S& src, const V& v, F f) {
  static_assert(same_shape<D, S>, "a column map needs tiles of the same shape");
  static_assert(V::length == D::cols, "a column map needs a value for each column of the tile");
  dst.each([&](auto at) HK_LAMBDA_INLINE { dst.set(at, f(src.get(at), D::col_value(v, at))); });
}

// dst[...] = value
template <register_tile D>
HK_INLINE void fill(D& dst, float value) {
  dst.each([&](auto at) HK_LAMBDA_INLINE { dst.set(at, fragment::splat(value)); });
}
template <register_vector D>
HK_INLINE void fill(D& dst, float value) {
  for (int i = 0; i < D::fragments; ++i) dst.set(i, fragment::splat(value));
}
HK_INLINE void zero(auto& dst) { fill(dst, 0.0f); }
HK_INLINE void one(auto& dst) { fill(dst, 1.0f); }
HK_INLINE void neg_infinity(auto& dst) { fill(dst, -__builtin_inff()); }
HK_INLINE void pos_infinity(auto& dst) { fill(dst, __builtin_inff()); }

// dst = f(src)
HK_INLINE void copy(auto& dst, const auto& src) { map(dst, fn::copy, src); }
HK_INLINE void neg(auto& dst, const auto& src) { map(dst, fn::neg, src); }
HK_INLINE void exp2(auto& dst, const auto& src) { map(dst, fn::exp2, src); }

// dst = x op y
HK_INLINE void add(auto& dst, const auto& x, const auto& y) { map(dst, fn::add, x, y); }
HK_INLINE void sub(auto& dst, const auto& x, const auto& y) { map(dst, fn::sub, x, y); }
HK_INLINE void mul(auto& dst, const auto& x, const auto& y) { map(dst, fn::mul, x, y); }
HK_INLINE void div(auto& dst, const auto& x, const auto& y) { map(dst, fn::div, x, y); }
HK_INLINE void max(auto& dst, const auto& x, const auto& y) { map(dst, fn::max, x, y); }
HK_INLINE void min(auto& dst, const auto& x, const auto& y) { map(dst, fn::min, x, y); }

// dst = x * y + z, rounded once where the hardware can
HK_INLINE void mul_add(auto& dst, const auto& x, const auto& y, const auto& z) {
  map(dst, fn::mul_add, x, y, z);
}

// dst = x * factor, dst = x + term, by a scalar
HK_INLINE void scale(auto& dst, const auto& x, float factor) {
  map(dst, [factor](auto e) HK_LAMBDA_INLINE { return e * factor; }, x);
}
HK_INLINE void shift(auto& dst, const auto& x, float term) {
  map(dst, [term](auto e) HK_LAMBDA_INLINE { return e + term; }, x);
}

// even[j] = src[2 j], odd[j] = src[2 j + 1]
template <register_vector D, register_vector S>
HK_INLINE void deinterleave(D& even, D& odd, const S& src) {
  static_assert(S::length == 2 * D::length && S::fragments == 2 * D::fragments,
                "a vector splits into two of half its length, made of whole fragments");
  for (int i = 0; i < D::fragments; ++i) {
    auto e = src.get(2 * i), o = e;
    fragment::deinterleave(e, o, src.get(2 * i), src.get(2 * i + 1));
    even.set(i, e);
    odd.set(i, o);
  }
}

// dst[2 j] = even[j], dst[2 j + 1] = odd[j]
template <register_vector D, register_vector S>
HK_INLINE void interleave(D& dst, const S& even, const S& odd) {
  static_assert(D::length == 2 * S::length && D::fragments == 2 * S::fragments,
                "a vector joins two of half its length, made of whole fragments");
  for (int i = 0; i < S::fragments; ++i) {
    auto low = even.get(i), high = low;
    fragment::interleave(low, high, even.get(i), odd.get(i));
    dst.set(2 * i, low);
    dst.set(2 * i + 1, high);
  }
}

// dst[r][c] = src[r][c] op v[r]
HK_INLINE void add_row(auto& dst, const auto& src, const auto& v) { map_row(dst, src, v, fn::add); }
HK_INLINE void sub_row(auto& dst, const auto& src, const auto& v) { map_row(dst, src, v, fn::sub); }
HK_INLINE void mul_row(auto& dst, const auto& src, const auto& v) { map_row(dst, src, v, fn::mul); }
HK_INLINE void div_row(auto& dst, const auto& src, const auto& v) { map_row(dst, src, v, fn::div); }

// dst[r][c] = src[r][c] op v[c]
HK_INLINE void add_col(auto& dst, const auto& src, const auto& v) { map_col(dst, src, v, fn::add); }
HK_INLINE void sub_col(auto& dst, const auto& src, const auto& v) { map_col(dst, src, v, fn::sub); }
HK_INLINE void mul_col(auto& dst, const auto& src, const auto& v) { map_col(dst, src, v, fn::mul); }
HK_INLINE void div_col(auto& dst, const auto& src, const auto& v) { map_col(dst, src, v, fn::div); }

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
