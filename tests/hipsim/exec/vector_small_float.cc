// Conversions from and to floats of 8, 6 and 4 bits. The scaled ones (gfx950) multiply what they
// read by a power of two, or divide what they write by it: 2^(exponent of an f32 source).
#include <algorithm>

#include "tests/hipsim/exec/lanes.h"
#include "tests/hipsim/exec/small_float.h"
#include "tests/hipsim/exec/vector.h"

namespace hipsim {

namespace {

enum class Kind { kFp8, kBf8, kFp6, kBf6, kFp4 };
enum class Number { kF32, kF16, kBf16 };

const SmallFormat& format_of(Kind kind, Chip chip) {
  const bool fnuz = chip == Chip::kGfx942;
  switch (kind) {
    case Kind::kFp8:
      return fnuz ? kE4M3Fnuz : kE4M3;
    case Kind::kBf8:
      return fnuz ? kE5M2Fnuz : kE5M2;
    case Kind::kFp6:
      return kE2M3;
    case Kind::kBf6:
      return kE3M2;
    default:
      return kE2M1;
  }
}

double scale_of(u32 bits) {
  const int exponent = bits >> 23 & 255;
  return exponent == 255 ? std::numeric_limits<double>::quiet_NaN()
                         : std::ldexp(1.0, exponent - 127);
}

u32 number_bits(double value, Number number) {
  if (number == Number::kF16) return half_bits(value, 0);
  const auto single = static_cast<float>(value);
  return number == Number::kF32 ? bits_as<u32>(single) : FloatToBf16(single);
}

double number_value(u32 bits, Number number) {
  if (number == Number::kF16) return HalfToFloat(static_cast<uint16_t>(bits));
  return bits_as<float>(number == Number::kF32 ? bits : bits << 16);
}

u32 encode(const Wave& wave, double value, Kind kind) {
  return encode_small(value, format_of(kind, wave.chip), wave.mode.fp16_overflow());
}

// Rounds down after adding `random`'s top bits below the last place: the fraction of a unit that
// 32 random bits are of 2^32.
u32 encode_stochastic(const Wave& wave, double value, Kind kind, u32 random) {
  const SmallFormat& format = format_of(kind, wave.chip);
  if (!std::isfinite(value)) return encode(wave, value, kind);
  const double magnitude = std::fabs(value);
  const int lowest = 1 - format.bias;
  const int exponent = magnitude == 0 ? lowest : std::max(std::ilogb(magnitude), lowest);
  const double unit = std::ldexp(1.0, exponent - format.mantissa_bits);
  const double raised = std::floor(magnitude / unit + std::ldexp(double(random), -32)) * unit;
  return encode(wave, std::copysign(raised, value), kind);
}

// ---------------------------------------------------------------------------------------------
// Fields of a register that op_sel (VOP3) or SDWA name.

struct Field {
  int shift;
  int bits;
};

// Byte of a one-value source: op_sel[0] is its high bit, op_sel[1] the low one.
int source_byte(const Instruction& in) {
  if (in.is_sdwa || in.format != Format::kVop3) return 0;
  return (in.op_sel & 1) * 2 + (in.op_sel >> 1 & 1);
}

// Byte of a one-value result: op_sel[3:2].
Field result_byte(const Instruction& in) { return {8 * (in.op_sel >> 2 & 3), 8}; }
Field result_half(const Instruction& in) { return {16 * (in.op_sel >> 3 & 1), 16}; }

// Replaces a field of the destination; the rest keeps its bits.
void store_field(Context& c, Field field, Lanes<u32>& value) {
  const u32 mask = static_cast<u32>((u64{1} << field.bits) - 1) << field.shift;
  const VectorRegister& old = c.wave.vgpr[c.in.dst.index];
  for (int l = 0; l < kLanes; ++l) value[l] = (old[l] & ~mask) | (value[l] << field.shift & mask);
  store_dword(c.wave, c.in.dst, 0, value, c.mask, c.undefined);
}

void load_scale(Context& c, int source, Lanes<double>& scale) {
  Lanes<u32> bits;
  Load<U32>::run(c, source, bits);
  for (int l = 0; l < kLanes; ++l) scale[l] = scale_of(bits[l]);
}

// ---------------------------------------------------------------------------------------------
// From small floats

// One value, or a pair, to f32; the source is chosen by op_sel or SDWA.
template <Kind kKind, int kValues>
void to_f32(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> source, out;
  Load<U32>::run(c, 0, source);
  const std::array<float, 256>& values = small_values(format_of(kKind, wave.chip));
  const bool high = in.format == Format::kVop3 && in.op_sel & 1;
  const int shift = kValues == 2 ? 16 * high : 8 * source_byte(in);
  for (int v = 0; v < kValues; ++v) {
    for (int l = 0; l < kLanes; ++l)
      out[l] = bits_as<u32>(values[source[l] >> (shift + 8 * v) & 255]);
    store_dword(wave, in.dst, v, out, c.mask, c.undefined);
  }
}

// One or two scaled values, to a register each (f32) or to halves of one.
template <Kind kKind, Number kNumber, int kValues>
void scaled_from_small(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> source, out{};
  Lanes<double> scale;
  Load<U32>::run(c, 0, source);
  load_scale(c, 1, scale);
  const SmallFormat& format = format_of(kKind, wave.chip);
  const int bits = format.bits(), width = kNumber == Number::kF32 ? 32 : 16;
  const int shift = bits == 8 && kValues == 2 ? 16 * (in.op_sel & 1) : 8 * source_byte(in);
  const std::array<float, 256>& values = small_values(format);
  for (int v = 0; v < kValues; ++v) {
    for (int l = 0; l < kLanes; ++l) {
      const u32 pattern = source[l] >> (shift + bits * v) & ((1u << bits) - 1);
      const u32 number = number_bits(values[pattern] * scale[l], kNumber);
      out[l] = width == 32 ? number : out[l] | number << (16 * v);
    }
    if (width == 32) store_dword(wave, in.dst, v, out, c.mask, c.undefined);
  }
  if (width == 32) return;
  if (kValues == 1) return store_field(c, result_half(in), out);
  store_dword(wave, in.dst, 0, out, c.mask, c.undefined);
}

// ---------------------------------------------------------------------------------------------
// To small floats

template <Kind kKind>
void pair_from_f32(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<float> a, b;
  Lanes<u32> out;
  Load<F32>::run(c, 0, a);
  Load<F32>::run(c, 1, b);
  for (int l = 0; l < kLanes; ++l)
    out[l] = encode(wave, a[l], kKind) | encode(wave, b[l], kKind) << 8;
  store_field(c, result_half(in), out);
}

template <Kind kKind>
void stochastic_from_f32(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<float> x;
  Lanes<u32> random, out;
  Load<F32>::run(c, 0, x);
  Load<U32>::run(c, 1, random);
  for (int l = 0; l < kLanes; ++l) out[l] = encode_stochastic(wave, x[l], kKind, random[l]);
  store_field(c, result_byte(in), out);
}

// Values of a packed source, or of two f32 sources.
template <Number kNumber>
void load_values(Context& c, int v, Lanes<double>& out) {
  Lanes<u32> bits;
  if (kNumber == Number::kF32) {
    Load<B32>::run(c, v, bits);
  } else {
    Load<U32>::run(c, 0, bits);
    for (int l = 0; l < kLanes; ++l) bits[l] = bits[l] >> (16 * v) & 0xffff;
  }
  for (int l = 0; l < kLanes; ++l) out[l] = number_value(bits[l], kNumber);
}

template <Kind kKind, Number kNumber>
void scaled_pair(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<double> scale, x;
  Lanes<u32> out{};
  load_scale(c, kNumber == Number::kF32 ? 2 : 1, scale);
  const int bits = format_of(kKind, wave.chip).bits();
  for (int v = 0; v < 2; ++v) {
    load_values<kNumber>(c, v, x);
    for (int l = 0; l < kLanes; ++l) out[l] |= encode(wave, x[l] / scale[l], kKind) << (bits * v);
  }
  store_field(c, bits == 8 ? result_half(in) : result_byte(in), out);
}

template <Kind kKind, Number kNumber>
void scaled_stochastic(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<double> scale;
  Lanes<u32> x, random;
  Load<U32>::run(c, 0, x);
  Load<U32>::run(c, 1, random);
  load_scale(c, 2, scale);
  for (int l = 0; l < kLanes; ++l) {
    const u32 bits = kNumber == Number::kF32 ? x[l] : x[l] & 0xffff;
    x[l] = encode_stochastic(wave, number_value(bits, kNumber) / scale[l], kKind, random[l]);
  }
  store_field(c, result_byte(in), x);
}

// ---------------------------------------------------------------------------------------------
// Thirty-two values at once

u32 packed_field(const Wave& wave, const Operand& operand, int lane, int index, int bits) {
  const int at = index * bits, shift = at & 31;
  u64 pair = wave.vgpr[operand.index + at / 32][lane];
  if (shift + bits > 32) pair |= u64{wave.vgpr[operand.index + at / 32 + 1][lane]} << 32;
  return static_cast<u32>(pair >> shift) & static_cast<u32>((u64{1} << bits) - 1);
}

// Packs the fields of all lanes, then writes the registers.
struct Packer {
  explicit Packer(int bits) : bits(bits) {}
  void put(int lane, int index, u32 value) {
    const int at = index * bits;
    dwords[at / 32][lane] |= value << (at & 31);
    if ((at & 31) + bits > 32) dwords[at / 32 + 1][lane] |= value >> (32 - (at & 31));
  }
  void store(Context& c) {
    for (int d = 0; d < c.in.dst.dwords; ++d)
      store_dword(c.wave, c.in.dst, d, dwords[d], c.mask, c.undefined);
  }
  int bits;
  std::array<Lanes<u32>, 33> dwords{};
};

int number_width(Number number) { return number == Number::kF32 ? 32 : 16; }

template <Kind kKind, Number kNumber>
void expand32(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<double> scale;
  load_scale(c, 1, scale);
  c.undefined |= undefined_lanes(wave, in, 0);
  const std::array<float, 256>& values = small_values(format_of(kKind, wave.chip));
  Packer out(number_width(kNumber));
  for (int i = 0; i < 32; ++i)
    for (int l = 0; l < kLanes; ++l) {
      const double value = values[packed_field(wave, in.src[0], l, i, 6)];
      out.put(l, i, number_bits(value * scale[l], kNumber));
    }
  out.store(c);
}

// Where value i of the result comes from: two sources of 16 alternate.
struct Wide {
  int source;
  int index;
};

Wide wide_source(const Instruction& in, int i) {
  const bool two = in.src[1].dwords == 16;
  return two ? Wide{i & 1, i / 2} : Wide{0, i};
}

template <Kind kKind, Number kNumber, bool kStochastic>
void pack32(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<double> scale;
  Lanes<u32> random{};
  load_scale(c, in.src[2] ? 2 : 1, scale);
  if (kStochastic) Load<U32>::run(c, 1, random);
  for (int i = 0; i < 2; ++i) c.undefined |= undefined_lanes(wave, in, i);
  Packer out(6);
  for (int i = 0; i < 32; ++i) {
    const Wide wide = wide_source(in, i);
    for (int l = 0; l < kLanes; ++l) {
      const u32 bits =
          packed_field(wave, in.src[wide.source], l, wide.index, number_width(kNumber));
      const double x = number_value(bits, kNumber) / scale[l];
      out.put(l, i,
              kStochastic ? encode_stochastic(wave, x, kKind, random[l]) : encode(wave, x, kKind));
      if (kStochastic) random[l] = random[l] << 1 ^ (random[l] >> 31 ? 197 : 0);
    }
  }
  out.store(c);
}

// Two f32 in a register pair, or a packed pair of 16 bits, to fp4 with random rounding.
template <Number kNumber>
void stochastic_fp4_pair(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<double> scale;
  Lanes<u32> random, out{};
  Load<U32>::run(c, 1, random);
  load_scale(c, 2, scale);
  c.undefined |= undefined_lanes(wave, in, 0);
  for (int v = 0; v < 2; ++v)
    for (int l = 0; l < kLanes; ++l) {
      const u32 bits = packed_field(wave, in.src[0], l, v, number_width(kNumber));
      const double x = number_value(bits, kNumber) / scale[l];
      out[l] |= encode_stochastic(wave, x, Kind::kFp4, random[l]) << (4 * v);
      random[l] = random[l] << 1 ^ (random[l] >> 31 ? 197 : 0);
    }
  store_field(c, result_byte(in), out);
}

OperationTable unscaled() {
  return {
      {"v_cvt_f32_fp8", to_f32<Kind::kFp8, 1>},
      {"v_cvt_f32_bf8", to_f32<Kind::kBf8, 1>},
      {"v_cvt_pk_f32_fp8", to_f32<Kind::kFp8, 2>},
      {"v_cvt_pk_f32_bf8", to_f32<Kind::kBf8, 2>},
      {"v_cvt_pk_fp8_f32", pair_from_f32<Kind::kFp8>},
      {"v_cvt_pk_bf8_f32", pair_from_f32<Kind::kBf8>},
      {"v_cvt_sr_fp8_f32", stochastic_from_f32<Kind::kFp8>},
      {"v_cvt_sr_bf8_f32", stochastic_from_f32<Kind::kBf8>},
  };
}

// The names of one small type with one wide type.
template <Kind kKind, Number kNumber>
OperationTable scaled_pairs(const char* small, const char* wide, std::vector<std::string>& names) {
  const std::string prefix = "v_cvt_scalef32_", s = small, w = wide;
  OperationTable table;
  const auto add = [&](const std::string& name, Execute execute) {
    names.push_back(prefix + name);
    table.emplace(names.back(), execute);
  };
  add("pk_" + s + "_" + w, scaled_pair<kKind, kNumber>);
  add("pk_" + w + "_" + s, scaled_from_small<kKind, kNumber, 2>);
  add(w + "_" + s, scaled_from_small<kKind, kNumber, 1>);
  add("sr_" + s + "_" + w, scaled_stochastic<kKind, kNumber>);
  return table;
}

template <Kind kKind, Number kNumber>
OperationTable scaled_rows(const char* small, const char* wide, std::vector<std::string>& names) {
  const std::string prefix = "v_cvt_scalef32_", s = small, w = wide;
  OperationTable table;
  const auto add = [&](const std::string& name, Execute execute) {
    names.push_back(prefix + name);
    table.emplace(names.back(), execute);
  };
  add("pk32_" + w + "_" + s, expand32<kKind, kNumber>);
  add("pk32_" + s + "_" + w, pack32<kKind, kNumber, false>);
  add("2xpk16_" + s + "_" + w, pack32<kKind, kNumber, false>);
  add("sr_pk32_" + s + "_" + w, pack32<kKind, kNumber, true>);
  return table;
}

template <Number kNumber>
OperationTable scaled_all(const char* wide, std::vector<std::string>& names) {
  OperationTable all = scaled_pairs<Kind::kFp8, kNumber>("fp8", wide, names);
  for (OperationTable part : {scaled_pairs<Kind::kBf8, kNumber>("bf8", wide, names),
                              scaled_pairs<Kind::kFp4, kNumber>("fp4", wide, names),
                              scaled_rows<Kind::kFp6, kNumber>("fp6", wide, names),
                              scaled_rows<Kind::kBf6, kNumber>("bf6", wide, names)})
    all.merge(part);
  names.push_back(std::string("v_cvt_scalef32_sr_pk_fp4_") + wide);
  all.emplace(names.back(), stochastic_fp4_pair<kNumber>);
  return all;
}

}  // namespace

const OperationTable& small_float_conversions() {
  static std::vector<std::string> names;  // what the table's keys point into
  static const OperationTable table = [] {
    names.reserve(128);
    OperationTable all = unscaled();
    for (OperationTable part :
         {scaled_all<Number::kF32>("f32", names), scaled_all<Number::kF16>("f16", names),
          scaled_all<Number::kBf16>("bf16", names)})
      all.merge(part);
    return all;
  }();
  return table;
}

}  // namespace hipsim
