// Half precision and bfloat16 in memory operations.
#pragma once

#include <cstdint>
#include <cstring>

namespace hipsim {

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16, exponent = half >> 10 & 31;
  uint32_t mantissa = half & 0x3FF, bits;
  if (exponent == 31) {
    bits = sign | 0x7F800000 | mantissa << 13;
  } else if (exponent != 0) {
    bits = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {  // A denormal is its mantissa times 2^-24.
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    std::memcpy(&bits, &value, sizeof(bits));
    bits |= sign;
  }
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Rounds to nearest, ties to even.
inline uint16_t FloatToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7FFFFFFF;
  if (bits > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00 | (bits >> 13 & 0x3FF));
  if (bits >= 0x477FF000) return static_cast<uint16_t>(sign | 0x7C00);
  if (bits < 0x38800000) {  // Denormal: adding 0.5 rounds at the bit of 2^-24.
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof(magnitude));
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, sizeof(bits));
    return static_cast<uint16_t>(sign | (bits - 0x3F000000));
  }
  bits += 0xFFF + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | ((bits - (112u << 23)) >> 13));
}

inline float Bf16ToFloat(uint16_t bf16) {
  const uint32_t bits = uint32_t{bf16} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

inline uint16_t FloatToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace hipsim
