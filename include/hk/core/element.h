// The element types bf16 and f16, their scalar conversions, and the concepts that tiles are made
// of.
//
// Conversions from float round to nearest, ties to even; NaN stays NaN; overflow gives infinity.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>

#include "hk/core/config.h"
#include "hk/core/dtype.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// Upper half of an IEEE float: 1 sign, 8 exponent, 7 mantissa bits.
struct bf16 {
  std::uint16_t bits;
};

// IEEE half: 1 sign, 5 exponent, 10 mantissa bits.
struct f16 {
  std::uint16_t bits;
};

constexpr HK_INLINE float to_float(float x) { return x; }

constexpr HK_INLINE float to_float(bf16 x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

// A half's exponent field is rebiased by multiplying by 2^112, which also normalises subnormals;
// infinity and NaN (all exponent bits set) are then given float's exponent.
constexpr HK_INLINE float to_float(f16 x) {
  const std::uint32_t magnitude = (x.bits & 0x7fffu) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const bool special = magnitude >= (0x7c00u << 13);
  const std::uint32_t bits =
      special ? magnitude | 0x7f800000u : std::bit_cast<std::uint32_t>(scaled);
  return std::bit_cast<float>(bits | sign);
}

constexpr HK_INLINE bf16 to_bf16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

// Subnormal halves are rounded by adding 0.5, whose last mantissa bit then weighs 2^-24.
constexpr HK_INLINE f16 to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint16_t sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {
        static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  const std::uint32_t rounded = magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u);
  return {static_cast<std::uint16_t>(sign | rounded >> 13)};
}

// Size of one element in bytes.
constexpr HK_INLINE int size_in_bytes(dtype type) { return type == dtype::f32 ? 4 : 2; }

template <class T>
struct element_traits;

template <>
struct element_traits<float> {
  static constexpr dtype type = dtype::f32;
  static constexpr HK_INLINE float from_float(float x) { return x; }
};

template <>
struct element_traits<bf16> {
  static constexpr dtype type = dtype::bf16;
  static constexpr HK_INLINE bf16 from_float(float x) { return to_bf16(x); }
};

template <>
struct element_traits<f16> {
  static constexpr dtype type = dtype::f16;
  static constexpr HK_INLINE f16 from_float(float x) { return to_f16(x); }
};

template <class T>
concept element = std::same_as<T, float> || std::same_as<T, bf16> || std::same_as<T, f16>;

// float -> T, rounded once.
template <element T>
constexpr HK_INLINE T from_float(float x) {
  return element_traits<T>::from_float(x);
}

// Calls f with a null pointer of the element type that `type` names: turns a run-time dtype into a
// compile-time one, as in visit(type, [&]<element T>(T*) { kernel<T>(problem); }).
template <class F>
HK_INLINE decltype(auto) visit(dtype type, F&& f) {
  if (type == dtype::bf16) return f(static_cast<bf16*>(nullptr));
  if (type == dtype::f16) return f(static_cast<f16*>(nullptr));
  return f(static_cast<float*>(nullptr));
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
