// Plain C++: four floats to a vector that the compiler lowers to whatever the target has.
#pragma once

#include <cstdint>

#include "hk/core/element.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace simd {

inline constexpr int lanes = 4;
using f32 = float __attribute__((vector_size(16)));
using i32 = std::int32_t __attribute__((vector_size(16)));
using u32 = std::uint32_t __attribute__((vector_size(16)));
using u64 = std::uint64_t __attribute__((vector_size(16)));

HK_INLINE f32 fma(f32 a, f32 b, f32 c) { return a * b + c; }
HK_INLINE f32 maximum(f32 a, f32 b) { return a > b ? a : b; }
HK_INLINE f32 minimum(f32 a, f32 b) { return a < b ? a : b; }

HK_INLINE u64 multiply_even(u32 a, u32 b) {
  return ((u64)a & 0xffffffffu) * ((u64)b & 0xffffffffu);
}

template <class T>
HK_INLINE f32 widen(const T* p) {
  return f32{to_float(p[0]), to_float(p[1]), to_float(p[2]), to_float(p[3])};
}

template <class T>
HK_INLINE void narrow(T* p, f32 x) {
  for (int i = 0; i < lanes; ++i) p[i] = from_float<T>(x[i]);
}

}  // namespace simd
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
