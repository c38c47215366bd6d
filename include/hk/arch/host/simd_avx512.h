// AVX-512 (F and BW), and its bf16 instructions where the target has them: sixteen floats to a
// register, thirty-two registers.
#pragma once

#include <cstdint>

#include "hk/core/element.h"

#if defined(HK_EMULATE_SIMD)
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#else
#include <immintrin.h>
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace simd {

inline constexpr int lanes = 16;
using f32 = float __attribute__((vector_size(64)));
using i32 = std::int32_t __attribute__((vector_size(64)));
using u32 = std::uint32_t __attribute__((vector_size(64)));
using u64 = std::uint64_t __attribute__((vector_size(64)));

// Zero-masked forms: what GCC 12 makes of the plain ones reads an uninitialised register, and
// warns.
inline constexpr __mmask16 all_lanes = 0xffff;

HK_INLINE f32 fma(f32 a, f32 b, f32 c) { return (f32)_mm512_fmadd_ps(a, b, c); }
HK_INLINE f32 maximum(f32 a, f32 b) { return (f32)_mm512_maskz_max_ps(all_lanes, a, b); }
HK_INLINE f32 minimum(f32 a, f32 b) { return (f32)_mm512_maskz_min_ps(all_lanes, a, b); }

HK_INLINE u64 multiply_even(u32 a, u32 b) {
  return (u64)_mm512_maskz_mul_epu32(0xff, (__m512i)a, (__m512i)b);
}

HK_INLINE f32 widen(const bf16* p) {
  using u16 = std::uint16_t __attribute__((vector_size(32)));
  u16 bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  return (f32)(__builtin_convertvector(bits, i32) << 16);
}

// In two halves of eight, which the F16C instructions take.
HK_INLINE f32 widen(const f16* p) {
  const __m128i* halves = reinterpret_cast<const __m128i*>(p);
  const __m256 low = _mm256_cvtph_ps(_mm_loadu_si128(halves));
  const __m256 high = _mm256_cvtph_ps(_mm_loadu_si128(halves + 1));
  f32 x;
  __builtin_memcpy(&x, &low, sizeof(low));
  __builtin_memcpy(reinterpret_cast<char*>(&x) + sizeof(low), &high, sizeof(high));
  return x;
}

// Rounds by adding 0x7fff plus the bit that will be the last one; NaN is made quiet instead. (The
// conversion instruction of the bf16 extension flushes subnormals, so it isn't used here.)
HK_INLINE void narrow(bf16* p, f32 x) {
  using u16 = std::uint16_t __attribute__((vector_size(32)));
  const u32 bits = (u32)x;
  const u32 rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const u32 chosen = (x != x) ? (bits | 0x400000) : rounded;
  const u16 halves = __builtin_convertvector(chosen >> 16, u16);
  __builtin_memcpy(p, &halves, sizeof(halves));
}

HK_INLINE void narrow(f16* p, f32 x) {
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  __m256 half[2];
  __builtin_memcpy(half, &x, sizeof(x));
  __m128i* to = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(to, _mm256_cvtps_ph(half[0], nearest));
  _mm_storeu_si128(to + 1, _mm256_cvtps_ph(half[1], nearest));
}

#if defined(HK_HOST_ISA_AVX512_BF16)
// c + a.even * b.even + a.odd * b.odd, where each 32-bit lane of a and b holds two bf16. Products
// and sums are f32; the instruction takes and gives subnormals as zero.
HK_INLINE f32 dot_pairs(i32 a, i32 b, f32 c) {
  return (f32)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
}
#endif

}  // namespace simd
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
