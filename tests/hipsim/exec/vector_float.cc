// Floating-point operations of one result per lane.
#include <algorithm>

#include "tests/hipsim/exec/lanes.h"
#include "tests/hipsim/exec/vector.h"

namespace hipsim {

namespace {

// Rounds by itself, whatever MODE says.
template <typename Tag>
struct Exact : Tag {
  static constexpr int kRounding = 0;
};

// Transcendental f32 operations know no denormals.
struct Trans32 : Exact<F32> {
  static void load(const Context& c, int source, Lanes<float>& out) {
    F32::load(c, source, out);
    for (int l = 0; l < kLanes; ++l) out[l] = flush(out[l]);
  }
  static void store(Context& c, Lanes<float>& value) {
    for (int l = 0; l < kLanes; ++l) value[l] = flush(value[l]);
    F32::store(c, value);
  }
};

// ---------------------------------------------------------------------------------------------
// Minimum and maximum: a NaN loses against a number, and -0 is below +0.

template <typename T>
T minimum_number(T a, T b) {
  if (a == b) return std::signbit(a) ? a : b;
  return a < b || b != b ? a : b;
}

template <typename T>
T maximum_number(T a, T b) {
  if (a == b) return std::signbit(a) ? b : a;
  return a > b || b != b ? a : b;
}

template <typename T>
T median(T a, T b, T c) {
  if (a != a || b != b || c != c) return minimum_number(minimum_number(a, b), c);
  const T top = maximum_number(maximum_number(a, b), c);
  if (top == a) return maximum_number(b, c);
  return top == b ? maximum_number(a, c) : maximum_number(a, b);
}

// With these a NaN wins.
float minimum(float a, float b) { return a != a ? a : b != b ? b : minimum_number(a, b); }
float maximum(float a, float b) { return a != a ? a : b != b ? b : maximum_number(a, b); }

// ---------------------------------------------------------------------------------------------
// Rounding to integers, exponents and fractions

template <typename T>
T round_even(T x) {
  const T whole = std::trunc(x), rest = std::fabs(x - whole);
  if (std::isinf(x)) return x;
  const bool odd = std::fmod(whole, T{2}) != 0;
  const T rounded =
      rest > T{0.5} || (rest == T{0.5} && odd) ? whole + std::copysign(T{1}, x) : whole;
  return std::copysign(rounded, x);
}

// Below 1 even where x - floor(x) would round to it.
template <typename T>
T fraction(T x, T below_one) {
  if (std::isinf(x)) return std::numeric_limits<T>::quiet_NaN();
  return std::min(x - std::floor(x), below_one);
}

template <typename T>
i32 exponent(T x) {
  if (!std::isfinite(x) || x == 0) return 0;
  int e;
  std::frexp(x, &e);
  return e;
}

template <typename T>
T mantissa(T x) {
  if (!std::isfinite(x)) return x;
  int e;
  return std::frexp(x, &e);
}

constexpr double kTurn = 6.283185307179586476925286766559;

// The argument counts turns; beyond 256 of them the hardware gives the value at 0.
double turns(float x) {
  return std::fabs(x) > 256 ? 0 : kTurn * (double(x) - std::floor(double(x)));
}

// ---------------------------------------------------------------------------------------------
// Division: the steps that scale, correct and repair it.

template <typename T>
int biased_exponent(T x) {
  if constexpr (sizeof(T) == 4)
    return bits_as<u32>(x) >> 23 & 255;
  else
    return bits_as<u64>(x) >> 52 & 2047;
}

template <typename T>
bool is_denormal(T x) {
  return std::fpclassify(x) == FP_SUBNORMAL;
}

template <typename T>
struct DivisionLimits;
template <>
struct DivisionLimits<float> {
  static constexpr int kFarApart = 96, kTiny = 23, kScale = 64, kUnderflow = -150;
};
template <>
struct DivisionLimits<double> {
  static constexpr int kFarApart = 768, kTiny = 53, kScale = 128, kUnderflow = -1075;
};

struct Scaled {
  double value;
  bool repair;
};

// `x` is the denominator or the numerator; scaling keeps the quotient's steps in range.
template <typename T>
Scaled scale_for_division(T x, T denominator, T numerator) {
  using Limits = DivisionLimits<T>;
  const T up = std::ldexp(x, Limits::kScale), down = std::ldexp(x, -Limits::kScale);
  const bool is_denominator = x == denominator, is_numerator = x == numerator;
  if (numerator == 0 || denominator == 0) return {std::numeric_limits<T>::quiet_NaN(), false};
  const bool small_inverse = is_denormal(T{1} / denominator);
  const bool small_quotient = is_denormal(numerator / denominator);
  if (biased_exponent(numerator) - biased_exponent(denominator) >= Limits::kFarApart)
    return {is_denominator ? up : x, true};
  if (is_denormal(denominator)) return {up, false};
  if (small_inverse && small_quotient) return {is_denominator ? down : x, true};
  if (small_inverse) return {down, false};
  if (small_quotient) return {is_numerator ? up : x, true};
  if (biased_exponent(numerator) <= Limits::kTiny) return {up, false};
  return {x, false};
}

template <typename Tag>
void division_scale(Wave& wave, const Instruction& in) {
  using T = typename Tag::Value;
  Context c(wave, in);
  Lanes<T> x, denominator, numerator;
  Load<Tag>::run(c, 0, x);
  Load<Tag>::run(c, 1, denominator);
  Load<Tag>::run(c, 2, numerator);
  u64 repair = 0;
  for (int l = 0; l < kLanes; ++l) {
    const Scaled scaled = scale_for_division(x[l], denominator[l], numerator[l]);
    x[l] = static_cast<T>(scaled.value);
    repair |= u64{scaled.repair} << l;
  }
  Tag::store(c, x);
  store_mask(c, in.sdst, repair);
}

// Wider than the result where a wider type exists, so that scaling rounds once.
double wide_fma(float a, float b, float c) { return std::fma(double{a}, double{b}, double{c}); }
double wide_fma(double a, double b, double c) { return std::fma(a, b, c); }

// fma, scaled back in the lanes that VCC names: up where the quotient is large, else down.
template <typename Tag>
void division_fmas(Wave& wave, const Instruction& in) {
  using T = typename Tag::Value;
  using Limits = DivisionLimits<T>;
  Context c(wave, in);
  Lanes<T> a, b, addend;
  Load<Tag>::run(c, 0, a);
  Load<Tag>::run(c, 1, b);
  Load<Tag>::run(c, 2, addend);
  c.undefined |= wave.undefined64(kVcc);
  const u64 vcc = wave.vcc();
  RoundingScope rounding(wave.mode, Tag::kRounding);
  for (int l = 0; l < kLanes; ++l) {
    const T plain = std::fma(a[l], b[l], addend[l]);
    const auto wide = wide_fma(a[l], b[l], addend[l]);
    const int repair = std::fabs(addend[l]) >= 2 ? Limits::kScale : -Limits::kScale;
    a[l] = vcc >> l & 1 ? static_cast<T>(std::ldexp(wide, repair)) : plain;
  }
  Tag::store(c, a);
}

// The quotient's special cases; otherwise its sign is set from those of the operands.
template <typename T>
T fix_division(T quotient, T denominator, T numerator) {
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  const T sign = negative ? T{-1} : T{1};
  const T infinity = std::numeric_limits<T>::infinity();
  if (numerator != numerator) return numerator + numerator;
  if (denominator != denominator) return denominator + denominator;
  const bool infinite = std::isinf(numerator), divides_infinity = std::isinf(denominator);
  if ((denominator == 0 && numerator == 0) || (infinite && divides_infinity))
    return -std::numeric_limits<T>::quiet_NaN();
  if (denominator == 0 || infinite) return sign * infinity;
  if (divides_infinity || numerator == 0) return sign * T{0};
  if (quotient != quotient) return sign * infinity;  // it overflowed on the way
  return std::copysign(quotient, sign);
}

// An exponent difference this low underflows whatever the approximate quotient says.
template <typename T>
T fix_division_range(T quotient, T denominator, T numerator) {
  const bool special = !std::isfinite(denominator) || !std::isfinite(numerator) ||
                       denominator == 0 || numerator == 0;
  const int difference = biased_exponent(numerator) - biased_exponent(denominator);
  const T fixed = fix_division(quotient, denominator, numerator);
  if (special || difference >= DivisionLimits<T>::kUnderflow) return fixed;
  return std::copysign(std::numeric_limits<T>::denorm_min(), fixed) / 2;
}

template <typename Addend>
void multiply_add(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<float> a, b, addend, out;
  Load<F32>::run(c, 0, a);
  Load<F32>::run(c, 1, b);
  Load<Addend>::run(c, 2, addend);
  {
    RoundingScope rounding(wave.mode, F32::kRounding);
    fma_lanes(a, b, addend, out);
  }
  F32::store(c, out);
}

double power_of_two(double x) { return std::exp2(x); }

float load_exponent(float x, i32 e) { return std::ldexp(x, std::clamp(e, -400, 400)); }
double load_exponent(double x, i32 e) { return std::ldexp(x, std::clamp(e, -4000, 4000)); }

template <typename T>
T legacy_product(T a, T b) {
  return a == 0 || b == 0 ? T{0} : a * b;
}

// ---------------------------------------------------------------------------------------------

#define BINARY(formula) ([](auto a, auto b) { return formula; })
#define TERNARY(formula) ([](auto a, auto b, auto c) { return formula; })
#define UNARY(formula) ([](auto x) { return formula; })

OperationTable arithmetic32() {
  return {
      {"v_add_f32", op<F32, F32, F32> BINARY(a + b)},
      {"v_sub_f32", op<F32, F32, F32> BINARY(a - b)},
      {"v_subrev_f32", op<F32, F32, F32> BINARY(b - a)},
      {"v_mul_f32", op<F32, F32, F32> BINARY(a * b)},
      {"v_mul_legacy_f32", op<F32, F32, F32> BINARY(legacy_product(a, b))},
      {"v_min_f32", op<F32, F32, F32> BINARY(minimum_number(a, b))},
      {"v_max_f32", op<F32, F32, F32> BINARY(maximum_number(a, b))},
      {"v_min3_f32", op<F32, F32, F32, F32> TERNARY(minimum_number(minimum_number(a, b), c))},
      {"v_max3_f32", op<F32, F32, F32, F32> TERNARY(maximum_number(maximum_number(a, b), c))},
      {"v_med3_f32", op<F32, F32, F32, F32> TERNARY(median(a, b, c))},
      {"v_minimum3_f32", op<F32, F32, F32, F32> TERNARY(minimum(minimum(a, b), c))},
      {"v_maximum3_f32", op<F32, F32, F32, F32> TERNARY(maximum(maximum(a, b), c))},
      {"v_fma_f32", multiply_add<F32>},
      {"v_fmamk_f32", multiply_add<F32>},
      {"v_fmaak_f32", multiply_add<F32>},
      {"v_fmac_f32", multiply_add<Old<F32>>},
      {"v_ldexp_f32", op<F32, F32, I32> BINARY(load_exponent(a, b))},
      {"v_div_scale_f32", division_scale<F32>},
      {"v_div_fmas_f32", division_fmas<F32>},
      {"v_div_fixup_f32", op<F32, F32, F32, F32> TERNARY(fix_division_range(a, b, c))},
  };
}

OperationTable functions32() {
  return {
      {"v_trunc_f32", op<Exact<F32>, F32> UNARY(std::trunc(x))},
      {"v_ceil_f32", op<Exact<F32>, F32> UNARY(std::ceil(x))},
      {"v_floor_f32", op<Exact<F32>, F32> UNARY(std::floor(x))},
      {"v_rndne_f32", op<Exact<F32>, F32> UNARY(round_even(x))},
      {"v_fract_f32", op<Exact<F32>, F32> UNARY(fraction(x, 0x1.fffffep-1f))},
      {"v_exp_f32", op<Trans32, Trans32> UNARY(std::exp2(x))},
      {"v_log_f32", op<Trans32, Trans32> UNARY(std::log2(x))},
      {"v_exp_legacy_f32", op<Trans32, Trans32> UNARY(std::exp2(x))},
      {"v_log_legacy_f32", op<Trans32, Trans32> UNARY(std::log2(x))},
      {"v_rcp_f32", op<Trans32, Trans32> UNARY(1 / x)},
      {"v_rcp_iflag_f32", op<Trans32, Trans32> UNARY(1 / x)},
      {"v_rsq_f32", op<Trans32, Trans32> UNARY(float(1 / std::sqrt(double(x))))},
      {"v_sqrt_f32", op<Trans32, Trans32> UNARY(std::sqrt(x))},
      {"v_sin_f32", op<Trans32, Trans32> UNARY(float(std::sin(turns(x)) + 0 * x))},
      {"v_cos_f32", op<Trans32, Trans32> UNARY(float(std::cos(turns(x)) + 0 * x))},
      {"v_frexp_exp_i32_f32", op<I32, F32> UNARY(exponent(x))},
      {"v_frexp_mant_f32", op<Exact<F32>, F32> UNARY(mantissa(x))},
  };
}

OperationTable arithmetic16() {
  return {
      {"v_add_f16", op<F16Wide, F16Wide, F16Wide> BINARY(a + b)},
      {"v_sub_f16", op<F16Wide, F16Wide, F16Wide> BINARY(a - b)},
      {"v_subrev_f16", op<F16Wide, F16Wide, F16Wide> BINARY(b - a)},
      {"v_mul_f16", op<F16Wide, F16Wide, F16Wide> BINARY(a * b)},
      {"v_min_f16", op<F16, F16, F16> BINARY(minimum_number(a, b))},
      {"v_max_f16", op<F16, F16, F16> BINARY(maximum_number(a, b))},
      {"v_min3_f16", op<F16Keep, F16, F16, F16> TERNARY(minimum_number(minimum_number(a, b), c))},
      {"v_max3_f16", op<F16Keep, F16, F16, F16> TERNARY(maximum_number(maximum_number(a, b), c))},
      {"v_med3_f16", op<F16Keep, F16, F16, F16> TERNARY(median(a, b, c))},
      {"v_fma_f16", op<F16WideKeep, F16Wide, F16Wide, F16Wide> TERNARY(std::fma(a, b, c))},
      {"v_mad_f16", op<F16WideKeep, F16Wide, F16Wide, F16Wide> TERNARY(a * b + c)},
      {"v_fma_legacy_f16", op<F16Wide, F16Wide, F16Wide, F16Wide> TERNARY(std::fma(a, b, c))},
      {"v_mad_legacy_f16", op<F16Wide, F16Wide, F16Wide, F16Wide> TERNARY(a * b + c)},
      {"v_mac_f16", op<F16Wide, F16Wide, F16Wide, Old<F16Wide>> TERNARY(a * b + c)},
      {"v_madmk_f16", op<F16Wide, F16Wide, F16Wide, F16Wide> TERNARY(a * b + c)},
      {"v_madak_f16", op<F16Wide, F16Wide, F16Wide, F16Wide> TERNARY(a * b + c)},
      {"v_ldexp_f16", op<F16Wide, F16Wide, I16> BINARY(load_exponent(a, b))},
      {"v_div_fixup_f16", op<F16Keep, F16, F16, F16> TERNARY(fix_division(a, b, c))},
      {"v_div_fixup_legacy_f16", op<F16, F16, F16, F16> TERNARY(fix_division(a, b, c))},
  };
}

OperationTable functions16() {
  return {
      {"v_trunc_f16", op<F16, F16> UNARY(std::trunc(x))},
      {"v_ceil_f16", op<F16, F16> UNARY(std::ceil(x))},
      {"v_floor_f16", op<F16, F16> UNARY(std::floor(x))},
      {"v_rndne_f16", op<F16, F16> UNARY(round_even(x))},
      {"v_fract_f16", op<F16Wide, F16Wide> UNARY(fraction(x, 0x1.ffcp-1))},
      {"v_exp_f16", op<F16Wide, F16Wide> UNARY(power_of_two(x))},
      {"v_log_f16", op<F16Wide, F16Wide> UNARY(std::log2(x))},
      {"v_rcp_f16", op<F16Wide, F16Wide> UNARY(1 / x)},
      {"v_rsq_f16", op<F16Wide, F16Wide> UNARY(1 / std::sqrt(x))},
      {"v_sqrt_f16", op<F16Wide, F16Wide> UNARY(std::sqrt(x))},
      {"v_sin_f16", op<F16Wide, F16Wide> UNARY(std::sin(turns(float(x))) + 0 * x)},
      {"v_cos_f16", op<F16Wide, F16Wide> UNARY(std::cos(turns(float(x))) + 0 * x)},
      {"v_frexp_mant_f16", op<F16, F16> UNARY(mantissa(x))},
      {"v_frexp_exp_i16_f16", op<I16, F16> UNARY(exponent(x))},
  };
}

OperationTable double_precision() {
  return {
      {"v_add_f64", op<F64, F64, F64> BINARY(a + b)},
      {"v_mul_f64", op<F64, F64, F64> BINARY(a * b)},
      {"v_fma_f64", op<F64, F64, F64, F64> TERNARY(std::fma(a, b, c))},
      {"v_fmac_f64", op<F64, F64, F64, Old<F64>> TERNARY(std::fma(a, b, c))},
      {"v_min_f64", op<F64, F64, F64> BINARY(minimum_number(a, b))},
      {"v_max_f64", op<F64, F64, F64> BINARY(maximum_number(a, b))},
      {"v_ldexp_f64", op<F64, F64, I32> BINARY(load_exponent(a, b))},
      {"v_trunc_f64", op<Exact<F64>, F64> UNARY(std::trunc(x))},
      {"v_ceil_f64", op<Exact<F64>, F64> UNARY(std::ceil(x))},
      {"v_floor_f64", op<Exact<F64>, F64> UNARY(std::floor(x))},
      {"v_rndne_f64", op<Exact<F64>, F64> UNARY(round_even(x))},
      {"v_fract_f64", op<Exact<F64>, F64> UNARY(fraction(x, 0x1.fffffffffffffp-1))},
      {"v_rcp_f64", op<Exact<F64>, F64> UNARY(1 / x)},
      {"v_rsq_f64", op<Exact<F64>, F64> UNARY(1 / std::sqrt(x))},
      {"v_sqrt_f64", op<Exact<F64>, F64> UNARY(std::sqrt(x))},
      {"v_frexp_exp_i32_f64", op<I32, F64> UNARY(exponent(x))},
      {"v_frexp_mant_f64", op<Exact<F64>, F64> UNARY(mantissa(x))},
      {"v_div_scale_f64", division_scale<F64>},
      {"v_div_fmas_f64", division_fmas<F64>},
      {"v_div_fixup_f64", op<F64, F64, F64, F64> TERNARY(fix_division_range(a, b, c))},
  };
}

}  // namespace

const OperationTable& float_operations() {
  static const OperationTable table = [] {
    OperationTable all = arithmetic32();
    for (OperationTable part : {functions32(), arithmetic16(), functions16(), double_precision()})
      all.merge(part);
    return all;
  }();
  return table;
}

}  // namespace hipsim
