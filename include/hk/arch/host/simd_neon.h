// NEON on 64-bit Arm: four floats to a register, thirty-two registers.
#pragma once

#include <cstdint>

#include "hk/core/element.h"

#if defined(HK_EMULATE_SIMD)
#include <simde/arm/neon.h>
#else
#include <arm_neon.h>
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace simd {

inline constexpr int lanes = 4;
using f32 = float __attribute__((vector_size(16)));
using i32 = std::int32_t __attribute__((vector_size(16)));
using u32 = std::uint32_t __attribute__((vector_size(16)));
using u64 = std::uint64_t __attribute__((vector_size(16)));

HK_INLINE f32 fma(f32 a, f32 b, f32 c) {
  return (f32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
// Selections rather than vmaxq and vminq, which return NaN whichever operand holds it.
HK_INLINE f32 maximum(f32 a, f32 b) { return a > b ? a : b; }
HK_INLINE f32 minimum(f32 a, f32 b) { return a < b ? a : b; }

HK_INLINE u64 multiply_even(u32 a, u32 b) {
  return (u64)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
}

HK_INLINE f32 widen(const bf16* p) {
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const std::uint16_t*>(p));
  return (f32)vshll_n_u16(bits, 16);
}

HK_INLINE f32 widen(const f16* p) {
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const std::uint16_t*>(p));
  return (f32)vcvt_f32_f16(vreinterpret_f16_u16(bits));
}

// Rounds by adding 0x7fff plus the bit that will be the last one; NaN is made quiet instead.
HK_INLINE void narrow(bf16* p, f32 x) {
  const u32 bits = (u32)x;
  const u32 rounded = bits + 0x7fff + ((bits >> 16) & 1);
  const u32 chosen = (x != x) ? (bits | 0x400000) : rounded;
  vst1_u16(reinterpret_cast<std::uint16_t*>(p), vshrn_n_u32((uint32x4_t)chosen, 16));
}

HK_INLINE void narrow(f16* p, f32 x) {
  vst1_u16(reinterpret_cast<std::uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)x)));
}

}  // namespace simd
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
