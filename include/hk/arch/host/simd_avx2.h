// AVX2 with FMA and F16C: eight floats to a register, sixteen registers.
#pragma once

#include <cstdint>

#include "hk/core/element.h"

#if defined(HK_EMULATE_SIMD)
#include <simde/x86/avx2.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#else
#include <immintrin.h>
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace simd {

inline constexpr int lanes = 8;
using f32 = float __attribute__((vector_size(32)));
using i32 = std::int32_t __attribute__((vector_size(32)));
using u32 = std::uint32_t __attribute__((vector_size(32)));
using u64 = std::uint64_t __attribute__((vector_size(32)));

HK_INLINE f32 fma(f32 a, f32 b, f32 c) { return (f32)_mm256_fmadd_ps(a, b, c); }
HK_INLINE f32 maximum(f32 a, f32 b) { return (f32)_mm256_max_ps(a, b); }
HK_INLINE f32 minimum(f32 a, f32 b) { return (f32)_mm256_min_ps(a, b); }

HK_INLINE u64 multiply_even(u32 a, u32 b) { return (u64)_mm256_mul_epu32((__m256i)a, (__m256i)b); }

HK_INLINE f32 widen(const bf16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return (f32)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
}

HK_INLINE f32 widen(const f16* p) {
  return (f32)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// The lanes of x rounded to bf16, as 32-bit integers. Rounds by adding 0x7fff plus the bit that
// will be the last one; NaN is made quiet instead.
HK_INLINE __m256i round_to_bf16(f32 x) {
  const u32 bits = (u32)x;
  const u32 rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const u32 chosen = (x != x) ? (bits | 0x400000) : rounded;
  return _mm256_srli_epi32((__m256i)chosen, 16);
}

HK_INLINE void narrow(bf16* p, f32 x) {
  const __m256i halves = round_to_bf16(x);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), packed);
}

// Two registers at a time: packing then takes half the instructions. It works on 128-bit halves, so
// the second and third quarters of its result trade places.
HK_INLINE void narrow(bf16* p, f32 x, f32 y) {
  const __m256i packed = _mm256_packus_epi32(round_to_bf16(x), round_to_bf16(y));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

HK_INLINE void narrow(f16* p, f32 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

}  // namespace simd
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
