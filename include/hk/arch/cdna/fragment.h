// What elementwise functions are written with, for a lane's registers: floats. Device code only.
#pragma once

#include "hk/arch/cdna/instructions.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace fragment {

HK_INLINE float splat(float x) { return x; }
HK_INLINE float select(bool condition, float x, float y) { return condition ? x : y; }
HK_INLINE float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
HK_INLINE float exp2(float x) { return __builtin_amdgcn_exp2f(x); }
HK_INLINE float maximum(float x, float y) { return x > y ? x : y; }
HK_INLINE float minimum(float x, float y) { return x < y ? x : y; }

// Fragments 2 i and 2 i + 1 of a vector are adjacent elements of one lane.
HK_INLINE void deinterleave(float& even, float& odd, float first, float second) {
  even = first;
  odd = second;
}
HK_INLINE void interleave(float& first, float& second, float even, float odd) {
  first = even;
  second = odd;
}

}  // namespace fragment
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
