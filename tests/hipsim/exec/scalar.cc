// Scalar arithmetic, branches and the MODE register.
//
// Each opcode's formula is a lambda in a table; templates around it read operands, write the
// result and SCC, and carry undefined bits along.
#include <algorithm>
#include <bit>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "tests/hipsim/exec/wave.h"

namespace hipsim {

namespace {

using u32 = uint32_t;
using i32 = int32_t;
using u64 = uint64_t;
using i64 = int64_t;

struct Result {
  u64 value;
  bool scc = false;
};

Result nonzero(u64 value) { return {value, value != 0}; }

u64 all_bits(const Operand& operand) { return operand.dwords > 1 ? ~u64{0} : 0xffffffff; }

// Any undefined bit of a source makes all of an arithmetic result undefined.
u64 undefined_sources(const Wave& wave, const Instruction& in) {
  u64 undefined = 0;
  for (int i = 0; i < 2 && in.src[i]; ++i) undefined |= wave.read_scalar_undefined(in.src[i]);
  if (in.reads_scc && wave.scc_undefined) undefined = ~u64{0};
  return undefined;
}

void write(Wave& wave, const Operand& dst, u64 value, u64 undefined) {
  if (dst.kind != OperandKind::kScalar) return;
  const bool is_exec = dst.index + dst.dwords > kExec;
  if (is_exec && undefined & all_bits(dst))
    throw Fault("EXEC would be set from a register or memory that was never written");
  if (dst.dwords > 1) {
    wave.set_scalar64(dst.index, value, undefined);
  } else {
    wave.set_scalar(dst.index, static_cast<u32>(value), static_cast<u32>(undefined));
  }
}

void set_scc(Wave& wave, bool value, bool undefined) {
  wave.scc = value;
  wave.scc_undefined = undefined;
}

u64 second_source(const Wave& wave, const Instruction& in) {
  if (in.format == Format::kSopk) return static_cast<u64>(static_cast<i64>(in.simm16));
  return in.src[1] ? wave.read_scalar(in.src[1]) : 0;
}

u64 first_source(const Wave& wave, const Instruction& in) {
  const Operand& operand = in.src[0] ? in.src[0] : in.dst;
  return operand.kind == OperandKind::kNone ? 0 : wave.read_scalar(operand);
}

// Formula: Result(u64 a, u64 b, bool scc). SOPK's second source is the immediate, and its first
// one the destination where it has no other.
template <typename Formula>
void run_arithmetic(Wave& wave, const Instruction& in) {
  const u64 a = first_source(wave, in), b = second_source(wave, in);
  u64 undefined = undefined_sources(wave, in);
  if (!in.src[0] && in.reads.count) undefined |= wave.read_scalar_undefined(in.dst);
  const Result result = Formula{}(a, b, wave.scc);
  write(wave, in.dst, result.value, undefined ? all_bits(in.dst) : 0);
  if (in.writes_scc) set_scc(wave, result.scc, undefined != 0);
}

template <typename Formula>
void run_compare(Wave& wave, const Instruction& in) {
  const u64 a = first_source(wave, in), b = second_source(wave, in);
  set_scc(wave, Formula{}(a, b), undefined_sources(wave, in) != 0);
}

// ---------------------------------------------------------------------------------------------
// Bitwise operations know which bits stay defined.

struct Bits {
  u64 value;
  u64 undefined;
};

Bits operator~(Bits a) { return {~a.value, a.undefined}; }

// A defined 0 decides AND; a defined 1 decides OR.
Bits operator&(Bits a, Bits b) {
  const u64 decided = (~a.value & ~a.undefined) | (~b.value & ~b.undefined);
  return {a.value & b.value, (a.undefined | b.undefined) & ~decided};
}

Bits operator|(Bits a, Bits b) { return ~(~a & ~b); }

Bits operator^(Bits a, Bits b) { return {a.value ^ b.value, a.undefined | b.undefined}; }

Bits read_bits(const Wave& wave, const Operand& operand) {
  return {wave.read_scalar(operand), wave.read_scalar_undefined(operand)};
}

// SCC = result is not zero: known as soon as one defined bit is set.
void write_bits(Wave& wave, const Instruction& in, const Operand& dst, Bits result) {
  const u64 mask = all_bits(dst);
  result = {result.value & mask, result.undefined & mask};
  write(wave, dst, result.value, result.undefined);
  if (!in.writes_scc) return;
  const bool known = result.undefined == 0 || (result.value & ~result.undefined) != 0;
  set_scc(wave, result.value != 0, !known);
}

template <typename Formula>
void run_bitwise(Wave& wave, const Instruction& in) {
  const Bits a = read_bits(wave, in.src[0]);
  write_bits(wave, in, in.dst, Formula{}(a, in.src[1] ? read_bits(wave, in.src[1]) : Bits{0, 0}));
}

const Operand kExecOperand = {OperandKind::kScalar, 'l', 2, kExec};

// D = EXEC; EXEC = formula(S0, EXEC).
template <typename Formula>
void run_save_exec(Wave& wave, const Instruction& in) {
  const Bits exec = read_bits(wave, kExecOperand), source = read_bits(wave, in.src[0]);
  write(wave, in.dst, exec.value, exec.undefined);
  write_bits(wave, in, kExecOperand, Formula{}(source, exec));
}

// EXEC = formula(S0, EXEC); D = EXEC.
template <typename Formula>
void run_write_exec(Wave& wave, const Instruction& in) {
  const Bits result = Formula{}(read_bits(wave, in.src[0]), read_bits(wave, kExecOperand));
  write_bits(wave, in, kExecOperand, result);
  write(wave, in.dst, result.value, result.undefined);
}

void move(Wave& wave, const Instruction& in) {
  const Bits bits = read_bits(wave, in.src[0]);
  write(wave, in.dst, bits.value, bits.undefined);
}

void move_immediate(Wave& wave, const Instruction& in) {
  write(wave, in.dst, static_cast<u64>(static_cast<i64>(in.simm16)), 0);
}

void require_scc(const Wave& wave, const char* what) {
  if (wave.scc_undefined)
    throw Fault(std::string(what) +
                " depends on SCC, which comes from a register or memory never written");
}

void conditional_move(Wave& wave, const Instruction& in) {
  require_scc(wave, "the move");
  if (!wave.scc) return;
  in.format == Format::kSopk ? move_immediate(wave, in) : move(wave, in);
}

void conditional_select(Wave& wave, const Instruction& in) {
  require_scc(wave, "the selection");
  const Bits bits = read_bits(wave, in.src[wave.scc ? 0 : 1]);
  write(wave, in.dst, bits.value, bits.undefined);
}

// D[S0] = kBit.
template <bool kBit>
void set_bit(Wave& wave, const Instruction& in) {
  Bits bits = read_bits(wave, in.dst);
  const u64 mask = u64{1} << (wave.read_scalar(in.src[0]) & (in.dst.dwords * 32 - 1));
  bits.value = kBit ? bits.value | mask : bits.value & ~mask;
  const bool unknown_place = wave.read_scalar_undefined(in.src[0]) != 0;
  write(wave, in.dst, bits.value, unknown_place ? all_bits(in.dst) : bits.undefined & ~mask);
}

// ---------------------------------------------------------------------------------------------
// Program counter

void jump_relative(Wave& wave, const Instruction& in) {
  wave.pc = in.address + in.size + static_cast<i64>(in.simm16) * 4;
}

template <bool kWanted>
void branch_scc(Wave& wave, const Instruction& in) {
  require_scc(wave, "the branch");
  if (wave.scc == kWanted) jump_relative(wave, in);
}

// VCC is zero, unless a defined bit is set; undefined bits alone do not decide it.
template <bool kZero>
void branch_vcc(Wave& wave, const Instruction& in) {
  const u64 undefined = wave.undefined64(kVcc);
  if (undefined && !(wave.vcc() & ~undefined))
    throw Fault("the branch depends on VCC, which comes from a register or memory never written");
  if ((wave.vcc() == 0) == kZero) jump_relative(wave, in);
}

template <bool kZero>
void branch_exec(Wave& wave, const Instruction& in) {
  if ((wave.exec() == 0) == kZero) jump_relative(wave, in);
}

void get_pc(Wave& wave, const Instruction& in) {
  wave.set_scalar64(in.dst.index, in.address + in.size);
}

void set_pc(Wave& wave, const Instruction& in) {
  if (wave.read_scalar_undefined(in.src[0]))
    throw Fault("jumps to an address from a register or memory never written");
  const u64 target = wave.read_scalar(in.src[0]);
  if (in.dst) get_pc(wave, in);
  wave.pc = target;
}

void call(Wave& wave, const Instruction& in) {
  get_pc(wave, in);
  jump_relative(wave, in);
}

// ---------------------------------------------------------------------------------------------
// Hardware registers: simm16 holds number, first bit << 6 and bits - 1 << 11.

enum HardwareRegister {
  kModeRegister = 1,
  kStatusRegister = 2,
  kTrapStatus = 3,
  kHardwareId = 4,
  kMemoryBases = 15,
  kXccId = 20
};

u32 read_hardware(const Wave& wave, int id) {
  switch (id) {
    case kModeRegister:
      return wave.mode.bits;
    case kStatusRegister:  // SCC, EXECZ, VCCZ
      return wave.scc | (wave.exec() == 0) << 9 | (wave.vcc() == 0) << 10;
    case kTrapStatus:
      return 0;
    case kHardwareId:
      return wave.hardware_id;
    case kMemoryBases:
      return (wave.private_base >> 48) | (wave.shared_base >> 48) << 16;
    case kXccId:
      return wave.xcc_id;
    default:
      throw Fault("hardware register " + std::to_string(id) +
                  " is not simulated: expected MODE (1), STATUS (2), TRAPSTS (3), HW_ID (4), "
                  "SH_MEM_BASES (15) or XCC_ID (20)");
  }
}

struct HardwareField {
  explicit HardwareField(int simm16)
      : id(simm16 & 63),
        shift(simm16 >> 6 & 31),
        mask(static_cast<u32>((u64{2} << (simm16 >> 11 & 31)) - 1)) {}
  int id;
  int shift;
  u32 mask;
};

void get_register(Wave& wave, const Instruction& in) {
  const HardwareField field(in.simm16);
  write(wave, in.dst, read_hardware(wave, field.id) >> field.shift & field.mask, 0);
}

void set_register(Wave& wave, const Instruction& in) {
  const HardwareField field(in.simm16);
  if (field.id == kTrapStatus) return;
  if (field.id != kModeRegister)
    throw Fault("writes hardware register " + std::to_string(field.id) +
                ": only MODE (1) is simulated");
  if (wave.read_scalar_undefined(in.src[0]))
    throw Fault("MODE would be set from a register or memory never written");
  const u32 mask = field.mask << field.shift;
  const u32 value = static_cast<u32>(wave.read_scalar(in.src[0])) << field.shift;
  wave.mode.bits = (wave.mode.bits & ~mask) | (value & mask);
}

// ---------------------------------------------------------------------------------------------
// SGPR index = operand's + M0.

Operand relative(const Wave& wave, Operand operand) {
  if (wave.sgpr_undefined[kM0]) throw Fault("the SGPR index in M0 was never written");
  const u64 index = u64{operand.index} + wave.m0();
  if (index + operand.dwords > 102)
    throw Fault("SGPR " + std::to_string(index) + " is out of range: M0 is too large");
  operand.index = static_cast<uint16_t>(index);
  return operand;
}

void move_relative_source(Wave& wave, const Instruction& in) {
  const Bits bits = read_bits(wave, relative(wave, in.src[0]));
  write(wave, in.dst, bits.value, bits.undefined);
}

void move_relative_destination(Wave& wave, const Instruction& in) {
  const Bits bits = read_bits(wave, in.src[0]);
  write(wave, relative(wave, in.dst), bits.value, bits.undefined);
}

// ---------------------------------------------------------------------------------------------
// Formulas

i32 s32(u64 a) { return static_cast<i32>(a); }
u32 w32(u64 a) { return static_cast<u32>(a); }
i64 s64(u64 a) { return static_cast<i64>(a); }

Result add_signed(i64 sum) {
  return {w32(static_cast<u64>(sum)), sum != s32(static_cast<u64>(sum))};
}

// Index of the first bit from the top that differs from the sign bit, or -1.
template <typename T>
i32 first_bit_unlike_sign(T a) {
  const auto bits = static_cast<std::make_unsigned_t<T>>(a < 0 ? ~a : a);
  return bits ? std::countl_zero(bits) : -1;
}

// Each group of four bits becomes all ones if any bit of it is set.
u64 whole_quads(u64 a) {
  u64 result = 0;
  for (int quad = 0; quad < 16; ++quad)
    if (a >> (4 * quad) & 15) result |= u64{15} << (4 * quad);
  return result;
}

u64 quad_mask(u64 a) {
  u64 result = 0;
  for (int quad = 0; quad < 16; ++quad) result |= u64{(a >> (4 * quad) & 15) != 0} << quad;
  return result;
}

u64 reverse(u64 a, int width) {
  u64 result = 0;
  for (int bit = 0; bit < width; ++bit) result |= (a >> bit & 1) << (width - 1 - bit);
  return result;
}

u64 replicate_bits(u64 a) {
  u64 result = 0;
  for (int bit = 0; bit < 32; ++bit) result |= (a >> bit & 1) * (u64{3} << (2 * bit));
  return result;
}

// S1 holds the first bit and, from bit 16, the width.
u64 extract_unsigned(u64 a, u64 b, int width) {
  const int offset = b & (width - 1), count = b >> 16 & 127;
  const u64 shifted = a >> offset;
  return count >= 64 ? shifted : shifted & ((u64{1} << count) - 1);
}

u64 extract_signed(i64 a, u64 b, int width) {
  const int offset = b & (width - 1), count = std::min<int>(b >> 16 & 127, width - offset);
  if (count == 0) return 0;
  return static_cast<u64>(static_cast<i64>(static_cast<u64>(a >> offset) << (64 - count)) >>
                          (64 - count));
}

Result with_carry(u64 sum) { return {w32(sum), sum >> 32 != 0}; }

Result shift_add(u64 a, u64 b, int shift) {
  const u64 sum = (u64{w32(a)} << shift) + w32(b);
  return with_carry(sum);
}

template <typename Formula>
Execute arithmetic(Formula) {
  return run_arithmetic<Formula>;
}

template <typename Formula>
Execute compare(Formula) {
  return run_compare<Formula>;
}

template <typename Formula>
Execute bitwise(Formula) {
  return run_bitwise<Formula>;
}

template <typename Formula>
Execute save_exec(Formula) {
  return run_save_exec<Formula>;
}

template <typename Formula>
Execute write_exec(Formula) {
  return run_write_exec<Formula>;
}

const std::unordered_map<std::string_view, Execute> kTable = {
    {"s_add_u32", arithmetic([](u64 a, u64 b, bool) {
       const u64 sum = u64{w32(a)} + w32(b);
       return with_carry(sum);
     })},
    {"s_sub_u32", arithmetic([](u64 a, u64 b, bool) { return Result{a - b, w32(a) < w32(b)}; })},
    {"s_add_i32", arithmetic([](u64 a, u64 b, bool) { return add_signed(i64{s32(a)} + s32(b)); })},
    {"s_sub_i32", arithmetic([](u64 a, u64 b, bool) { return add_signed(i64{s32(a)} - s32(b)); })},
    {"s_addc_u32", arithmetic([](u64 a, u64 b, bool scc) {
       const u64 sum = u64{w32(a)} + w32(b) + scc;
       return with_carry(sum);
     })},
    {"s_subb_u32", arithmetic([](u64 a, u64 b, bool scc) {
       return Result{a - b - scc, u64{w32(b)} + scc > w32(a)};
     })},
    {"s_min_i32", arithmetic([](u64 a, u64 b, bool) {
       return Result{s32(a) < s32(b) ? a : b, s32(a) < s32(b)};
     })},
    {"s_min_u32", arithmetic([](u64 a, u64 b, bool) {
       return Result{w32(a) < w32(b) ? a : b, w32(a) < w32(b)};
     })},
    {"s_max_i32", arithmetic([](u64 a, u64 b, bool) {
       return Result{s32(a) > s32(b) ? a : b, s32(a) > s32(b)};
     })},
    {"s_max_u32", arithmetic([](u64 a, u64 b, bool) {
       return Result{w32(a) > w32(b) ? a : b, w32(a) > w32(b)};
     })},
    {"s_lshl_b32", arithmetic([](u64 a, u64 b, bool) { return nonzero(w32(a << (b & 31))); })},
    {"s_lshl_b64", arithmetic([](u64 a, u64 b, bool) { return nonzero(a << (b & 63)); })},
    {"s_lshr_b32", arithmetic([](u64 a, u64 b, bool) { return nonzero(w32(a) >> (b & 31)); })},
    {"s_lshr_b64", arithmetic([](u64 a, u64 b, bool) { return nonzero(a >> (b & 63)); })},
    {"s_ashr_i32", arithmetic([](u64 a, u64 b, bool) { return nonzero(w32(s32(a) >> (b & 31))); })},
    {"s_ashr_i64", arithmetic([](u64 a, u64 b, bool) { return nonzero(s64(a) >> (b & 63)); })},
    {"s_bfm_b32",
     arithmetic([](u64 a, u64 b, bool) { return Result{((u64{1} << (a & 31)) - 1) << (b & 31)}; })},
    {"s_bfm_b64",
     arithmetic([](u64 a, u64 b, bool) { return Result{((u64{1} << (a & 63)) - 1) << (b & 63)}; })},
    {"s_mul_i32", arithmetic([](u64 a, u64 b, bool) { return Result{w32(a) * w32(b)}; })},
    {"s_mulk_i32", arithmetic([](u64 a, u64 b, bool) { return Result{w32(a) * w32(b)}; })},
    {"s_addk_i32", arithmetic([](u64 a, u64 b, bool) { return add_signed(i64{s32(a)} + s32(b)); })},
    {"s_mul_hi_u32",
     arithmetic([](u64 a, u64 b, bool) { return Result{((u64{w32(a)} * w32(b)) >> 32)}; })},
    {"s_mul_hi_i32", arithmetic([](u64 a, u64 b, bool) {
       return Result{static_cast<u64>((i64{s32(a)} * s32(b)) >> 32)};
     })},
    {"s_bfe_u32",
     arithmetic([](u64 a, u64 b, bool) { return nonzero(extract_unsigned(w32(a), b, 32)); })},
    {"s_bfe_i32",
     arithmetic([](u64 a, u64 b, bool) { return nonzero(w32(extract_signed(s32(a), b, 32))); })},
    {"s_bfe_u64",
     arithmetic([](u64 a, u64 b, bool) { return nonzero(extract_unsigned(a, b, 64)); })},
    {"s_bfe_i64",
     arithmetic([](u64 a, u64 b, bool) { return nonzero(extract_signed(s64(a), b, 64)); })},
    {"s_absdiff_i32", arithmetic([](u64 a, u64 b, bool) {
       const u32 difference = w32(a) - w32(b);
       return nonzero(s32(difference) < 0 ? -difference : difference);
     })},
    {"s_lshl1_add_u32", arithmetic([](u64 a, u64 b, bool) { return shift_add(a, b, 1); })},
    {"s_lshl2_add_u32", arithmetic([](u64 a, u64 b, bool) { return shift_add(a, b, 2); })},
    {"s_lshl3_add_u32", arithmetic([](u64 a, u64 b, bool) { return shift_add(a, b, 3); })},
    {"s_lshl4_add_u32", arithmetic([](u64 a, u64 b, bool) { return shift_add(a, b, 4); })},
    {"s_pack_ll_b32_b16",
     arithmetic([](u64 a, u64 b, bool) { return Result{(a & 0xffff) | b << 16}; })},
    {"s_pack_lh_b32_b16",
     arithmetic([](u64 a, u64 b, bool) { return Result{(a & 0xffff) | (b & 0xffff0000)}; })},
    {"s_pack_hh_b32_b16",
     arithmetic([](u64 a, u64 b, bool) { return Result{(w32(a) >> 16) | (b & 0xffff0000)}; })},

    {"s_wqm_b32", arithmetic([](u64 a, u64, bool) { return nonzero(whole_quads(w32(a))); })},
    {"s_wqm_b64", arithmetic([](u64 a, u64, bool) { return nonzero(whole_quads(a)); })},
    {"s_quadmask_b32", arithmetic([](u64 a, u64, bool) { return nonzero(quad_mask(w32(a))); })},
    {"s_quadmask_b64", arithmetic([](u64 a, u64, bool) { return nonzero(quad_mask(a)); })},
    {"s_brev_b32", arithmetic([](u64 a, u64, bool) { return Result{reverse(a, 32)}; })},
    {"s_brev_b64", arithmetic([](u64 a, u64, bool) { return Result{reverse(a, 64)}; })},
    {"s_bcnt0_i32_b32",
     arithmetic([](u64 a, u64, bool) { return nonzero(32 - std::popcount(w32(a))); })},
    {"s_bcnt0_i32_b64",
     arithmetic([](u64 a, u64, bool) { return nonzero(64 - std::popcount(a)); })},
    {"s_bcnt1_i32_b32",
     arithmetic([](u64 a, u64, bool) { return nonzero(std::popcount(w32(a))); })},
    {"s_bcnt1_i32_b64", arithmetic([](u64 a, u64, bool) { return nonzero(std::popcount(a)); })},
    {"s_ff0_i32_b32", arithmetic([](u64 a, u64, bool) {
       return Result{w32(a) == ~0u ? ~u64{0} : std::countr_one(w32(a))};
     })},
    {"s_ff0_i32_b64", arithmetic([](u64 a, u64, bool) {
       return Result{a == ~u64{0} ? ~u64{0} : std::countr_one(a)};
     })},
    {"s_ff1_i32_b32", arithmetic([](u64 a, u64, bool) {
       return Result{w32(a) == 0 ? ~u64{0} : std::countr_zero(w32(a))};
     })},
    {"s_ff1_i32_b64",
     arithmetic([](u64 a, u64, bool) { return Result{a == 0 ? ~u64{0} : std::countr_zero(a)}; })},
    {"s_flbit_i32_b32", arithmetic([](u64 a, u64, bool) {
       return Result{w32(a) == 0 ? ~u64{0} : std::countl_zero(w32(a))};
     })},
    {"s_flbit_i32_b64",
     arithmetic([](u64 a, u64, bool) { return Result{a == 0 ? ~u64{0} : std::countl_zero(a)}; })},
    {"s_flbit_i32", arithmetic([](u64 a, u64, bool) {
       return Result{static_cast<u64>(first_bit_unlike_sign(s32(a)))};
     })},
    {"s_flbit_i32_i64", arithmetic([](u64 a, u64, bool) {
       return Result{static_cast<u64>(first_bit_unlike_sign(s64(a)))};
     })},
    {"s_sext_i32_i8",
     arithmetic([](u64 a, u64, bool) { return Result{static_cast<u64>(static_cast<int8_t>(a))}; })},
    {"s_sext_i32_i16", arithmetic([](u64 a, u64, bool) {
       return Result{static_cast<u64>(static_cast<int16_t>(a))};
     })},
    {"s_abs_i32",
     arithmetic([](u64 a, u64, bool) { return nonzero(s32(a) < 0 ? w32(0 - a) : w32(a)); })},
    {"s_bitreplicate_b64_b32",
     arithmetic([](u64 a, u64, bool) { return Result{replicate_bits(w32(a))}; })},

    {"s_cmp_eq_i32", compare([](u64 a, u64 b) { return s32(a) == s32(b); })},
    {"s_cmp_lg_i32", compare([](u64 a, u64 b) { return s32(a) != s32(b); })},
    {"s_cmp_gt_i32", compare([](u64 a, u64 b) { return s32(a) > s32(b); })},
    {"s_cmp_ge_i32", compare([](u64 a, u64 b) { return s32(a) >= s32(b); })},
    {"s_cmp_lt_i32", compare([](u64 a, u64 b) { return s32(a) < s32(b); })},
    {"s_cmp_le_i32", compare([](u64 a, u64 b) { return s32(a) <= s32(b); })},
    {"s_cmp_eq_u32", compare([](u64 a, u64 b) { return w32(a) == w32(b); })},
    {"s_cmp_lg_u32", compare([](u64 a, u64 b) { return w32(a) != w32(b); })},
    {"s_cmp_gt_u32", compare([](u64 a, u64 b) { return w32(a) > w32(b); })},
    {"s_cmp_ge_u32", compare([](u64 a, u64 b) { return w32(a) >= w32(b); })},
    {"s_cmp_lt_u32", compare([](u64 a, u64 b) { return w32(a) < w32(b); })},
    {"s_cmp_le_u32", compare([](u64 a, u64 b) { return w32(a) <= w32(b); })},
    {"s_cmp_eq_u64", compare([](u64 a, u64 b) { return a == b; })},
    {"s_cmp_lg_u64", compare([](u64 a, u64 b) { return a != b; })},
    {"s_bitcmp0_b32", compare([](u64 a, u64 b) { return (a >> (b & 31) & 1) == 0; })},
    {"s_bitcmp1_b32", compare([](u64 a, u64 b) { return (a >> (b & 31) & 1) == 1; })},
    {"s_bitcmp0_b64", compare([](u64 a, u64 b) { return (a >> (b & 63) & 1) == 0; })},
    {"s_bitcmp1_b64", compare([](u64 a, u64 b) { return (a >> (b & 63) & 1) == 1; })},
    {"s_cmpk_eq_i32", compare([](u64 a, u64 b) { return s32(a) == s32(b); })},
    {"s_cmpk_lg_i32", compare([](u64 a, u64 b) { return s32(a) != s32(b); })},
    {"s_cmpk_gt_i32", compare([](u64 a, u64 b) { return s32(a) > s32(b); })},
    {"s_cmpk_ge_i32", compare([](u64 a, u64 b) { return s32(a) >= s32(b); })},
    {"s_cmpk_lt_i32", compare([](u64 a, u64 b) { return s32(a) < s32(b); })},
    {"s_cmpk_le_i32", compare([](u64 a, u64 b) { return s32(a) <= s32(b); })},
    {"s_cmpk_eq_u32", compare([](u64 a, u64 b) { return w32(a) == (b & 0xffff); })},
    {"s_cmpk_lg_u32", compare([](u64 a, u64 b) { return w32(a) != (b & 0xffff); })},
    {"s_cmpk_gt_u32", compare([](u64 a, u64 b) { return w32(a) > (b & 0xffff); })},
    {"s_cmpk_ge_u32", compare([](u64 a, u64 b) { return w32(a) >= (b & 0xffff); })},
    {"s_cmpk_lt_u32", compare([](u64 a, u64 b) { return w32(a) < (b & 0xffff); })},
    {"s_cmpk_le_u32", compare([](u64 a, u64 b) { return w32(a) <= (b & 0xffff); })},

    {"s_and_b32", bitwise([](Bits a, Bits b) { return a & b; })},
    {"s_and_b64", bitwise([](Bits a, Bits b) { return a & b; })},
    {"s_or_b32", bitwise([](Bits a, Bits b) { return a | b; })},
    {"s_or_b64", bitwise([](Bits a, Bits b) { return a | b; })},
    {"s_xor_b32", bitwise([](Bits a, Bits b) { return a ^ b; })},
    {"s_xor_b64", bitwise([](Bits a, Bits b) { return a ^ b; })},
    {"s_andn2_b32", bitwise([](Bits a, Bits b) { return a & ~b; })},
    {"s_andn2_b64", bitwise([](Bits a, Bits b) { return a & ~b; })},
    {"s_orn2_b32", bitwise([](Bits a, Bits b) { return a | ~b; })},
    {"s_orn2_b64", bitwise([](Bits a, Bits b) { return a | ~b; })},
    {"s_nand_b32", bitwise([](Bits a, Bits b) { return ~(a & b); })},
    {"s_nand_b64", bitwise([](Bits a, Bits b) { return ~(a & b); })},
    {"s_nor_b32", bitwise([](Bits a, Bits b) { return ~(a | b); })},
    {"s_nor_b64", bitwise([](Bits a, Bits b) { return ~(a | b); })},
    {"s_xnor_b32", bitwise([](Bits a, Bits b) { return ~(a ^ b); })},
    {"s_xnor_b64", bitwise([](Bits a, Bits b) { return ~(a ^ b); })},
    {"s_not_b32", bitwise([](Bits a, Bits) { return ~a; })},
    {"s_not_b64", bitwise([](Bits a, Bits) { return ~a; })},
    {"s_and_saveexec_b64", save_exec([](Bits s, Bits exec) { return s & exec; })},
    {"s_or_saveexec_b64", save_exec([](Bits s, Bits exec) { return s | exec; })},
    {"s_xor_saveexec_b64", save_exec([](Bits s, Bits exec) { return s ^ exec; })},
    {"s_andn2_saveexec_b64", save_exec([](Bits s, Bits exec) { return s & ~exec; })},
    {"s_orn2_saveexec_b64", save_exec([](Bits s, Bits exec) { return s | ~exec; })},
    {"s_nand_saveexec_b64", save_exec([](Bits s, Bits exec) { return ~(s & exec); })},
    {"s_nor_saveexec_b64", save_exec([](Bits s, Bits exec) { return ~(s | exec); })},
    {"s_xnor_saveexec_b64", save_exec([](Bits s, Bits exec) { return ~(s ^ exec); })},
    {"s_andn1_saveexec_b64", save_exec([](Bits s, Bits exec) { return ~s & exec; })},
    {"s_orn1_saveexec_b64", save_exec([](Bits s, Bits exec) { return ~s | exec; })},
    {"s_andn1_wrexec_b64", write_exec([](Bits s, Bits exec) { return ~s & exec; })},
    {"s_andn2_wrexec_b64", write_exec([](Bits s, Bits exec) { return s & ~exec; })},

    {"s_mov_b32", move},
    {"s_mov_b64", move},
    {"s_movk_i32", move_immediate},
    {"s_cmov_b32", conditional_move},
    {"s_cmov_b64", conditional_move},
    {"s_cmovk_i32", conditional_move},
    {"s_cselect_b32", conditional_select},
    {"s_cselect_b64", conditional_select},
    {"s_bitset0_b32", set_bit<false>},
    {"s_bitset0_b64", set_bit<false>},
    {"s_bitset1_b32", set_bit<true>},
    {"s_bitset1_b64", set_bit<true>},
    {"s_movrels_b32", move_relative_source},
    {"s_movrels_b64", move_relative_source},
    {"s_movreld_b32", move_relative_destination},
    {"s_movreld_b64", move_relative_destination},
    {"s_getreg_b32", get_register},
    {"s_setreg_b32", set_register},
    {"s_setreg_imm32_b32", set_register},

    {"s_branch", jump_relative},
    {"s_cbranch_scc0", branch_scc<false>},
    {"s_cbranch_scc1", branch_scc<true>},
    {"s_cbranch_vccz", branch_vcc<true>},
    {"s_cbranch_vccnz", branch_vcc<false>},
    {"s_cbranch_execz", branch_exec<true>},
    {"s_cbranch_execnz", branch_exec<false>},
    {"s_getpc_b64", get_pc},
    {"s_setpc_b64", set_pc},
    {"s_swappc_b64", set_pc},
    {"s_call_b64", call},
};

}  // namespace

Execute find_scalar(const Instruction& instruction) {
  const auto found = kTable.find(instruction.name());
  return found == kTable.end() ? nullptr : found->second;
}

}  // namespace hipsim
