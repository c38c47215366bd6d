#include "tests/hipsim/exec/small_float.h"

#include <cmath>
#include <limits>

namespace hipsim {

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint32_t sign_bit(const SmallFormat& format) { return 1u << (format.bits() - 1); }

// Bits of the largest finite magnitude.
uint32_t largest(const SmallFormat& format) {
  const uint32_t all = sign_bit(format) - 1;
  switch (format.specials) {
    case Specials::kAllOnes:
      return all - 1;
    case Specials::kIeee:
      return all - (1u << format.mantissa_bits);
    default:
      return all;
  }
}

uint32_t nan_bits(const SmallFormat& format, uint32_t sign) {
  switch (format.specials) {
    case Specials::kMinusZero:
      return sign_bit(format);
    case Specials::kNone:
      return sign | largest(format);
    default:
      return sign | (sign_bit(format) - 1);
  }
}

uint32_t overflow_bits(const SmallFormat& format, uint32_t sign, bool saturate) {
  if (saturate || format.specials == Specials::kNone) return sign | largest(format);
  if (format.specials == Specials::kIeee) return sign | (largest(format) + 1);
  return nan_bits(format, sign);
}

}  // namespace

float decode_small(uint32_t bits, const SmallFormat& format) {
  const uint32_t sign = bits & sign_bit(format), magnitude = bits & (sign_bit(format) - 1);
  if (format.specials == Specials::kMinusZero && sign && !magnitude) return kNan;
  if (format.specials == Specials::kAllOnes && magnitude == sign_bit(format) - 1) return kNan;
  const int exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const int mantissa = static_cast<int>(magnitude & ((1u << format.mantissa_bits) - 1));
  if (format.specials == Specials::kIeee && exponent == (1 << format.exponent_bits) - 1)
    return mantissa ? kNan : sign ? -kInfinity : kInfinity;
  const int hidden = exponent ? 1 << format.mantissa_bits : 0;
  const int scale = (exponent ? exponent : 1) - format.bias - format.mantissa_bits;
  const float value = std::ldexp(static_cast<float>(hidden + mantissa), scale);
  return sign ? -value : value;
}

const std::array<float, 256>& small_values(const SmallFormat& format) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, 7> all{};
    const SmallFormat formats[] = {kE4M3, kE5M2, kE4M3Fnuz, kE5M2Fnuz, kE2M3, kE3M2, kE2M1};
    for (int f = 0; f < 7; ++f)
      for (uint32_t bits = 0; bits < 1u << formats[f].bits(); ++bits)
        all[f][bits] = decode_small(bits, formats[f]);
    return all;
  }();
  if (format.exponent_bits == 4) return tables[format.bias == 8 ? 2 : 0];
  if (format.exponent_bits == 5) return tables[format.bias == 16 ? 3 : 1];
  return tables[format.exponent_bits == 3 ? 5 : format.mantissa_bits == 3 ? 4 : 6];
}

uint32_t encode_small(double x, const SmallFormat& format, bool saturate) {
  const uint32_t sign = std::signbit(x) ? sign_bit(format) : 0;
  if (std::isnan(x)) return nan_bits(format, sign);
  const double magnitude = std::fabs(x);
  if (std::isinf(magnitude)) return overflow_bits(format, sign, saturate);
  const int lowest = 1 - format.bias;
  const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  const int shift = format.mantissa_bits - exponent;
  const double units = std::nearbyint(std::ldexp(magnitude, shift));
  // The mantissa's carry moves into the exponent by itself.
  const double bits =
      units + std::ldexp(static_cast<double>(exponent - lowest), format.mantissa_bits);
  if (bits > largest(format)) return overflow_bits(format, sign, saturate);
  const auto result = static_cast<uint32_t>(bits);
  return !result && format.specials == Specials::kMinusZero ? 0 : sign | result;
}

}  // namespace hipsim
