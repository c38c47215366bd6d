// Masks: replacing the elements of a tile by their position. docs/tiles.md gives each as a formula.
#pragma once

#include "hk/types/register_tile.h"
#include "hk/types/register_vector.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// tile[r][c] = keep(r, c) ? tile[r][c] : value. `keep` compares integers or vectors of integers,
// whichever the architecture gives, so it is written with operators: r + shift >= c.
template <register_tile S, class Keep>
HK_INLINE void mask(S& tile, Keep keep, float value) {
  tile.each([&](auto at) HK_LAMBDA_INLINE {
    const auto kept = keep(S::row_of(at), S::col_of(at));
    tile.set(at, fragment::select(kept, tile.get(at), fragment::splat(value)));
  });
}

// v[j] = keep(j) ? v[j] : value.
template <register_vector V, class Keep>
HK_INLINE void mask(V& v, Keep keep, float value) {
  for (int i = 0; i < V::fragments; ++i)
    v.set(i, fragment::select(keep(V::index_of(i)), v.get(i), fragment::splat(value)));
}

// Lower triangle: keeps c <= r + diagonal.
template <register_tile S>
HK_INLINE void tril(S& tile, int diagonal, float value) {
  mask(tile, [=](auto r, auto c) { return c <= r + diagonal; }, value);
}

// Upper triangle: keeps c >= r + diagonal.
template <register_tile S>
HK_INLINE void triu(S& tile, int diagonal, float value) {
  mask(tile, [=](auto r, auto c) { return c >= r + diagonal; }, value);
}

// Causal: tril by the name used in attention; row r of the tile may see columns up to r + diagonal.
template <register_tile S>
HK_INLINE void make_causal(S& tile, int diagonal, float value) {
  tril(tile, diagonal, value);
}

// Replaces columns, or a vector's elements, from `first` on.
template <register_tile S>
HK_INLINE void right_fill(S& tile, int first, float value) {
  mask(tile, [=](auto, auto c) { return c < first; }, value);
}

template <register_vector V>
HK_INLINE void right_fill(V& v, int first, float value) {
  mask(v, [=](auto j) { return j < first; }, value);
}

// Replaces columns before `first`.
template <register_tile S>
HK_INLINE void left_fill(S& tile, int first, float value) {
  mask(tile, [=](auto, auto c) { return c >= first; }, value);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
