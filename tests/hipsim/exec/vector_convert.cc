// Conversions between 32-bit, 64-bit and 16-bit numbers.
#include <algorithm>
#include <limits>

#include "tests/hipsim/exec/lanes.h"
#include "tests/hipsim/exec/vector.h"

namespace hipsim {

namespace {

// Truncates; out of range goes to the nearest integer, NaN to 0.
template <typename To, typename From>
To to_integer(From x) {
  if (x != x) return 0;
  const double value = std::trunc(static_cast<double>(x));
  const double low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  return value <= low    ? std::numeric_limits<To>::min()
         : value >= high ? std::numeric_limits<To>::max()
                         : static_cast<To>(value);
}

// x * scale, rounded to nearest even and kept in [-scale, scale] or [0, scale].
i32 normalized(double x, double scale, bool is_signed) {
  if (x != x) return 0;
  const double value = std::clamp(x, is_signed ? -1.0 : 0.0, 1.0) * scale;
  return static_cast<i32>(std::nearbyint(value));
}

u32 pair16(u32 low, u32 high) { return (low & 0xffff) | high << 16; }

u32 half_toward_zero(float x) { return half_bits(x, 3); }

// f16 of an f32 as MODE rounds f16, and without rounding twice.
struct F16FromF32 : F16 {
  static constexpr int kRounding = 0;
};

u32 byte_at(u32 old, u32 value, u32 byte) {
  const u32 shift = 8 * (byte & 3);
  return (old & ~(255u << shift)) | value << shift;
}

u32 to_byte(float x) {
  return static_cast<u32>(std::clamp<i32>(to_integer<i32>(std::nearbyint(x)), 0, 255));
}

float offset_of_4_bits(u32 x) {
  return static_cast<float>(static_cast<i32>(x << 28) >> 28) / 16.0f;
}

// Adds random bits below bfloat16's or f16's mantissa and truncates.
u32 stochastic_bf16(float x, u32 random) {
  const u32 bits = bits_as<u32>(x);
  if ((bits & 0x7f800000) == 0x7f800000) return FloatToBf16(x);
  return (bits + (random >> 16)) >> 16;
}

u32 stochastic_f16(float x, u32 random) {
  const u32 bits = bits_as<u32>(x);
  if ((bits & 0x7f800000) == 0x7f800000) return half_bits(x, 0);
  return half_bits(bits_as<float>(bits + (random >> 19)), 3);
}

// Two results of a pair of sources, each 16 bits.
template <typename S, typename Formula>
void run_pair(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<typename S::Value> a, b;
  Lanes<u32> out;
  Load<S>::run(c, 0, a);
  Load<S>::run(c, 1, b);
  for (int l = 0; l < kLanes; ++l)
    out[l] = pair16(static_cast<u32>(Formula{}(a[l])), static_cast<u32>(Formula{}(b[l])));
  store_raw(c, out);
}

template <typename S, typename Formula>
Execute pair(Formula) {
  return run_pair<S, Formula>;
}

void pack_halves(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<float> a, b;
  Load<F32>::run(c, 0, a);
  Load<F32>::run(c, 1, b);
  Lanes<u32> low, high;
  round_to_half(wave.mode, a, low);
  round_to_half(wave.mode, b, high);
  for (int l = 0; l < kLanes; ++l) low[l] = pair16(low[l], high[l]);
  store_raw(c, low);
}

OperationTable numbers() {
  return {
      {"v_cvt_f32_i32", op<F32, I32>([](i32 x) { return static_cast<float>(x); })},
      {"v_cvt_f32_u32", op<F32, U32>([](u32 x) { return static_cast<float>(x); })},
      {"v_cvt_i32_f32", op<I32, F32>([](float x) { return to_integer<i32>(x); })},
      {"v_cvt_u32_f32", op<U32, F32>([](float x) { return to_integer<u32>(x); })},
      {"v_cvt_rpi_i32_f32",
       op<I32, F32>([](float x) { return to_integer<i32>(std::floor(double{x} + 0.5)); })},
      {"v_cvt_flr_i32_f32", op<I32, F32>([](float x) { return to_integer<i32>(std::floor(x)); })},
      {"v_cvt_off_f32_i4", op<F32, U32>([](u32 x) { return offset_of_4_bits(x); })},
      {"v_cvt_f32_ubyte0", op<F32, U32>([](u32 x) { return float(x & 255); })},
      {"v_cvt_f32_ubyte1", op<F32, U32>([](u32 x) { return float(x >> 8 & 255); })},
      {"v_cvt_f32_ubyte2", op<F32, U32>([](u32 x) { return float(x >> 16 & 255); })},
      {"v_cvt_f32_ubyte3", op<F32, U32>([](u32 x) { return float(x >> 24); })},
      {"v_cvt_f64_i32", op<F64, I32>([](i32 x) { return double(x); })},
      {"v_cvt_f64_u32", op<F64, U32>([](u32 x) { return double(x); })},
      {"v_cvt_i32_f64", op<I32, F64>([](double x) { return to_integer<i32>(x); })},
      {"v_cvt_u32_f64", op<U32, F64>([](double x) { return to_integer<u32>(x); })},
      {"v_cvt_f32_f64", op<F32, F64>([](double x) { return static_cast<float>(x); })},
      {"v_cvt_f64_f32", op<F64, F32>([](float x) { return double{x}; })},
      {"v_cvt_f16_f32", op<F16FromF32, F32>([](float x) { return x; })},
      {"v_cvt_f32_f16", op<F32, F16>([](float x) { return x; })},
      {"v_cvt_f32_bf16", op<F32, Bf16>([](float x) { return x; })},
      {"v_cvt_f16_u16", op<F16, U16>([](i32 x) { return float(x); })},
      {"v_cvt_f16_i16", op<F16, I16>([](i32 x) { return float(x); })},
      {"v_cvt_u16_f16", op<U16, F16>([](float x) { return to_integer<uint16_t>(x); })},
      {"v_cvt_i16_f16", op<I16, F16>([](float x) { return to_integer<int16_t>(x); })},
      {"v_cvt_norm_i16_f16", op<I16, F16>([](float x) { return normalized(x, 32767, true); })},
      {"v_cvt_norm_u16_f16", op<U16, F16>([](float x) { return normalized(x, 65535, false); })},
  };
}

OperationTable pairs() {
  return {
      {"v_cvt_pk_bf16_f32", pair<F32>([](float x) { return FloatToBf16(x); })},
      {"v_cvt_pk_f16_f32", pack_halves},
      {"v_cvt_pkrtz_f16_f32", pair<F32>([](float x) { return half_toward_zero(x); })},
      {"v_cvt_pknorm_i16_f32", pair<F32>([](float x) { return normalized(x, 32767, true); })},
      {"v_cvt_pknorm_u16_f32", pair<F32>([](float x) { return normalized(x, 65535, false); })},
      {"v_cvt_pknorm_i16_f16", pair<F16>([](float x) { return normalized(x, 32767, true); })},
      {"v_cvt_pknorm_u16_f16", pair<F16>([](float x) { return normalized(x, 65535, false); })},
      {"v_cvt_pk_u16_u32", pair<U32>([](u32 x) { return std::min(x, 65535u); })},
      {"v_cvt_pk_i16_i32", pair<I32>([](i32 x) { return std::clamp(x, -32768, 32767); })},
      {"v_cvt_pk_u8_f32", op<U32, F32, U32, U32>([](float x, u32 byte, u32 old) {
         return byte_at(old, to_byte(x), byte);
       })},
      {"v_cvt_pkaccum_u8_f32", op<U32, F32, U32, Old<U32>>([](float x, u32 byte, u32 old) {
         return byte_at(old, to_byte(x), byte);
       })},
      {"v_cvt_sr_bf16_f32",
       op<U16Keep, F32, U32>([](float x, u32 random) { return stochastic_bf16(x, random); })},
      {"v_cvt_sr_f16_f32",
       op<U16Keep, F32, U32>([](float x, u32 random) { return stochastic_f16(x, random); })},
  };
}

}  // namespace

const OperationTable& conversions() {
  static const OperationTable table = [] {
    OperationTable all = numbers();
    all.merge(pairs());
    return all;
  }();
  return table;
}

}  // namespace hipsim
