// Which elements dropout keeps: those whose Philox draw reaches a threshold. Written on fragments
// of any width; problem.h of each kernel states which draw decides which element.
#pragma once

#include <cstdint>
#include <cstring>

#include "hk/kernels/random/philox.h"
#include "hk/types/register_vector.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace random {

// Elements are kept when draw >= floor(rate * 2^32), and scaled by 1 / (1 - rate); a rate of 1
// drops everything.
struct dropout_rule {
  bool drops_all;
  float scale;
  std::uint32_t threshold;

  explicit HK_INLINE dropout_rule(float rate)
      : drops_all(rate >= 1.0f),
        scale(drops_all ? 0.0f : 1.0f / (1.0f - rate)),
        threshold(drops_all ? 0u : static_cast<std::uint32_t>(rate * 0x1p32f)) {}

  // All ones where the element of that draw is kept.
  HK_INLINE fragment::mask32 keeps(fragment::u32 draw) const {
    return (draw >= threshold) & -static_cast<int>(!drops_all);
  }
};

// Replaces the four words of each lane's counter by its random words. Even and odd lanes are drawn
// apart, as the 64-bit lanes that they share.
HK_INLINE void generate(fragment::u32 (&words)[4], philox::key key) {
  using fragment::u32, fragment::u64;
  u64 even[4], odd[4];
  for (int i = 0; i < 4; ++i) {
    even[i] = (u64)words[i];
    odd[i] = (u64)words[i] >> 32;
  }
  philox::generate(even, key);
  philox::generate(odd, key);
  for (int i = 0; i < 4; ++i) words[i] = (u32)((even[i] & 0xffffffffu) | (odd[i] << 32));
}

// A group is the four consecutive elements that one counter's words decide. A group's words lie in
// one lane of four registers, and go to four lanes of one register by transposing 4 x 4 blocks: for
// that lane l takes the group whose elements lie in fragment l % 4 from lane l / 4 * 4 on.
HK_INLINE fragment::u32 group_of_lane() {
  constexpr std::uint32_t groups_of_a_fragment = fragment::lanes / 4;
  const fragment::u32 lane = (fragment::u32)fragment::iota();
  return (lane & 3u) * groups_of_a_fragment + (lane >> 2);
}

// Draws for four fragments of consecutive elements: lane l of words[i] becomes the draw of element
// i * lanes + l of those that start with a group, where lane l held the counter of group
// group_of_lane()[l] of them.
HK_INLINE void draw(fragment::u32 (&words)[4], philox::key key) {
  generate(words, key);
  fragment::f32 registers[4];
  std::memcpy(registers, words, sizeof(words));
  fragment::transpose_blocks(registers);
  std::memcpy(words, registers, sizeof(registers));
}

}  // namespace random
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
