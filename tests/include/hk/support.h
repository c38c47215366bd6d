// What the tests of the tile library share: element types in turn, memory with guards around it,
// tiles filled from a formula, and a second kind of register tile.
#pragma once

#include <cstring>
#include <limits>
#include <vector>

#include "hk/hk.h"
#include "tests/unit.h"

namespace unit {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// f.operator()<T>() for every element type.
template <class F>
void for_each_element(F f) {
  f.template operator()<float>();
  f.template operator()<hk::bf16>();
  f.template operator()<hk::f16>();
}

// x rounded to T and widened again.
template <hk::element T>
float rounded(float x) {
  return hk::to_float(hk::from_float<T>(x));
}

// Whether two floats are the same number: NaN is NaN, and zeros differ by their sign.
inline bool same(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

// `count` elements between guards. All bytes start as 0xff: NaN in every element type, so that what
// should not have been read shows up in results, and what should not have been written shows up in
// intact().
template <class T>
class guarded {
 public:
  explicit guarded(std::size_t count) : count_(count), memory_(count + 2 * guard) {
    std::memset(memory_.data(), 0xff, memory_.size() * sizeof(T));
  }

  T* data() { return memory_.data() + guard; }
  T& operator[](std::size_t i) { return data()[i]; }

  // Whether the element at i, which may lie in a guard, holds what it started with.
  bool untouched(std::ptrdiff_t i) const {
    unsigned char start[sizeof(T)];
    std::memset(start, 0xff, sizeof(start));
    return std::memcmp(memory_.data() + guard + i, start, sizeof(T)) == 0;
  }

  bool intact() const {
    const std::ptrdiff_t count = static_cast<std::ptrdiff_t>(count_);
    for (std::ptrdiff_t i = 1; i <= static_cast<std::ptrdiff_t>(guard); ++i)
      if (!untouched(-i) || !untouched(count + i - 1)) return false;
    return true;
  }

 private:
  static constexpr std::size_t guard = 64;
  std::size_t count_;
  std::vector<T> memory_;
};

// A matrix of normally distributed numbers inside NaN: rows are `stride` elements apart.
template <hk::element T>
struct matrix {
  matrix(int rows, int cols, int stride, std::uint32_t seed)
      : rows(rows), cols(cols), stride(stride), memory(static_cast<std::size_t>(rows) * stride) {
    const std::vector<T> values = random_array<T>(static_cast<std::size_t>(rows) * cols, seed);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) memory[index(r, c)] = values[r * cols + c];
  }

  std::size_t index(int r, int c) const { return static_cast<std::size_t>(r) * stride + c; }
  float at(int r, int c) { return hk::to_float(memory[index(r, c)]); }
  // The element, and zero outside.
  float padded(int r, int c) { return r < rows && c < cols ? at(r, c) : 0.0f; }
  hk::plane<T> plane() { return {memory.data(), rows, cols, stride}; }

  int rows, cols, stride;
  guarded<T> memory;
};

// Tile[r][c] = f(r, c) for all rows, in use or not.
template <hk::element T, int R, int C, class F>
void set_all(hk::rt<T, R, C>& tile, F f) {
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) tile.row(r)[c] = hk::from_float<T>(f(r, c));
}
template <int N, class F>
void set_all(hk::rv<float, N>& v, F f) {
  for (int j = 0; j < N; ++j) v[j] = f(j);
}

// How many elements differ from f(r, c).
template <hk::element T, int R, int C, class F>
int differences(const hk::rt<T, R, C>& tile, F f) {
  int count = 0;
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) count += !same(hk::to_float(tile.row(r)[c]), f(r, c));
  return count;
}
template <int N, class F>
int differences(const hk::rv<float, N>& v, F f) {
  int count = 0;
  for (int j = 0; j < N; ++j) count += !same(v[j], f(j));
  return count;
}

// A register tile whose fragments run down the columns, as those of a GPU's matrix accumulator do:
// shows that maps and masks rely on nothing but what types/register_tile.h asks of a tile.
template <int R, int C>
struct column_tile {
  static constexpr int lanes = hk::simd::lanes;
  static_assert(R % lanes == 0);
  using T = float;
  static constexpr int rows_max = R;
  static constexpr int cols = C;

  struct place {
    int block, col;
  };

  int rows() const { return R; }
  template <class F>
  void each(F f) const {
    for (int c = 0; c < C; ++c)
      for (int b = 0; b < R / lanes; ++b) f(place{b, c});
  }
  hk::simd::f32 get(place at) const { return data[at.col][at.block]; }
  void set(place at, hk::simd::f32 x) { data[at.col][at.block] = x; }
  static hk::simd::i32 row_of(place at) {
    return hk::simd::splat(at.block * lanes) + hk::simd::iota();
  }
  static int col_of(place at) { return at.col; }
  static hk::simd::f32 row_value(const auto& v, place at) { return v.get(at.block); }
  static hk::simd::f32 col_value(const auto& v, place at) { return hk::simd::splat(v[at.col]); }

  float at(int r, int c) const { return data[c][r / lanes][r % lanes]; }

  hk::simd::f32 data[C][R / lanes];
};
template <int R, int C, class F>
void set_all(column_tile<R, C>& tile, F f) {
  for (int c = 0; c < C; ++c)
    for (int r = 0; r < R; ++r) tile.data[c][r / hk::simd::lanes][r % hk::simd::lanes] = f(r, c);
}
template <int R, int C, class F>
int differences(const column_tile<R, C>& tile, F f) {
  int count = 0;
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) count += !same(tile.at(r, c), f(r, c));
  return count;
}

}  // namespace unit
