// Dropout of consecutive elements by Philox draws; problem.h states which draw decides which
// element. Written on fragments of any width.
#pragma once

#include <cstdint>
#include <cstring>

#include "hk/kernels/norm/philox.h"
#include "hk/kernels/norm/problem.h"
#include "hk/kernels/norm/statistics.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace norm {

// The random words of counters (low, high, 0, 0), one to each 32-bit lane. Even and odd lanes are
// drawn apart, as the 64-bit lanes that they share.
HK_INLINE void generate(fragment::u32 (&words)[4], fragment::u32 low, fragment::u32 high,
                        philox::key key) {
  using fragment::u32, fragment::u64;
  u64 even[4] = {(u64)low, (u64)high, u64{}, u64{}};
  u64 odd[4] = {(u64)low >> 32, (u64)high >> 32, u64{}, u64{}};
  philox::generate(even, key);
  philox::generate(odd, key);
  for (int i = 0; i < 4; ++i) words[i] = (u32)((even[i] & 0xffffffffu) | (odd[i] << 32));
}

// Draws for four fragments of consecutive elements: draws[i] lane l is element (i lanes + l) of
// those from 4 * group on. A group's words lie in one lane of four registers, and go to four lanes
// of one register by transposing 4 x 4 blocks: lane l therefore takes the group whose elements lie
// in fragment l % 4 from lane l / 4 * 4 on.
HK_INLINE void draw(fragment::u32 (&draws)[4], std::uint64_t group, philox::key key) {
  using fragment::u32;
  constexpr std::uint32_t groups_of_a_fragment = fragment::lanes / 4;
  const u32 lane = (u32)fragment::iota();
  const u32 first = fragment::splat(static_cast<std::uint32_t>(group));
  const u32 low = first + (lane & 3u) * groups_of_a_fragment + (lane >> 2);
  const u32 carry = (u32)(low < first) & 1u;
  u32 words[4];
  generate(words, low, fragment::splat(static_cast<std::uint32_t>(group >> 32)) + carry, key);
  fragment::f32 registers[4];
  std::memcpy(registers, words, sizeof(words));
  fragment::transpose_blocks(registers);
  std::memcpy(draws, registers, sizeof(registers));
}

// Dropout of a row, in pieces from left to right.
class dropout {
 public:
  // From flat element `first` of [R, H] on.
  HK_INLINE dropout(const norm_problem& problem, std::int64_t first)
      : key_{{problem.seed[0], problem.seed[1]}},
        group_(static_cast<std::uint64_t>(first) / 4),
        skip_(static_cast<int>(first % 4)),
        drops_all_(problem.dropout_rate >= 1.0f),
        scale_(drops_all_ ? 0.0f : 1.0f / (1.0f - problem.dropout_rate)),
        threshold_(drops_all_ ? 0u : static_cast<std::uint32_t>(problem.dropout_rate * 0x1p32f)) {
    if (skip_ != 0) refill();
  }

  // v[j] = kept ? v[j] / (1 - rate) : 0, for the next `piece` elements.
  HK_INLINE void apply(vec& v) {
    fragment::u32 draws[4];
    next(draws);
    for (int i = 0; i < 4; ++i) {
      const fragment::mask32 kept = (draws[i] >= threshold_) & -static_cast<int>(!drops_all_);
      v.set(i, fragment::select(kept, v.get(i) * scale_, fragment::f32{}));
    }
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
  bool drops_all_;
  float scale_;
  std::uint32_t threshold_;
  alignas(64) std::uint32_t pieces_[2][piece] = {};
};

}  // namespace norm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
