// Integer, bit and move operations of one result per lane.
#include <algorithm>
#include <bit>

#include "tests/hipsim/exec/lanes.h"
#include "tests/hipsim/exec/vector.h"

namespace hipsim {

namespace {

template <typename T>
T median(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

i32 signed24(i32 x) { return static_cast<i32>(static_cast<u32>(x) << 8) >> 8; }
u32 unsigned24(u32 x) { return x & 0xffffff; }

u32 reverse(u32 x) {
  u32 result = 0;
  for (int bit = 0; bit < 32; ++bit) result |= (x >> bit & 1) << (31 - bit);
  return result;
}

i32 first_bit_unlike_sign(i32 x) {
  const u32 bits = x < 0 ? ~x : x;
  return bits ? std::countl_zero(bits) : -1;
}

u32 field_mask(u32 width) { return (u32{1} << (width & 31)) - 1; }

i32 extract_signed(i32 x, u32 offset, u32 width) {
  width &= 31;
  if (!width) return 0;
  const i32 shifted = x >> (offset & 31);
  return static_cast<i32>(static_cast<u32>(shifted) << (32 - width)) >> (32 - width);
}

u32 byte_of(u32 x, int i) { return x >> (8 * i) & 255; }

u32 permute_byte(u64 data, u32 select) {
  if (select >= 13) return 0xff;
  if (select == 12) return 0;
  if (select >= 8) return data >> (16 * (select - 8) + 15) & 1 ? 0xff : 0;
  return data >> (8 * select) & 255;
}

u32 permute(u32 a, u32 b, u32 select) {
  const u64 data = u64{a} << 32 | b;
  u32 result = 0;
  for (int i = 0; i < 4; ++i) result |= permute_byte(data, byte_of(select, i)) << (8 * i);
  return result;
}

u32 difference(u32 a, u32 b) { return a > b ? a - b : b - a; }

u32 sum_of_differences(u32 a, u32 b, bool masked) {
  u32 sum = 0;
  for (int i = 0; i < 4; ++i)
    if (!masked || byte_of(b, i)) sum += difference(byte_of(a, i), byte_of(b, i));
  return sum;
}

u32 average_bytes(u32 a, u32 b, u32 round) {
  u32 result = 0;
  for (int i = 0; i < 4; ++i)
    result |= ((byte_of(a, i) + byte_of(b, i) + (byte_of(round, i) & 1)) >> 1) << (8 * i);
  return result;
}

u32 saturate_bytes(u32 x) {
  const auto saturate = [](int16_t value) {
    return static_cast<u32>(std::clamp<i32>(value, 0, 255));
  };
  return saturate(static_cast<int16_t>(x)) | saturate(static_cast<int16_t>(x >> 16)) << 8;
}

u32 shift_pair_to_bytes(i32 a, i32 b, u32 shift, i32 low, i32 high) {
  const i32 x = std::clamp(a >> (shift & 31), low, high);
  const i32 y = std::clamp(b >> (shift & 31), low, high);
  return (x & 255) | (y & 255) << 8;
}

// ---------------------------------------------------------------------------------------------
// Carries: the second destination is a mask, as may be the third source.

struct Sum {
  u32 value;
  bool carry;
};

// A lane whose mask bit is undefined has an undefined result.
u64 mask_source(Context& c, int source) {
  c.undefined |= c.wave.read_scalar_undefined(c.in.src[source]);
  return c.wave.read_scalar(c.in.src[source]);
}

template <typename Formula>
void run_carry(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> a, b;
  Load<U32>::run(c, 0, a);
  Load<U32>::run(c, 1, b);
  const u64 carry_in = in.src[2] ? mask_source(c, 2) : 0;
  u64 carry_out = 0;
  for (int l = 0; l < kLanes; ++l) {
    const Sum sum = Formula{}(a[l], b[l], static_cast<u32>(carry_in >> l & 1));
    const u32 limit = std::string_view(in.name()).starts_with("v_add") ? ~0u : 0;
    a[l] = in.clamp && sum.carry ? limit : sum.value;
    carry_out |= u64{sum.carry} << l;
  }
  U32::store(c, a);
  store_mask(c, in.sdst, carry_out);
}

template <typename Formula>
Execute carry(Formula) {
  return run_carry<Formula>;
}

Sum add(u32 a, u32 b, u32 carry) {
  const u64 sum = u64{a} + b + carry;
  return {static_cast<u32>(sum), sum >> 32 != 0};
}

Sum subtract(u32 a, u32 b, u32 borrow) { return {a - b - borrow, u64{b} + borrow > a}; }

// D.u64 = S0 * S1 + S2, the second destination its carry.
template <bool kSigned>
void multiply_add64(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> a, b;
  Lanes<u64> addend;
  Load<U32>::run(c, 0, a);
  Load<U32>::run(c, 1, b);
  Load<Upward64>::run(c, 2, addend);
  u64 carry_out = 0;
  for (int l = 0; l < kLanes; ++l) {
    const u64 product = kSigned
                            ? static_cast<u64>(i64{static_cast<i32>(a[l])} * static_cast<i32>(b[l]))
                            : u64{a[l]} * b[l];
    const u64 sum = product + addend[l];
    const bool overflow =
        kSigned ? static_cast<i64>((product ^ sum) & (addend[l] ^ sum)) < 0 : sum < product;
    carry_out |= u64{overflow} << l;
    addend[l] = sum;
  }
  Rising64::store(c, addend);
  store_mask(c, in.sdst, carry_out);
}

// ---------------------------------------------------------------------------------------------

// Each lane is as defined as the source that its mask bit selects.
void select_by_mask(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> a, b;
  B32::load(c, 0, a);
  B32::load(c, 1, b);
  const u64 select = mask_source(c, 2);
  c.undefined |= select & undefined_lanes(wave, in, 1);
  c.undefined |= ~select & undefined_lanes(wave, in, 0);
  for (int l = 0; l < kLanes; ++l) a[l] = select >> l & 1 ? b[l] : a[l];
  U32::store(c, a);
}

// Bits of the mask S0 that belong to lanes below this one, plus S1.
template <bool kHigh>
void count_lanes_below(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<u32> mask, base;
  Load<U32>::run(c, 0, mask);
  Load<U32>::run(c, 1, base);
  for (int l = 0; l < kLanes; ++l) {
    const u64 below = (u64{1} << l) - 1;
    base[l] += std::popcount(mask[l] & static_cast<u32>(kHigh ? below >> 32 : below));
  }
  U32::store(c, base);
}

// Bit n of the truth table answers for the source bits n = S0 * 4 + S1 * 2 + S2.
u32 truth_table(u32 a, u32 b, u32 c, uint8_t table) {
  u32 result = 0;
  for (int n = 0; n < 8; ++n)
    if (table >> n & 1) result |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
  return result;
}

template <typename D, typename S>
void bit_operation3(Wave& wave, const Instruction& in) {
  Context c(wave, in);
  Lanes<typename S::Value> a, b, third;
  Load<S>::run(c, 0, a);
  Load<S>::run(c, 1, b);
  Load<S>::run(c, 2, third);
  for (int l = 0; l < kLanes; ++l) a[l] = truth_table(a[l], b[l], third[l], in.bitop);
  D::store(c, a);
}

u32 random_step(u32 x) { return x << 1 ^ (x >> 31 ? 197 : 0); }

void no_operation(Wave&, const Instruction&) {}

OperationTable bits() {
  return {
      {"v_nop", no_operation},
      {"v_mov_b32", op<U32, B32>([](u32 x) { return x; })},
      {"v_mov_b64", op<Rising64, U64>([](u64 x) { return x; })},
      {"v_accvgpr_mov_b32", op<U32, U32>([](u32 x) { return x; })},
      {"v_accvgpr_read_b32", op<U32, U32>([](u32 x) { return x; })},
      {"v_accvgpr_write_b32", op<U32, U32>([](u32 x) { return x; })},
      {"v_cndmask_b32", select_by_mask},
      {"v_not_b32", op<U32, U32>([](u32 x) { return ~x; })},
      {"v_bfrev_b32", op<U32, U32>([](u32 x) { return reverse(x); })},
      {"v_ffbh_u32", op<I32, U32>([](u32 x) { return x ? std::countl_zero(x) : -1; })},
      {"v_ffbl_b32", op<I32, U32>([](u32 x) { return x ? std::countr_zero(x) : -1; })},
      {"v_ffbh_i32", op<I32, I32>([](i32 x) { return first_bit_unlike_sign(x); })},
      {"v_and_b32", op<U32, U32, U32>([](u32 a, u32 b) { return a & b; })},
      {"v_or_b32", op<U32, U32, U32>([](u32 a, u32 b) { return a | b; })},
      {"v_xor_b32", op<U32, U32, U32>([](u32 a, u32 b) { return a ^ b; })},
      {"v_xnor_b32", op<U32, U32, U32>([](u32 a, u32 b) { return ~(a ^ b); })},
      {"v_and_or_b32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return (a & b) | c; })},
      {"v_or3_b32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return a | b | c; })},
      {"v_bitop3_b32", bit_operation3<U32, U32>},
      {"v_bitop3_b16", bit_operation3<I16Keep, I16Keep>},
      {"v_lshlrev_b32", op<U32, U32, U32>([](u32 a, u32 b) { return b << (a & 31); })},
      {"v_lshrrev_b32", op<U32, U32, U32>([](u32 a, u32 b) { return b >> (a & 31); })},
      {"v_ashrrev_i32", op<I32, U32, I32>([](u32 a, i32 b) { return b >> (a & 31); })},
      {"v_lshlrev_b64", op<Rising64, U32, U64>([](u32 a, u64 b) { return b << (a & 63); })},
      {"v_lshrrev_b64", op<U64, U32, U64>([](u32 a, u64 b) { return b >> (a & 63); })},
      {"v_ashrrev_i64", op<I64, U32, I64>([](u32 a, i64 b) { return b >> (a & 63); })},
      {"v_lshlrev_b16", op<U16, U16, U16>([](i32 a, i32 b) { return b << (a & 15); })},
      {"v_lshrrev_b16", op<U16, U16, U16>([](i32 a, i32 b) { return b >> (a & 15); })},
      {"v_ashrrev_i16", op<I16, U16, I16>([](i32 a, i32 b) { return b >> (a & 15); })},
      {"v_lshl_or_b32",
       op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return a << (b & 31) | c; })},
      {"v_bfm_b32", op<U32, U32, U32>([](u32 a, u32 b) { return field_mask(a) << (b & 31); })},
      {"v_bfi_b32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return (a & b) | (~a & c); })},
      {"v_bfe_u32",
       op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return a >> (b & 31) & field_mask(c); })},
      {"v_bfe_i32",
       op<I32, I32, U32, U32>([](i32 a, u32 b, u32 c) { return extract_signed(a, b, c); })},
      {"v_alignbit_b32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) {
         return static_cast<u32>((u64{a} << 32 | b) >> (c & 31));
       })},
      {"v_alignbyte_b32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) {
         return static_cast<u32>((u64{a} << 32 | b) >> (8 * (c & 3)));
       })},
      {"v_perm_b32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return permute(a, b, c); })},
      {"v_bcnt_u32_b32", op<U32, U32, U32>([](u32 a, u32 b) { return std::popcount(a) + b; })},
      {"v_mbcnt_lo_u32_b32", count_lanes_below<false>},
      {"v_mbcnt_hi_u32_b32", count_lanes_below<true>},
      {"v_pack_b32_f16", op<U32, U16, U16>([](i32 a, i32 b) { return a | b << 16; })},
      {"v_prng_b32", op<U32, U32>([](u32 x) { return random_step(x); })},
      {"v_sat_pk_u8_i16", op<U32, U32>([](u32 x) { return saturate_bytes(x); })},
      {"v_ashr_pk_i8_i32", op<U16Keep, I32, I32, U32>([](i32 a, i32 b, u32 c) {
         return shift_pair_to_bytes(a, b, c, -128, 127);
       })},
      {"v_ashr_pk_u8_i32", op<U16Keep, I32, I32, U32>([](i32 a, i32 b, u32 c) {
         return shift_pair_to_bytes(a, b, c, 0, 255);
       })},
  };
}

OperationTable sums32() {
  return {
      {"v_add_u32", op<SatU32, U32, U32>([](u32 a, u32 b) { return i64{a} + b; })},
      {"v_sub_u32", op<SatU32, U32, U32>([](u32 a, u32 b) { return i64{a} - b; })},
      {"v_subrev_u32", op<SatU32, U32, U32>([](u32 a, u32 b) { return i64{b} - a; })},
      {"v_add_i32", op<SatI32, I32, I32>([](i32 a, i32 b) { return i64{a} + b; })},
      {"v_sub_i32", op<SatI32, I32, I32>([](i32 a, i32 b) { return i64{a} - b; })},
      {"v_add_co_u32", carry([](u32 a, u32 b, u32) { return add(a, b, 0); })},
      {"v_sub_co_u32", carry([](u32 a, u32 b, u32) { return subtract(a, b, 0); })},
      {"v_subrev_co_u32", carry([](u32 a, u32 b, u32) { return subtract(b, a, 0); })},
      {"v_addc_co_u32", carry([](u32 a, u32 b, u32 c) { return add(a, b, c); })},
      {"v_subb_co_u32", carry([](u32 a, u32 b, u32 c) { return subtract(a, b, c); })},
      {"v_subbrev_co_u32", carry([](u32 a, u32 b, u32 c) { return subtract(b, a, c); })},
      {"v_add3_u32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return a + b + c; })},
      {"v_lshl_add_u32",
       op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return (a << (b & 31)) + c; })},
      {"v_add_lshl_u32",
       op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return (a + b) << (c & 31); })},
      {"v_lshl_add_u64",
       op<Rising64, U64, U32, U64>([](u64 a, u32 b, u64 c) { return (a << (b & 7)) + c; })},
      {"v_xad_u32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return (a ^ b) + c; })},
      {"v_min_u32", op<U32, U32, U32>([](u32 a, u32 b) { return std::min(a, b); })},
      {"v_max_u32", op<U32, U32, U32>([](u32 a, u32 b) { return std::max(a, b); })},
      {"v_min_i32", op<I32, I32, I32>([](i32 a, i32 b) { return std::min(a, b); })},
      {"v_max_i32", op<I32, I32, I32>([](i32 a, i32 b) { return std::max(a, b); })},
      {"v_min3_u32",
       op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return std::min({a, b, c}); })},
      {"v_max3_u32",
       op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return std::max({a, b, c}); })},
      {"v_min3_i32",
       op<I32, I32, I32, I32>([](i32 a, i32 b, i32 c) { return std::min({a, b, c}); })},
      {"v_max3_i32",
       op<I32, I32, I32, I32>([](i32 a, i32 b, i32 c) { return std::max({a, b, c}); })},
      {"v_med3_u32", op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return median(a, b, c); })},
      {"v_med3_i32", op<I32, I32, I32, I32>([](i32 a, i32 b, i32 c) { return median(a, b, c); })},
      {"v_sad_u8", op<SatU32, U32, U32, U32>([](u32 a, u32 b, u32 c) {
         return i64{sum_of_differences(a, b, false)} + c;
       })},
      {"v_msad_u8", op<SatU32, U32, U32, U32>([](u32 a, u32 b, u32 c) {
         return i64{sum_of_differences(a, b, true)} + c;
       })},
      {"v_sad_hi_u8", op<SatU32, U32, U32, U32>([](u32 a, u32 b, u32 c) {
         return (i64{sum_of_differences(a, b, false)} << 16) + c;
       })},
      {"v_sad_u16", op<SatU32, U32, U32, U32>([](u32 a, u32 b, u32 c) {
         return i64{difference(a & 0xffff, b & 0xffff)} + difference(a >> 16, b >> 16) + c;
       })},
      {"v_sad_u32",
       op<SatU32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return i64{difference(a, b)} + c; })},
      {"v_lerp_u8",
       op<U32, U32, U32, U32>([](u32 a, u32 b, u32 c) { return average_bytes(a, b, c); })},
  };
}

OperationTable products() {
  return {
      {"v_mul_lo_u32", op<U32, U32, U32>([](u32 a, u32 b) { return a * b; })},
      {"v_mul_hi_u32",
       op<U32, U32, U32>([](u32 a, u32 b) { return static_cast<u32>((u64{a} * b) >> 32); })},
      {"v_mul_hi_i32",
       op<I32, I32, I32>([](i32 a, i32 b) { return static_cast<i32>((i64{a} * b) >> 32); })},
      {"v_mul_i32_i24",
       op<SatI32, I32, I32>([](i32 a, i32 b) { return i64{signed24(a)} * signed24(b); })},
      {"v_mul_hi_i32_i24", op<I32, I32, I32>([](i32 a, i32 b) {
         return static_cast<i32>((i64{signed24(a)} * signed24(b)) >> 32);
       })},
      {"v_mul_u32_u24",
       op<SatU32, U32, U32>([](u32 a, u32 b) { return i64{unsigned24(a)} * unsigned24(b); })},
      {"v_mul_hi_u32_u24", op<U32, U32, U32>([](u32 a, u32 b) {
         return static_cast<u32>((u64{unsigned24(a)} * unsigned24(b)) >> 32);
       })},
      {"v_mad_i32_i24", op<SatI32, I32, I32, I32>([](i32 a, i32 b, i32 c) {
         return i64{signed24(a)} * signed24(b) + c;
       })},
      {"v_mad_u32_u24", op<SatU32, U32, U32, U32>([](u32 a, u32 b, u32 c) {
         return i64{unsigned24(a)} * unsigned24(b) + c;
       })},
      {"v_mad_u32_u16",
       op<SatU32, U16, U16, U32>([](i32 a, i32 b, u32 c) { return i64{a} * b + c; })},
      {"v_mad_i32_i16",
       op<SatI32, I16, I16, I32>([](i32 a, i32 b, i32 c) { return i64{a} * b + c; })},
      {"v_mad_u64_u32", multiply_add64<false>},
      {"v_mad_i64_i32", multiply_add64<true>},
  };
}

OperationTable operations16() {
  return {
      {"v_add_u16", op<SatU16, U16, U16>([](i32 a, i32 b) { return i64{a} + b; })},
      {"v_sub_u16", op<SatU16, U16, U16>([](i32 a, i32 b) { return i64{a} - b; })},
      {"v_subrev_u16", op<SatU16, U16, U16>([](i32 a, i32 b) { return i64{b} - a; })},
      {"v_add_i16", op<SatI16Keep, I16, I16>([](i32 a, i32 b) { return i64{a} + b; })},
      {"v_sub_i16", op<SatI16Keep, I16, I16>([](i32 a, i32 b) { return i64{a} - b; })},
      {"v_mul_lo_u16", op<SatU16, U16, U16>([](i32 a, i32 b) { return i64{a} * b; })},
      {"v_min_u16", op<U16, U16, U16>([](i32 a, i32 b) { return std::min(a, b); })},
      {"v_max_u16", op<U16, U16, U16>([](i32 a, i32 b) { return std::max(a, b); })},
      {"v_min_i16", op<I16, I16, I16>([](i32 a, i32 b) { return std::min(a, b); })},
      {"v_max_i16", op<I16, I16, I16>([](i32 a, i32 b) { return std::max(a, b); })},
      {"v_min3_u16",
       op<U16Keep, U16, U16, U16>([](i32 a, i32 b, i32 c) { return std::min({a, b, c}); })},
      {"v_max3_u16",
       op<U16Keep, U16, U16, U16>([](i32 a, i32 b, i32 c) { return std::max({a, b, c}); })},
      {"v_med3_u16",
       op<U16Keep, U16, U16, U16>([](i32 a, i32 b, i32 c) { return median(a, b, c); })},
      {"v_min3_i16",
       op<I16Keep, I16, I16, I16>([](i32 a, i32 b, i32 c) { return std::min({a, b, c}); })},
      {"v_max3_i16",
       op<I16Keep, I16, I16, I16>([](i32 a, i32 b, i32 c) { return std::max({a, b, c}); })},
      {"v_med3_i16",
       op<I16Keep, I16, I16, I16>([](i32 a, i32 b, i32 c) { return median(a, b, c); })},
      {"v_mad_u16",
       op<SatU16Keep, U16, U16, U16>([](i32 a, i32 b, i32 c) { return i64{a} * b + c; })},
      {"v_mad_i16",
       op<SatI16Keep, I16, I16, I16>([](i32 a, i32 b, i32 c) { return i64{a} * b + c; })},
      {"v_mad_legacy_u16",
       op<SatU16, U16, U16, U16>([](i32 a, i32 b, i32 c) { return i64{a} * b + c; })},
      {"v_mad_legacy_i16",
       op<SatI16, I16, I16, I16>([](i32 a, i32 b, i32 c) { return i64{a} * b + c; })},
  };
}

}  // namespace

const OperationTable& integer_operations() {
  static const OperationTable table = [] {
    OperationTable all = bits();
    for (OperationTable part : {sums32(), products(), operations16()}) all.merge(part);
    return all;
  }();
  return table;
}

}  // namespace hipsim
