// Floats of 4, 6 and 8 bits.
#pragma once

#include <array>
#include <cstdint>

namespace hipsim {

// A sign, `exponent_bits` and `mantissa_bits`. What the largest exponents and -0 mean differs:
enum class Specials : uint8_t {
  kNone,      // fp4, fp6: every pattern is a number
  kAllOnes,   // e4m3 of OCP: only all ones is NaN, no infinity
  kIeee,      // e5m2 of OCP: infinities and NaN
  kMinusZero  // FNUZ: -0 is NaN, nothing else is special
};

struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
};

inline constexpr SmallFormat kE4M3{4, 3, 7, Specials::kAllOnes};
inline constexpr SmallFormat kE5M2{5, 2, 15, Specials::kIeee};
inline constexpr SmallFormat kE4M3Fnuz{4, 3, 8, Specials::kMinusZero};
inline constexpr SmallFormat kE5M2Fnuz{5, 2, 16, Specials::kMinusZero};
inline constexpr SmallFormat kE2M3{2, 3, 1, Specials::kNone};
inline constexpr SmallFormat kE3M2{3, 2, 3, Specials::kNone};
inline constexpr SmallFormat kE2M1{2, 1, 1, Specials::kNone};

float decode_small(uint32_t bits, const SmallFormat& format);

// All values of a format, by bits.
const std::array<float, 256>& small_values(const SmallFormat& format);

// Rounds x to nearest even. Beyond the largest number: that number if `saturate`, else infinity
// where the format has one, else NaN. NaN stays NaN, or becomes the largest number.
uint32_t encode_small(double x, const SmallFormat& format, bool saturate);

}  // namespace hipsim
