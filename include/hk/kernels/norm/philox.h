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

using fragment::multiply_high;

HK_INLINE std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(a) * b >> 32);
}

struct key {
  std::uint32_t word[2];
};

// Replaces the four words of a counter by the random words of that counter. A Word is a u32, or a
// fragment of them: then each lane has a counter of its own.
template <class Word>
HK_INLINE void generate(Word (&c)[4], key k) {
  constexpr std::uint32_t multiplier[2] = {0xd2511f53u, 0xcd9e8d57u};
  constexpr std::uint32_t weyl[2] = {0x9e3779b9u, 0xbb67ae85u};
  for (int round = 0; round < 10; ++round) {
    const Word high0 = multiply_high(c[0], multiplier[0]);
    const Word high1 = multiply_high(c[2], multiplier[1]);
    const Word low0 = c[0] * multiplier[0];
    const Word low1 = c[2] * multiplier[1];
    c[0] = high1 ^ c[1] ^ k.word[0];
    c[1] = low1;
    c[2] = high0 ^ c[3] ^ k.word[1];
    c[3] = low0;
    k.word[0] += weyl[0];
    k.word[1] += weyl[1];
  }
}

}  // namespace philox
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
