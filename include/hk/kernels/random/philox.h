// Philox 4x32-10: a counter-based random generator. Four words of counter and two of key give four
// random words, with nothing carried from one counter to the next, so that any element's draw can
// be found by itself, in any order and on any architecture.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011,
// doi:10.1145/2063384.2063405.
#pragma once

#include <cstdint>

#include "hk/core/config.h"
#include "hk/types/register_vector.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace philox {

struct key {
  std::uint32_t word[2];
};

// The 64-bit products of the lower halves of a and the number b.
HK_INLINE std::uint64_t product(std::uint64_t a, std::uint32_t b) { return (a & 0xffffffffu) * b; }
HK_INLINE fragment::u64 product(fragment::u64 a, std::uint32_t b) {
  return fragment::multiply_even((fragment::u32)a, fragment::splat(b));
}

// Replaces the four words of a counter by the random words of that counter. A Word is a u64 whose
// lower half is the word, or a fragment of them: then each lane has a counter of its own. Upper
// halves may hold anything, before and after: the multiplication ignores them, and so needs no
// masks.
template <class Word>
HK_INLINE void generate(Word (&c)[4], key k) {
  constexpr std::uint32_t multiplier[2] = {0xd2511f53u, 0xcd9e8d57u};
  constexpr std::uint32_t weyl[2] = {0x9e3779b9u, 0xbb67ae85u};
  for (int round = 0; round < 10; ++round) {
    const Word first = product(c[0], multiplier[0]);
    const Word second = product(c[2], multiplier[1]);
    c[0] = (c[1] ^ k.word[0]) ^ (second >> 32);
    c[1] = second;
    c[2] = (c[3] ^ k.word[1]) ^ (first >> 32);
    c[3] = first;
    k.word[0] += weyl[0];
    k.word[1] += weyl[1];
  }
}

}  // namespace philox
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
