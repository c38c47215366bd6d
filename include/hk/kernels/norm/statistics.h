// Sums and statistics of rows in f32, whatever the rows' length and offset.
#pragma once

#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/norm/problem.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace norm {

// What a row is worked on in: four fragments, so that as many sums run side by side.
inline constexpr int piece = 4 * fragment::lanes;
using vec = rv<float, piece>;

// Sums of one quantity each over a row, one sum per element of the pieces.
template <int Sums>
struct partial_sums {
  vec of[Sums];

  HK_INLINE void clear() {
    for (vec& v : of) zero(v);
  }
  HK_INLINE void add_all(const partial_sums& other) {
    for (int i = 0; i < Sums; ++i) add(of[i], of[i], other.of[i]);
  }
};

// totals[i] = sum over the row of what term(at, count, sums) adds to sums.of[i] for each piece.
// Sums start anew after every 64 pieces and are added up apart, so that rounding errors stay small
// in a row of any length.
template <int Sums, class Term>
HK_INLINE void sum_row(float (&totals)[Sums], std::int64_t cols, Term term) {
  constexpr std::int64_t stretch = 64 * piece;
  partial_sums<Sums> row;
  row.clear();
  for (std::int64_t first = 0; first < cols; first += stretch) {
    partial_sums<Sums> sums;
    sums.clear();
    const std::int64_t end = piece_end(cols, first, stretch);
    for_each_piece<piece>(end - first, [&](std::int64_t at, int count)
                                           HK_LAMBDA_INLINE { term(first + at, count, sums); });
    row.add_all(sums);
  }
  for (int i = 0; i < Sums; ++i) totals[i] = sum(row.of[i]);
}

// What normalises a row: y = (h - mean) * rstd.
struct statistics {
  float mean;
  float rstd;
};

// mean(h^2) of the row h[0 .. cols), for rms.
template <element T>
HK_INLINE statistics rms_statistics(const T* h, std::int64_t cols, float epsilon) {
  float total[1];
  sum_row(total, cols, [&](std::int64_t at, int count, auto& sums) HK_LAMBDA_INLINE {
    vec v;
    load(v, h + at, count);
    mul_add(sums.of[0], v, v, sums.of[0]);
  });
  return {0.0f, 1.0f / __builtin_sqrtf(total[0] / static_cast<float>(cols) + epsilon)};
}

// The mean in a first pass; in a second pass the mean square of the differences from it, and their
// mean, which is what rounding took from the first: an error in the mean would otherwise become one
// of the variance where the row is nearly constant.
template <element T>
HK_INLINE statistics layer_statistics(const T* h, std::int64_t cols, float epsilon) {
  const float size = static_cast<float>(cols);
  float total[1];
  sum_row(total, cols, [&](std::int64_t at, int count, auto& sums) HK_LAMBDA_INLINE {
    vec v;
    load(v, h + at, count);
    add(sums.of[0], sums.of[0], v);
  });
  const float mean = total[0] / size;
  float moments[2];
  sum_row(moments, cols, [&](std::int64_t at, int count, auto& sums) HK_LAMBDA_INLINE {
    vec v;
    load(v, h + at, count);
    shift(v, v, -mean);
    if (count < piece) right_fill(v, count, 0.0f);
    add(sums.of[0], sums.of[0], v);
    mul_add(sums.of[1], v, v, sums.of[1]);
  });
  const float correction = moments[0] / size;
  const float square = moments[1] / size;
  // Where squares overflow, as they do for rounding errors of 1e30, rstd is 0 and not a difference
  // of infinities.
  const float variance = square == __builtin_inff() ? square : square - correction * correction;
  return {mean + correction, 1.0f / __builtin_sqrtf((variance < 0.0f ? 0.0f : variance) + epsilon)};
}

}  // namespace norm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
