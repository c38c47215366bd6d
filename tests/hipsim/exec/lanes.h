// How vector arithmetic reads, computes and writes the lanes of a wave.
//
// An operation is a formula on one lane's values; `op<D, S...>(formula)` makes it executable: it
// loads every source as its type tag says (register, scalar or constant; DPP, SDWA, op_sel; abs and
// neg; flushed denormals), applies the formula to all lanes in a loop that the compiler can
// vectorise, and stores the results under EXEC (omod, clamp, flushed denormals, SDWA, op_sel),
// with the lanes that stem from undefined ones.
#pragma once

#include <array>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/hipsim/exec/half.h"
#include "tests/hipsim/exec/wave.h"

namespace hipsim {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

// HIPSIM_FAST(f, (parameters), (arguments)) defines f from f_body, which is always inlined: once
// for CPUs with AVX2 and FMA and once for all others.
#define HIPSIM_INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)
inline bool has_avx2_and_fma() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}
#define HIPSIM_FAST(f, parameters, arguments)                                                 \
  __attribute__((target("avx2,fma"))) static void f##_fast parameters { f##_body arguments; } \
  void f parameters {                                                                         \
    if (has_avx2_and_fma()) return f##_fast arguments;                                        \
    f##_body arguments;                                                                       \
  }
#else
#define HIPSIM_FAST(f, parameters, arguments) \
  void f parameters { f##_body arguments; }
#endif

template <typename T>
struct alignas(64) Lanes {
  T lane[kLanes];
  T& operator[](int i) { return lane[i]; }
  const T& operator[](int i) const { return lane[i]; }
};

template <typename To, typename From>
To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof result);
  return result;
}

// Lane `lane`'s source lane under a DPP control, or -1 where there is none.
int dpp_source(int control, int lane);

// What a source is before its type matters: its 32-bit dwords in all lanes.
void load_dword(const Wave& wave, const Instruction& in, int source, int dword, Lanes<u32>& out);

// Lanes of the source that are undefined.
u64 undefined_lanes(const Wave& wave, const Instruction& in, int source);

// Lanes that the instruction writes: EXEC, less what DPP's masks and its missing sources keep.
u64 written_lanes(const Wave& wave, const Instruction& in);

// Writes one dword of a destination in the lanes `mask`; `undefined` lanes become so.
void store_dword(Wave& wave, const Operand& dst, int dword, const Lanes<u32>& value, u64 mask,
                 u64 undefined);

// Places results narrower or equal to a dword as SDWA's dst_sel and dst_unused say.
void place_sdwa(const Wave& wave, const Instruction& in, Lanes<u32>& value);

// State of one execution.
struct Context {
  Context(Wave& wave, const Instruction& in)
      : wave(wave), in(in), mask(in.is_dpp ? written_lanes(wave, in) : wave.exec()) {}
  Wave& wave;
  const Instruction& in;
  u64 mask;
  u64 undefined = 0;
  u64 undefined_high = 0;  // of upper dwords that the lower one of the result does not depend on
};

// ---------------------------------------------------------------------------------------------
// Denormals, clamping and output modifiers

inline float flush(float x) {
  const u32 bits = bits_as<u32>(x);
  return bits & 0x7f800000 ? x : bits_as<float>(bits & 0x80000000);
}

inline double flush(double x) {
  const u64 bits = bits_as<u64>(x);
  return bits & 0x7ff0000000000000 ? x : bits_as<double>(bits & 0x8000000000000000);
}

// f16 values are held as float: below 2^-14 they are denormal.
inline float flush_half(float x) { return std::fabs(x) < 0x1p-14f ? std::copysign(0.0f, x) : x; }

template <typename T>
T clamp_unit(T x, bool dx10) {
  if (std::isnan(x)) return dx10 ? T{0} : x;
  return x <= T{0} ? T{0} : x > T{1} ? T{1} : x;
}

// omod acts only where output denormals are flushed.
template <typename T>
void modify_outputs(const Context& c, Lanes<T>& value, bool denormals) {
  if (c.in.omod && !denormals) {
    constexpr float kScale[] = {1, 2, 4, 0.5f};
    for (int l = 0; l < kLanes; ++l) value[l] *= T(kScale[c.in.omod]);
  }
  if (c.in.clamp)
    for (int l = 0; l < kLanes; ++l) value[l] = clamp_unit(value[l], c.wave.mode.dx10_clamp());
}

inline bool is_plain(const Instruction& in, int source) {
  return in.src[source].kind == OperandKind::kVector && !in.is_sdwa && !in.is_dpp;
}

inline void load_raw(const Context& c, int source, Lanes<u32>& out) {
  if (is_plain(c.in, source)) {
    std::memcpy(&out, &c.wave.vgpr[c.in.src[source].index], sizeof out);
  } else {
    load_dword(c.wave, c.in, source, 0, out);
  }
}

inline void load_raw64(const Context& c, int source, Lanes<u64>& out) {
  Lanes<u32> low, high;
  load_dword(c.wave, c.in, source, 0, low);
  load_dword(c.wave, c.in, source, 1, high);
  for (int l = 0; l < kLanes; ++l) out[l] = low[l] | u64{high[l]} << 32;
}

inline void store_raw(Context& c, Lanes<u32>& value) {
  if (c.in.is_sdwa) place_sdwa(c.wave, c.in, value);
  store_dword(c.wave, c.in.dst, 0, value, c.mask, c.undefined);
}

inline void store_raw64(Context& c, const Lanes<u64>& value, u64 low_undefined) {
  Lanes<u32> half;
  for (int l = 0; l < kLanes; ++l) half[l] = static_cast<u32>(value[l]);
  store_dword(c.wave, c.in.dst, 0, half, c.mask, low_undefined);
  for (int l = 0; l < kLanes; ++l) half[l] = value[l] >> 32;
  store_dword(c.wave, c.in.dst, 1, half, c.mask, c.undefined);
}

inline void store_raw64(Context& c, const Lanes<u64>& value) { store_raw64(c, value, c.undefined); }

// Selects the half of a 16-bit source that op_sel names.
inline void load_half_bits(const Context& c, int source, Lanes<u32>& out) {
  load_raw(c, source, out);
  const int shift = c.in.format == Format::kVop3 && c.in.op_sel >> source & 1 ? 16 : 0;
  for (int l = 0; l < kLanes; ++l) out[l] = out[l] >> shift & 0xffff;
}

// A 16-bit result in the half op_sel names; the other one is kept if `keep`, else zero.
inline void store_half_bits(Context& c, Lanes<u32>& value, bool keep) {
  const bool high = c.in.format == Format::kVop3 && c.in.op_sel & 8;
  if (high || keep) {
    const VectorRegister& old = c.wave.vgpr[c.in.dst.index];
    for (int l = 0; l < kLanes; ++l)
      value[l] = high ? (old[l] & 0xffff) | value[l] << 16 : (old[l] & 0xffff0000) | value[l];
  }
  store_raw(c, value);
}

template <typename Bits>
void sign_modifiers(const Instruction& in, int source, Lanes<Bits>& value, Bits sign) {
  if (in.abs >> source & 1)
    for (int l = 0; l < kLanes; ++l) value[l] &= ~sign;
  if (in.neg >> source & 1)
    for (int l = 0; l < kLanes; ++l) value[l] ^= sign;
}

// ---------------------------------------------------------------------------------------------
// Type tags: Value is what a formula sees.

struct F32 {
  using Value = float;
  static constexpr int kRounding = 32;
  static void load(const Context& c, int source, Lanes<float>& out) {
    Lanes<u32> bits;
    load_raw(c, source, bits);
    if (c.in.abs | c.in.neg) sign_modifiers(c.in, source, bits, 0x80000000u);
    std::memcpy(&out, &bits, sizeof out);
    if (!c.wave.mode.input_denormals32())
      for (int l = 0; l < kLanes; ++l) out[l] = flush(out[l]);
  }
  static void store(Context& c, Lanes<float>& value) {
    const bool denormals = c.wave.mode.output_denormals32();
    if (c.in.omod || c.in.clamp) modify_outputs(c, value, denormals);
    if (!denormals)
      for (int l = 0; l < kLanes; ++l) value[l] = flush(value[l]);
    Lanes<u32> bits;
    std::memcpy(&bits, &value, sizeof bits);
    store_raw(c, bits);
  }
};

inline void round_to_half(const Mode& mode, const Lanes<float>& value, Lanes<u32>& bits);

struct F16 {
  using Value = float;
  static constexpr int kRounding = 16;
  static void load(const Context& c, int source, Lanes<float>& out) {
    Lanes<u32> bits;
    load_half_bits(c, source, bits);
    sign_modifiers(c.in, source, bits, 0x8000u);
    for (int l = 0; l < kLanes; ++l) out[l] = HalfToFloat(static_cast<uint16_t>(bits[l]));
    if (!c.wave.mode.input_denormals64())
      for (int l = 0; l < kLanes; ++l) out[l] = flush_half(out[l]);
  }
  static void store_keeping(Context& c, Lanes<float>& value, bool keep) {
    const bool denormals = c.wave.mode.output_denormals64();
    if (c.in.omod || c.in.clamp) modify_outputs(c, value, denormals);
    Lanes<u32> bits;
    round_to_half(c.wave.mode, value, bits);
    store_half_bits(c, bits, keep);
  }
  static void store(Context& c, Lanes<float>& value) { store_keeping(c, value, false); }
};

// Instructions new in GFX9 leave the other half of the destination alone.
struct F16Keep : F16 {
  static void store(Context& c, Lanes<float>& value) { store_keeping(c, value, true); }
};

// f16 formulas that need an exact product: the value is a double, rounded once.
struct F16Wide {
  using Value = double;
  static constexpr int kRounding = 16;
  static void load(const Context& c, int source, Lanes<double>& out) {
    Lanes<float> value;
    F16::load(c, source, value);
    for (int l = 0; l < kLanes; ++l) out[l] = value[l];
  }
  static void store_keeping(Context& c, Lanes<double>& value, bool keep);
  static void store(Context& c, Lanes<double>& value) { store_keeping(c, value, false); }
};

struct F16WideKeep : F16Wide {
  static void store(Context& c, Lanes<double>& value) { store_keeping(c, value, true); }
};

struct F64 {
  using Value = double;
  static constexpr int kRounding = 64;
  static void load(const Context& c, int source, Lanes<double>& out) {
    Lanes<u64> bits;
    load_raw64(c, source, bits);
    sign_modifiers(c.in, source, bits, u64{1} << 63);
    std::memcpy(&out, &bits, sizeof out);
    if (!c.wave.mode.input_denormals64())
      for (int l = 0; l < kLanes; ++l) out[l] = flush(out[l]);
  }
  static void store(Context& c, Lanes<double>& value) {
    const bool denormals = c.wave.mode.output_denormals64();
    modify_outputs(c, value, denormals);
    if (!denormals)
      for (int l = 0; l < kLanes; ++l) value[l] = flush(value[l]);
    Lanes<u64> bits;
    std::memcpy(&bits, &value, sizeof bits);
    store_raw64(c, bits);
  }
};

struct Bf16 {
  using Value = float;
  static constexpr int kRounding = 32;
  static void load(const Context& c, int source, Lanes<float>& out) {
    Lanes<u32> bits;
    load_half_bits(c, source, bits);
    sign_modifiers(c.in, source, bits, 0x8000u);
    for (int l = 0; l < kLanes; ++l) out[l] = bits_as<float>(bits[l] << 16);
  }
};

struct U32 {
  using Value = u32;
  static constexpr int kRounding = 0;
  static void load(const Context& c, int source, Lanes<u32>& out) { load_raw(c, source, out); }
  static void store(Context& c, Lanes<u32>& value) { store_raw(c, value); }
};

struct I32 {
  using Value = i32;
  static constexpr int kRounding = 0;
  static void load(const Context& c, int source, Lanes<i32>& out) {
    load_raw(c, source, reinterpret_cast<Lanes<u32>&>(out));
  }
  static void store(Context& c, Lanes<i32>& value) {
    store_raw(c, reinterpret_cast<Lanes<u32>&>(value));
  }
};

// 32-bit data that abs and neg change as they would a float: v_cndmask and v_mov.
struct B32 : U32 {
  static void load(const Context& c, int source, Lanes<u32>& out) {
    load_raw(c, source, out);
    if (c.in.abs | c.in.neg) sign_modifiers(c.in, source, out, 0x80000000u);
  }
};

struct U64 {
  using Value = u64;
  static constexpr int kRounding = 0;
  static void load(const Context& c, int source, Lanes<u64>& out) { load_raw64(c, source, out); }
  static void store(Context& c, Lanes<u64>& value) { store_raw64(c, value); }
};

// Results whose low halves depend on nothing but the low halves of the sources, as sums do.
// Compilers leave the high halves undefined where they use no other.
struct Rising64 : U64 {
  static void store(Context& c, Lanes<u64>& value) {
    u64 low = 0;
    for (const Operand& operand : c.in.src)
      if (operand) low |= c.wave.read_vector_undefined(operand, 0);
    store_raw64(c, value, low);
  }
};

struct I64 {
  using Value = i64;
  static constexpr int kRounding = 0;
  static void load(const Context& c, int source, Lanes<i64>& out) {
    load_raw64(c, source, reinterpret_cast<Lanes<u64>&>(out));
  }
  static void store(Context& c, Lanes<i64>& value) {
    store_raw64(c, reinterpret_cast<Lanes<u64>&>(value));
  }
};

template <bool kSigned, bool kKeep>
struct Int16 {
  using Value = i32;
  static constexpr int kRounding = 0;
  static void load(const Context& c, int source, Lanes<i32>& out) {
    Lanes<u32> bits;
    load_half_bits(c, source, bits);
    for (int l = 0; l < kLanes; ++l)
      out[l] = kSigned ? static_cast<int16_t>(bits[l]) : static_cast<i32>(bits[l]);
  }
  static void store(Context& c, Lanes<i32>& value) {
    Lanes<u32> bits;
    for (int l = 0; l < kLanes; ++l) bits[l] = value[l] & 0xffff;
    store_half_bits(c, bits, kKeep);
  }
};
using I16 = Int16<true, false>;
using U16 = Int16<false, false>;
using I16Keep = Int16<true, true>;
using U16Keep = Int16<false, true>;

// Results that clamp saturates: the formula gives the exact value.
template <typename Stored, i64 kLow, i64 kHigh>
struct Saturating {
  using Value = i64;
  static constexpr int kRounding = 0;
  static void store(Context& c, Lanes<i64>& value) {
    Lanes<typename Stored::Value> out;
    if (c.in.clamp)
      for (int l = 0; l < kLanes; ++l)
        value[l] = value[l] < kLow ? kLow : value[l] > kHigh ? kHigh : value[l];
    for (int l = 0; l < kLanes; ++l) out[l] = static_cast<typename Stored::Value>(value[l]);
    Stored::store(c, out);
  }
};
using SatI32 = Saturating<I32, INT32_MIN, INT32_MAX>;
using SatU32 = Saturating<U32, 0, UINT32_MAX>;
using SatI16 = Saturating<I16, INT16_MIN, INT16_MAX>;
using SatU16 = Saturating<U16, 0, UINT16_MAX>;
using SatI16Keep = Saturating<I16Keep, INT16_MIN, INT16_MAX>;
using SatU16Keep = Saturating<U16Keep, 0, UINT16_MAX>;

// The destination's old value as a further source.
template <typename Tag>
struct Old {
  using Value = typename Tag::Value;
};

template <typename Tag>
struct Load {
  static void run(Context& c, int source, Lanes<typename Tag::Value>& out) {
    Tag::load(c, source, out);
    c.undefined |= undefined_lanes(c.wave, c.in, source);
  }
};

// A 64-bit source whose upper dword cannot change the result's lower one: sums and left shifts. The
// compiler leaves upper dwords unwritten where it wants the lower result alone.
struct Upward64 : U64 {};

template <>
struct Load<Upward64> {
  static void run(Context& c, int source, Lanes<u64>& out) {
    U64::load(c, source, out);
    const Operand& operand = c.in.src[source];
    if (operand.kind == OperandKind::kConstant) return;
    c.undefined |= c.wave.read_vector_undefined(operand, 0);
    c.undefined_high |= c.wave.read_vector_undefined(operand, 1);
  }
};

// Reads the destination as if it were an unmodified source 0.
template <typename Tag>
struct Load<Old<Tag>> {
  static void run(Context& c, int, Lanes<typename Tag::Value>& out) {
    Instruction plain = c.in;
    plain.src[0] = c.in.dst;
    plain.is_sdwa = plain.is_dpp = false;
    plain.abs = plain.neg = plain.op_sel = 0;
    Context old(c.wave, plain);
    Load<Tag>::run(old, 0, out);
    c.undefined |= old.undefined;
  }
};

// ---------------------------------------------------------------------------------------------
// Rounding as MODE says, for formulas that round in floating point.

class RoundingScope {
 public:
  RoundingScope(const Mode& mode, int bits) {
    const int round = bits == 32 ? mode.round32() : bits ? mode.round64() : 0;
    if (!round) return;
    constexpr int kModes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    changed_ = true;
    std::fesetround(kModes[round]);
  }
  ~RoundingScope() {
    if (changed_) std::fesetround(FE_TONEAREST);
  }

 private:
  bool changed_ = false;
};

// Rounds to f16 bits: `mode` 0 to nearest even, 1 up, 2 down, 3 toward zero.
uint16_t half_bits(double value, int mode);

inline void round_to_half(const Mode& mode, const Lanes<float>& value, Lanes<u32>& bits) {
  if (mode.round64() || !mode.output_denormals64()) {
    for (int l = 0; l < kLanes; ++l) {
      bits[l] = half_bits(value[l], mode.round64());
      if (!mode.output_denormals64() && !(bits[l] & 0x7c00)) bits[l] &= 0x8000;
    }
    return;
  }
  for (int l = 0; l < kLanes; ++l) bits[l] = FloatToHalf(value[l]);
}

inline void F16Wide::store_keeping(Context& c, Lanes<double>& value, bool keep) {
  const bool denormals = c.wave.mode.output_denormals64();
  modify_outputs(c, value, denormals);
  Lanes<u32> bits;
  for (int l = 0; l < kLanes; ++l) {
    bits[l] = half_bits(value[l], c.wave.mode.round64());
    if (!denormals && !(bits[l] & 0x7c00)) bits[l] &= 0x8000;
  }
  store_half_bits(c, bits, keep);
}

// ---------------------------------------------------------------------------------------------
// The drivers

template <typename D, typename Formula, typename... S, size_t... I>
void compute(Context& c, Lanes<typename D::Value>& out, std::index_sequence<I...>) {
  std::tuple<Lanes<typename S::Value>...> sources;
  (Load<S>::run(c, static_cast<int>(I), std::get<I>(sources)), ...);
  RoundingScope rounding(c.wave.mode, D::kRounding);
  for (int l = 0; l < kLanes; ++l)
    out[l] = static_cast<typename D::Value>(Formula{}(std::get<I>(sources)[l]...));
}

template <typename D, typename Formula, typename... S>
void run_op(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<typename D::Value> out;
  compute<D, Formula, S...>(c, out, std::index_sequence_for<S...>{});
  D::store(c, out);
}

template <typename D, typename... S, typename Formula>
Execute op(Formula) {
  return run_op<D, Formula, S...>;
}

// Bit l of the result is byte l of `bytes`, each 0 or 1. The product moves the lowest bits of eight
// bytes together at the top.
inline u64 gather_bits(const uint8_t* bytes) {
  u64 mask = 0;
  for (int group = 0; group < 8; ++group) {
    u64 eight;
    std::memcpy(&eight, bytes + 8 * group, sizeof eight);
    mask |= ((eight * 0x0102040810204080) >> 56) << (8 * group);
  }
  return mask;
}

// out = a * b + c, rounded once: std::fma in every lane.
void fma_lanes(const Lanes<float>& a, const Lanes<float>& b, const Lanes<float>& c,
               Lanes<float>& out);

// Compares: the mask of active lanes whose formula holds.
void store_mask(Context& c, const Operand& dst, u64 bits);

template <typename Formula, typename... S, size_t... I>
u64 compute_mask(Context& c, std::index_sequence<I...>) {
  std::tuple<Lanes<typename S::Value>...> sources;
  (Load<S>::run(c, static_cast<int>(I), std::get<I>(sources)), ...);
  alignas(64) uint8_t holds[kLanes];
  for (int l = 0; l < kLanes; ++l) holds[l] = Formula{}(std::get<I>(sources)[l]...);
  return gather_bits(holds);
}

template <typename Formula, typename... S>
void run_compare(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  const u64 mask = compute_mask<Formula, S...>(c, std::index_sequence_for<S...>{});
  store_mask(c, in.dst, mask);
}

template <typename... S, typename Formula>
Execute compare(Formula) {
  return run_compare<Formula, S...>;
}

}  // namespace hipsim
