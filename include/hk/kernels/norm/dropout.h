// Dropout of consecutive elements by Philox draws; problem.h states which draw decides which
// element. Written on fragments of any width.
#pragma once

#include <cstdint>
#include <cstring>

#include "hk/kernels/norm/problem.h"
#include "hk/kernels/norm/statistics.h"
#include "hk/kernels/random/dropout.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace norm {

// Draws for four fragments of consecutive elements: draws[i] lane l is element (i lanes + l) of
// those from 4 * group on, and groups count over two words of the counter.
HK_INLINE void draw(fragment::u32 (&draws)[4], std::uint64_t group, philox::key key) {
  using fragment::u32;
  const u32 first = fragment::splat(static_cast<std::uint32_t>(group));
  const u32 low = first + random::group_of_lane();
  const u32 carry = (u32)(low < first) & 1u;
  draws[0] = low;
  draws[1] = fragment::splat(static_cast<std::uint32_t>(group >> 32)) + carry;
  draws[2] = draws[3] = u32{};
  random::draw(draws, key);
}

// Dropout of a row, in pieces from left to right.
class dropout {
 public:
  // From element `first` on; `seed` is two words.
  HK_INLINE dropout(const std::uint32_t* seed, float rate, std::uint64_t first)
      : key_{{seed[0], seed[1]}},
        group_(first / 4),
        skip_(static_cast<int>(first % 4)),
        rule_(rate) {
    if (skip_ != 0) refill();
  }

  // v[j] = kept ? v[j] / (1 - rate) : 0, for the next `piece` elements.
  HK_INLINE void apply(vec& v) {
    fragment::u32 draws[4];
    next(draws);
    for (int i = 0; i < 4; ++i)
      v.set(i, fragment::select(rule_.keeps(draws[i]), v.get(i) * rule_.scale, fragment::f32{}));
  }

 private:
  // A row of a length that isn't a multiple of 4 starts inside a group: its draws then straddle two
  // pieces, of which the latter is kept for the next call.
  HK_INLINE void next(fragment::u32 (&draws)[4]) {
    if (skip_ == 0) {
      draw(draws, group_, key_);
      group_ += piece / 4;
      return;
    }
    std::memcpy(pieces_[0], pieces_[1], sizeof(pieces_[0]));
    refill();
    std::memcpy(draws, pieces_[0] + skip_, sizeof(draws));
  }

  HK_INLINE void refill() {
    fragment::u32 draws[4];
    draw(draws, group_, key_);
    group_ += piece / 4;
    std::memcpy(pieces_[1], draws, sizeof(draws));
  }

  philox::key key_;
  std::uint64_t group_;
  int skip_;
  random::dropout_rule rule_;
  alignas(64) std::uint32_t pieces_[2][piece];  // set where skip_ != 0
};

// The dropout of a row of [R, H], which belongs to `group`.
HK_INLINE dropout dropout_of_row(const norm_problem& problem, std::int64_t row,
                                 std::int64_t group) {
  const std::uint32_t* const origin = problem.origin.of(group);
  const std::uint64_t first_row = origin[0] | std::uint64_t{origin[1]} << 32;
  const auto row_of_group = static_cast<std::uint64_t>(row - group * problem.group_rows);
  return {problem.seed.of(group), problem.dropout_rate,
          (first_row + row_of_group) * static_cast<std::uint64_t>(problem.cols)};
}

}  // namespace norm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
