// Packed operations (VOP3P): each half of the result has its own formula, whose sources op_sel and
// op_sel_hi pick from the halves of the operands and neg_lo and neg_hi negate. Also dot products
// and mixed-precision multiply-add, which share the encoding.
#include <algorithm>
#include <string_view>

#include "tests/hipsim/exec/lanes.h"
#include "tests/hipsim/exec/vector.h"

namespace hipsim {

namespace {

// Which half of `source` the result's half `half` reads, and whether it is negated.
int chosen_half(const Instruction& in, int source, int half) {
  return (half ? in.op_sel_hi : in.op_sel) >> source & 1;
}
bool negated(const Instruction& in, int source, int half) {
  return (half ? in.neg_hi : in.neg) >> source & 1;
}

void load_packed16(Context& c, int source, int half, Lanes<u32>& out) {
  load_raw(c, source, out);
  const int shift = 16 * chosen_half(c.in, source, half);
  for (int l = 0; l < kLanes; ++l) out[l] = out[l] >> shift & 0xffff;
}

struct PackedF16 {
  using Value = double;
  static void load(Context& c, int source, int half, Lanes<double>& out) {
    Lanes<u32> bits;
    load_packed16(c, source, half, bits);
    const u32 sign = negated(c.in, source, half) ? 0x8000 : 0;
    for (int l = 0; l < kLanes; ++l) {
      const float value = HalfToFloat(static_cast<uint16_t>(bits[l] ^ sign));
      out[l] = c.wave.mode.input_denormals64() ? value : flush_half(value);
    }
  }
  static u32 result(const Context& c, double value) {
    if (c.in.clamp) value = clamp_unit(value, c.wave.mode.dx10_clamp());
    const u32 bits = half_bits(value, c.wave.mode.round64());
    return c.wave.mode.output_denormals64() || bits & 0x7c00 ? bits : bits & 0x8000;
  }
};

template <bool kSigned>
struct PackedInt {
  using Value = i32;
  static void load(Context& c, int source, int half, Lanes<i32>& out) {
    Lanes<u32> bits;
    load_packed16(c, source, half, bits);
    for (int l = 0; l < kLanes; ++l)
      out[l] = kSigned ? static_cast<int16_t>(bits[l]) : static_cast<i32>(bits[l]);
  }
  static u32 result(const Context& c, i64 value) {
    if (c.in.clamp)
      value = kSigned ? std::clamp<i64>(value, -32768, 32767) : std::clamp<i64>(value, 0, 65535);
    return static_cast<u32>(value) & 0xffff;
  }
};

template <typename Tag, typename Formula, size_t... I>
void packed_half(Context& c, int half, Lanes<u32>& out, std::index_sequence<I...>) {
  std::array<Lanes<typename Tag::Value>, sizeof...(I)> sources;
  (Tag::load(c, static_cast<int>(I), half, sources[I]), ...);
  for (int l = 0; l < kLanes; ++l) out[l] = Tag::result(c, Formula{}(sources[I][l]...));
}

void add_undefined(Context& c, int sources) {
  for (int i = 0; i < sources; ++i) c.undefined |= undefined_lanes(c.wave, c.in, i);
}

template <typename Tag, int kSources, typename Formula>
void run_packed(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> low, high;
  packed_half<Tag, Formula>(c, 0, low, std::make_index_sequence<kSources>{});
  packed_half<Tag, Formula>(c, 1, high, std::make_index_sequence<kSources>{});
  add_undefined(c, kSources);
  for (int l = 0; l < kLanes; ++l) low[l] |= high[l] << 16;
  store_dword(wave, in.dst, 0, low, c.mask, c.undefined);
}

template <typename Tag, int kSources, typename Formula>
Execute packed(Formula) {
  return run_packed<Tag, kSources, Formula>;
}

// ---------------------------------------------------------------------------------------------
// Two f32 in a register pair

void load_packed32(Context& c, int source, int half, Lanes<float>& out) {
  Lanes<u32> bits;
  const int dword = chosen_half(c.in, source, half);
  load_dword(c.wave, c.in, source, dword, bits);
  c.undefined |= c.wave.read_vector_undefined(c.in.src[source], dword);
  const u32 sign = negated(c.in, source, half) ? 0x80000000 : 0;
  for (int l = 0; l < kLanes; ++l) bits[l] ^= sign;
  std::memcpy(&out, &bits, sizeof out);
  if (!c.wave.mode.input_denormals32())
    for (int l = 0; l < kLanes; ++l) out[l] = flush(out[l]);
}

template <typename Formula, size_t... I>
void packed32_half(Context& c, int half, Lanes<u32>& bits, std::index_sequence<I...>) {
  std::array<Lanes<float>, sizeof...(I)> sources;
  (load_packed32(c, static_cast<int>(I), half, sources[I]), ...);
  Lanes<float> out;
  {
    RoundingScope rounding(c.wave.mode, 32);
    if constexpr (sizeof...(I) == 3) {
      fma_lanes(sources[I]..., out);
    } else {
      for (int l = 0; l < kLanes; ++l) out[l] = Formula{}(sources[I][l]...);
    }
  }
  if (c.in.clamp) modify_outputs(c, out, true);
  if (!c.wave.mode.output_denormals32())
    for (int l = 0; l < kLanes; ++l) out[l] = flush(out[l]);
  std::memcpy(&bits, &out, sizeof bits);
}

template <int kSources, typename Formula>
void run_packed32(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> low, high;
  packed32_half<Formula>(c, 0, low, std::make_index_sequence<kSources>{});
  const u64 low_undefined = std::exchange(c.undefined, 0);
  packed32_half<Formula>(c, 1, high, std::make_index_sequence<kSources>{});
  store_dword(wave, in.dst, 0, low, c.mask, low_undefined);
  store_dword(wave, in.dst, 1, high, c.mask, c.undefined);
}

template <int kSources, typename Formula>
Execute packed32(Formula) {
  return run_packed32<kSources, Formula>;
}

// Dword 0 from source 0, dword 1 from source 1, each of the half that its op_sel bit names.
void packed_move(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> low, high;
  load_dword(wave, in, 0, in.op_sel & 1, low);
  load_dword(wave, in, 1, in.op_sel >> 1 & 1, high);
  const u64 low_undefined = wave.read_vector_undefined(in.src[0], in.op_sel & 1);
  const u64 high_undefined = wave.read_vector_undefined(in.src[1], in.op_sel >> 1 & 1);
  store_dword(wave, in.dst, 0, low, c.mask, low_undefined);
  store_dword(wave, in.dst, 1, high, c.mask, high_undefined);
}

// ---------------------------------------------------------------------------------------------
// Mixed precision: op_sel_hi says that a source is f16, op_sel which half; neg_hi is abs.

void load_mixed(Context& c, int source, Lanes<float>& out) {
  Lanes<u32> bits;
  load_raw(c, source, bits);
  const bool half = c.in.op_sel_hi >> source & 1;
  const int shift = c.in.op_sel >> source & 1 ? 16 : 0;
  for (int l = 0; l < kLanes; ++l) {
    float value =
        half ? HalfToFloat(static_cast<uint16_t>(bits[l] >> shift)) : bits_as<float>(bits[l]);
    if (!half && !c.wave.mode.input_denormals32()) value = flush(value);
    if (c.in.neg_hi >> source & 1) value = std::fabs(value);
    out[l] = c.in.neg >> source & 1 ? -value : value;
  }
  c.undefined |= undefined_lanes(c.wave, c.in, source);
}

enum class Mix { kFloat, kLow, kHigh };

template <Mix kMix>
void mixed_fma(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<float> a, b, addend;
  load_mixed(c, 0, a);
  load_mixed(c, 1, b);
  load_mixed(c, 2, addend);
  for (int l = 0; l < kLanes; ++l) a[l] = std::fma(a[l], b[l], addend[l]);
  if (kMix == Mix::kFloat) return F32::store(c, a);
  if (in.clamp) modify_outputs(c, a, true);
  Lanes<u32> bits;
  round_to_half(wave.mode, a, bits);
  const VectorRegister& old = wave.vgpr[in.dst.index];
  for (int l = 0; l < kLanes; ++l)
    bits[l] =
        kMix == Mix::kHigh ? (old[l] & 0xffff) | bits[l] << 16 : (old[l] & 0xffff0000) | bits[l];
  store_dword(wave, in.dst, 0, bits, c.mask, c.undefined);
}

// ---------------------------------------------------------------------------------------------
// Dot products of elements packed in a dword, added to a third source or the destination.

template <int kBits, bool kSigned>
i64 element(u32 x, int i) {
  const u32 field = x << (32 - kBits * (i + 1));
  return kSigned ? static_cast<i32>(field) >> (32 - kBits) : i64{field >> (32 - kBits)};
}

template <int kBits, bool kSigned>
i64 dot(u32 a, u32 b) {
  i64 sum = 0;
  for (int i = 0; i < 32 / kBits; ++i)
    sum += element<kBits, kSigned>(a, i) * element<kBits, kSigned>(b, i);
  return sum;
}

// neg_lo and neg_hi change the elements' signs of float dot products.
void load_signed_pair(Context& c, int source, Lanes<u32>& out) {
  Load<U32>::run(c, source, out);
  if (c.in.format != Format::kVop3p) return;
  const u32 low = chosen_half(c.in, source, 0), high = chosen_half(c.in, source, 1);
  const u32 signs =
      (negated(c.in, source, 0) ? 0x8000u : 0) | (negated(c.in, source, 1) ? 0x80000000u : 0);
  for (int l = 0; l < kLanes; ++l)
    out[l] = ((out[l] >> (16 * low) & 0xffff) | (out[l] >> (16 * high)) << 16) ^ signs;
}

float bf16_low(u32 x) { return bits_as<float>(x << 16); }
float bf16_high(u32 x) { return bits_as<float>(x & 0xffff0000); }
float half_low(u32 x) { return HalfToFloat(static_cast<uint16_t>(x)); }
float half_high(u32 x) { return HalfToFloat(static_cast<uint16_t>(x >> 16)); }

// The addend comes first, or last of all.
template <typename Addend, auto kLow, auto kHigh, bool kAddendFirst = true>
void float_dot(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> a, b;
  Lanes<float> sum;
  load_signed_pair(c, 0, a);
  load_signed_pair(c, 1, b);
  Load<Addend>::run(c, 2, sum);
  for (int l = 0; l < kLanes; ++l) {
    const float low = kLow(a[l]) * kLow(b[l]), high = kHigh(a[l]) * kHigh(b[l]);
    sum[l] = kAddendFirst ? (sum[l] + low) + high : (low + high) + sum[l];
  }
  F32::store(c, sum);
}

template <typename D, typename Addend, int kBits, bool kSigned>
Execute integer_dot() {
  return op<D, U32, U32, Addend>(
      [](u32 a, u32 b, auto c) { return dot<kBits, kSigned>(a, b) + c; });
}

double minimum_number(double a, double b) {
  if (a == b) return std::signbit(a) ? a : b;
  return a < b || b != b ? a : b;
}
double maximum_number(double a, double b) { return -minimum_number(-a, -b); }
double minimum(double a, double b) { return a != a ? a : b != b ? b : minimum_number(a, b); }
double maximum(double a, double b) { return a != a ? a : b != b ? b : maximum_number(a, b); }

// v_pk_fmac_f16: the destination is the addend, halves pair with halves.
void packed_fmac(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> a, b, old, out;
  Load<U32>::run(c, 0, a);
  Load<U32>::run(c, 1, b);
  Load<Old<U32>>::run(c, 0, old);
  for (int l = 0; l < kLanes; ++l) {
    const double low = std::fma(double{half_low(a[l])}, half_low(b[l]), half_low(old[l]));
    const double high = std::fma(double{half_high(a[l])}, half_high(b[l]), half_high(old[l]));
    out[l] = PackedF16::result(c, low) | PackedF16::result(c, high) << 16;
  }
  store_raw(c, out);
}

OperationTable packed16() {
  using S = PackedInt<true>;
  using U = PackedInt<false>;
  using H = PackedF16;
  return {
      {"v_pk_fma_f16",
       packed<H, 3>([](double a, double b, double c) { return std::fma(a, b, c); })},
      {"v_pk_add_f16", packed<H, 2>([](double a, double b) { return a + b; })},
      {"v_pk_mul_f16", packed<H, 2>([](double a, double b) { return a * b; })},
      {"v_pk_min_f16", packed<H, 2>([](double a, double b) { return minimum_number(a, b); })},
      {"v_pk_max_f16", packed<H, 2>([](double a, double b) { return maximum_number(a, b); })},
      {"v_pk_minimum3_f16",
       packed<H, 3>([](double a, double b, double c) { return minimum(minimum(a, b), c); })},
      {"v_pk_maximum3_f16",
       packed<H, 3>([](double a, double b, double c) { return maximum(maximum(a, b), c); })},
      {"v_pk_mad_i16", packed<S, 3>([](i32 a, i32 b, i32 c) { return i64{a} * b + c; })},
      {"v_pk_mad_u16", packed<U, 3>([](i32 a, i32 b, i32 c) { return i64{a} * b + c; })},
      {"v_pk_mul_lo_u16", packed<U, 2>([](i32 a, i32 b) { return i64{a} * b & 0xffff; })},
      {"v_pk_add_i16", packed<S, 2>([](i32 a, i32 b) { return i64{a} + b; })},
      {"v_pk_sub_i16", packed<S, 2>([](i32 a, i32 b) { return i64{a} - b; })},
      {"v_pk_add_u16", packed<U, 2>([](i32 a, i32 b) { return i64{a} + b; })},
      {"v_pk_sub_u16", packed<U, 2>([](i32 a, i32 b) { return i64{a} - b; })},
      {"v_pk_lshlrev_b16", packed<U, 2>([](i32 a, i32 b) { return i64{b << (a & 15) & 0xffff}; })},
      {"v_pk_lshrrev_b16", packed<U, 2>([](i32 a, i32 b) { return i64{b >> (a & 15)}; })},
      {"v_pk_ashrrev_i16", packed<S, 2>([](i32 a, i32 b) { return i64{b >> (a & 15)}; })},
      {"v_pk_max_i16", packed<S, 2>([](i32 a, i32 b) { return i64{std::max(a, b)}; })},
      {"v_pk_min_i16", packed<S, 2>([](i32 a, i32 b) { return i64{std::min(a, b)}; })},
      {"v_pk_max_u16", packed<U, 2>([](i32 a, i32 b) { return i64{std::max(a, b)}; })},
      {"v_pk_min_u16", packed<U, 2>([](i32 a, i32 b) { return i64{std::min(a, b)}; })},
      {"v_pk_fmac_f16", packed_fmac},
  };
}

OperationTable packed_others() {
  return {
      {"v_pk_fma_f32", packed32<3>([](float a, float b, float c) { return std::fma(a, b, c); })},
      {"v_pk_mul_f32", packed32<2>([](float a, float b) { return a * b; })},
      {"v_pk_add_f32", packed32<2>([](float a, float b) { return a + b; })},
      {"v_pk_mov_b32", packed_move},
      {"v_fma_mix_f32", mixed_fma<Mix::kFloat>},
      {"v_fma_mixlo_f16", mixed_fma<Mix::kLow>},
      {"v_fma_mixhi_f16", mixed_fma<Mix::kHigh>},
      {"v_dot2_f32_f16", float_dot<F32, half_low, half_high>},
      {"v_dot2_f32_bf16", float_dot<F32, bf16_low, bf16_high, false>},
      {"v_dot2c_f32_f16", float_dot<Old<F32>, half_low, half_high>},
      {"v_dot2c_f32_bf16", float_dot<Old<F32>, bf16_low, bf16_high>},
      {"v_dot2_i32_i16", integer_dot<SatI32, I32, 16, true>()},
      {"v_dot2_u32_u16", integer_dot<SatU32, U32, 16, false>()},
      {"v_dot4_i32_i8", integer_dot<SatI32, I32, 8, true>()},
      {"v_dot4_u32_u8", integer_dot<SatU32, U32, 8, false>()},
      {"v_dot8_i32_i4", integer_dot<SatI32, I32, 4, true>()},
      {"v_dot8_u32_u4", integer_dot<SatU32, U32, 4, false>()},
      {"v_dot2c_i32_i16", integer_dot<SatI32, Old<I32>, 16, true>()},
      {"v_dot4c_i32_i8", integer_dot<SatI32, Old<I32>, 8, true>()},
      {"v_dot8c_i32_i4", integer_dot<SatI32, Old<I32>, 4, true>()},
  };
}

}  // namespace

const OperationTable& packed_operations() {
  static const OperationTable table = [] {
    OperationTable all = packed16();
    all.merge(packed_others());
    return all;
  }();
  return table;
}

}  // namespace hipsim
