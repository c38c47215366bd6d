// Element conversions against definitions in float64 that share no code with them.
#include "hk/core/element.h"

#include <bit>

#include "tests/include/hk/support.h"

namespace {

// A 16-bit float format: 1 sign bit, then the exponent, then `mantissa` bits.
struct format {
  int exponent_bits;
  int mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  double largest() const {
    return std::ldexp(2.0 - std::ldexp(1.0, -mantissa_bits), (1 << exponent_bits) - 2 - bias());
  }
};

template <class T>
constexpr format format_of = std::same_as<T, hk::f16> ? format{5, 10} : format{8, 7};

// The number that a pattern of bits stands for.
double value_of(format f, std::uint32_t bits) {
  const int mantissa = static_cast<int>(bits & ((1u << f.mantissa_bits) - 1));
  const int exponent = static_cast<int>(bits >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
  const double sign = bits & 0x8000u ? -1.0 : 1.0;
  if (exponent == (1 << f.exponent_bits) - 1)
    return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const int least = 1 - f.bias() - f.mantissa_bits;  // the exponent of a subnormal's last bit
  if (exponent == 0) return sign * std::ldexp(mantissa, least);
  return sign * std::ldexp(mantissa + (1 << f.mantissa_bits), least + exponent - 1);
}

// x as the nearest number of the format, ties to even.
double nearest(format f, double x) {
  if (std::isnan(x) || std::isinf(x) || x == 0.0) return x;
  const int exponent = std::max(std::ilogb(x), 1 - f.bias());
  const double unit = std::ldexp(1.0, exponent - f.mantissa_bits);
  const double y = std::nearbyint(x / unit) * unit;
  return std::abs(y) > f.largest() ? std::copysign(INFINITY, x) : std::copysign(y, x);
}

bool same_number(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

template <class T>
void check_rounding(float x) {
  const double received = hk::to_float(hk::from_float<T>(x));
  const double expected = nearest(format_of<T>, x);
  if (!same_number(received, expected)) CHECK_EQ(received, expected);
}

template <class F>
void for_each_16_bit_type(F f) {
  f.template operator()<hk::bf16>();
  f.template operator()<hk::f16>();
}

}  // namespace

HK_TEST(every_pattern_widens_to_its_value) {
  for_each_16_bit_type([]<class T>() {
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const T x{static_cast<std::uint16_t>(bits)};
      wrong += !same_number(hk::to_float(x), value_of(format_of<T>, bits));
    }
    CHECK_EQ(wrong, 0);
  });
}

HK_TEST(every_pattern_survives_the_way_back) {
  for_each_16_bit_type([]<class T>() {
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const T x{static_cast<std::uint16_t>(bits)};
      const T y = hk::from_float<T>(hk::to_float(x));
      const bool is_nan = std::isnan(hk::to_float(x));
      wrong += is_nan ? !std::isnan(hk::to_float(y)) : x.bits != y.bits;
    }
    CHECK_EQ(wrong, 0);
  });
}

// Between neighbours of the format: the tie, and the floats on both sides of it.
HK_TEST(ties_go_to_even_and_their_neighbours_to_the_nearer) {
  for_each_16_bit_type([]<class T>() {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float here = hk::to_float(T{static_cast<std::uint16_t>(bits)});
      const float next = hk::to_float(T{static_cast<std::uint16_t>(bits + 1)});
      const float tie = static_cast<float>((static_cast<double>(here) + next) / 2);
      check_rounding<T>(tie);
      check_rounding<T>(std::nextafter(tie, unit::infinity));
      check_rounding<T>(std::nextafter(tie, -unit::infinity));
    }
  });
}

HK_TEST(random_floats_round_to_nearest) {
  std::mt19937 generator(1);
  for (int i = 0; i < 300000; ++i) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(generator()));
    check_rounding<hk::bf16>(x);
    check_rounding<hk::f16>(x);
  }
}

HK_TEST(overflow_is_infinity_and_nan_stays_nan) {
  for_each_16_bit_type([]<class T>() {
    const double largest = format_of<T>.largest();
    const float tie =
        static_cast<float>(largest * (1 + std::ldexp(1, -format_of<T>.mantissa_bits - 2)));
    check_rounding<T>(static_cast<float>(largest));
    check_rounding<T>(tie);
    check_rounding<T>(std::numeric_limits<float>::max());
    check_rounding<T>(unit::infinity);
    check_rounding<T>(-unit::infinity);
    for (std::uint32_t payload : {1u, 0x1fffu, 0xffffu, 0x200000u, 0x400000u, 0x7fffffu}) {
      check_rounding<T>(std::bit_cast<float>(0x7f800000u | payload));
      check_rounding<T>(std::bit_cast<float>(0xff800000u | payload));
    }
  });
}

HK_TEST(dtypes_and_types_correspond) {
  unit::for_each_element([]<class T>() {
    const hk::dtype type = hk::element_traits<T>::type;
    CHECK_EQ(hk::size_in_bytes(type), static_cast<int>(sizeof(T)));
    CHECK((hk::visit(type, []<class V>(V*) { return std::same_as<T, V>; })));
  });
  CHECK_EQ(hk::from_float<float>(hk::to_float(1.5f)), 1.5f);
  static_assert(hk::to_float(hk::to_bf16(1.0f)) == 1.0f, "conversions are constant expressions");
  static_assert(hk::to_f16(65520.0f).bits == 0x7c00, "half of the way past 65504 is infinity");
}
