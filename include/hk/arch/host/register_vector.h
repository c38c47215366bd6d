// A register vector on the host: consecutive SIMD registers.
#pragma once

#include "hk/arch/host/simd.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// N floats; element j is lane j % lanes of fragment j / lanes. Lanes behind N are storage only.
template <element T_, int N>
struct rv {
  static_assert(std::same_as<T_, float>,
                "the host computes in f32: a register vector is float, loads and stores convert");
  static_assert(N > 0, "a register vector has at least one element");
  using T = T_;
  static constexpr int length = N;
  static constexpr int fragments = (N + simd::lanes - 1) / simd::lanes;

  HK_INLINE simd::f32 get(int i) const { return data[i]; }
  HK_INLINE void set(int i, simd::f32 x) { data[i] = x; }

  // The numbers of the elements of fragment i.
  static HK_INLINE simd::i32 index_of(int i) { return simd::splat(i * simd::lanes) + simd::iota(); }

  HK_INLINE float* elements() { return reinterpret_cast<float*>(data); }
  HK_INLINE const float* elements() const { return reinterpret_cast<const float*>(data); }
  HK_INLINE float& operator[](int j) { return elements()[j]; }
  HK_INLINE float operator[](int j) const { return elements()[j]; }

  simd::f32 data[fragments];
};

// N 32-bit integers, one per row or column of a tile, in the same lanes.
template <int N>
struct iv {
  static_assert(N > 0, "an index vector has at least one element");
  using T = std::int32_t;
  static constexpr int length = N;
  static constexpr int fragments = (N + simd::lanes - 1) / simd::lanes;

  HK_INLINE simd::i32 get(int i) const { return data[i]; }
  HK_INLINE void set(int i, simd::i32 x) { data[i] = x; }

  HK_INLINE T& operator[](int j) { return reinterpret_cast<T*>(data)[j]; }
  HK_INLINE T operator[](int j) const { return reinterpret_cast<const T*>(data)[j]; }

  simd::i32 data[fragments];
};

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
