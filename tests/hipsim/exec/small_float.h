// Floating-point formats of 8 bits and fewer as tables of their values.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hipsim {

// How a format spends its largest exponent and the pattern of minus zero.
enum class SmallKind : uint8_t {
  kFinite,  // all patterns are numbers (fp6, fp4)
  kIeee,    // infinities and NaN (OCP E5M2)
  kOneNan,  // all exponent and mantissa bits set is NaN (OCP E4M3)
  kFnuz,    // minus zero is NaN, no infinity, bias one higher (gfx942)
};

struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  SmallKind kind;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
};

inline float DecodeSmall(const SmallFormat& format, uint32_t pattern) {
  const uint32_t sign = pattern >> (format.bits() - 1) & 1;
  const uint32_t magnitude = pattern & ((1u << (format.bits() - 1)) - 1);
  const uint32_t mantissa = magnitude & ((1u << format.mantissa_bits) - 1);
  const uint32_t exponent = magnitude >> format.mantissa_bits;
  const uint32_t largest = (1u << format.exponent_bits) - 1;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  if (format.kind == SmallKind::kFnuz && sign && magnitude == 0) return kNan;
  if (format.kind == SmallKind::kOneNan && magnitude == (1u << (format.bits() - 1)) - 1)
    return kNan;
  if (format.kind == SmallKind::kIeee && exponent == largest) {
    if (mantissa) return kNan;
    return sign ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  const int bias = (1 << (format.exponent_bits - 1)) - (format.kind == SmallKind::kFnuz ? 0 : 1);
  const uint32_t hidden = exponent ? 1u << format.mantissa_bits : 0;
  const int scale = static_cast<int>(exponent ? exponent : 1) - bias - format.mantissa_bits;
  const float value = std::ldexp(static_cast<float>(hidden | mantissa), scale);
  return sign ? -value : value;
}

using SmallTable = std::array<float, 256>;

inline SmallTable MakeSmallTable(const SmallFormat& format) {
  SmallTable table{};
  for (uint32_t i = 0; i < 1u << format.bits(); ++i) table[i] = DecodeSmall(format, i);
  return table;
}

inline constexpr SmallFormat kE4m3Ocp{4, 3, SmallKind::kOneNan};
inline constexpr SmallFormat kE5m2Ocp{5, 2, SmallKind::kIeee};
inline constexpr SmallFormat kE4m3Fnuz{4, 3, SmallKind::kFnuz};
inline constexpr SmallFormat kE5m2Fnuz{5, 2, SmallKind::kFnuz};
inline constexpr SmallFormat kE2m3{2, 3, SmallKind::kFinite};
inline constexpr SmallFormat kE3m2{3, 2, SmallKind::kFinite};
inline constexpr SmallFormat kE2m1{2, 1, SmallKind::kFinite};

}  // namespace hipsim
