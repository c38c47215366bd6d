#include "tests/hipsim/exec/lanes.h"

namespace hipsim {

namespace {

constexpr int kRow = 16;

int shifted(int lane, int by, int width) {
  const int place = lane % width + by;
  return place < 0 || place >= width ? -1 : lane - lane % width + place;
}

int rotated(int lane, int by, int width) {
  return lane - lane % width + (lane % width + by + width) % width;
}

}  // namespace

int dpp_source(int control, int lane) {
  const int amount = control & 15;
  if (control < 0x100) return (lane & ~3) + (control >> (2 * (lane & 3)) & 3);
  switch (control >> 4) {
    case 0x10:
      return shifted(lane, amount, kRow);
    case 0x11:
      return shifted(lane, -amount, kRow);
    case 0x12:
      return rotated(lane, -amount, kRow);
    case 0x15:
      return lane / kRow * kRow + amount;
  }
  switch (control) {
    case 0x130:
      return shifted(lane, 1, kLanes);
    case 0x134:
      return rotated(lane, 1, kLanes);
    case 0x138:
      return shifted(lane, -1, kLanes);
    case 0x13c:
      return rotated(lane, -1, kLanes);
    case 0x140:
      return lane ^ 15;
    case 0x141:
      return lane ^ 7;
    case 0x142:  // the last lane of the row before
      return lane / kRow * kRow - 1;
    case 0x143:  // lane 31 to the upper half
      return lane < 32 ? -1 : 31;
    default:
      throw Fault("DPP control " + std::to_string(control) + " does not exist on this chip");
  }
}

namespace {

// Lanes without a source, or with one that is not active, read 0 under bound_control.
void apply_dpp(const Wave& wave, const Instruction& in, Lanes<u32>& value) {
  const Lanes<u32> before = value;
  const u64 exec = wave.exec();
  for (int l = 0; l < kLanes; ++l) {
    const int from = dpp_source(in.dpp.control, l);
    value[l] = from >= 0 && exec >> from & 1 ? before[from] : 0;
  }
}

int select_shift(Sdwa select) {
  const int s = static_cast<int>(select);
  return s < 4 ? 8 * s : s == 5 ? 16 : 0;
}

int select_bits(Sdwa select) { return select < Sdwa::kWord0 ? 8 : select < Sdwa::kDword ? 16 : 32; }

void apply_sdwa(const Instruction& in, int source, Lanes<u32>& value) {
  const int shift = select_shift(in.sdwa.src_sel[source]);
  const int unused = 32 - select_bits(in.sdwa.src_sel[source]);
  for (int l = 0; l < kLanes; ++l) {
    const u32 high = (value[l] >> shift) << unused;
    value[l] = in.sdwa.sign_extend[source] ? static_cast<u32>(static_cast<i32>(high) >> unused)
                                           : high >> unused;
  }
}

bool has_source(const Instruction& in, const Wave& wave, int lane) {
  const int from = dpp_source(in.dpp.control, lane);
  return from >= 0 && wave.exec() >> from & 1;
}

}  // namespace

void load_dword(const Wave& wave, const Instruction& in, int source, int dword, Lanes<u32>& out) {
  const Operand& operand = in.src[source];
  if (operand.kind == OperandKind::kVector) {
    std::memcpy(&out, &wave.vgpr[operand.index + dword], sizeof out);
  } else {
    u32 value;
    if (operand.kind == OperandKind::kScalar) {
      value = wave.sgpr[operand.index + dword];
    } else {
      value = static_cast<u32>(wave.read_scalar(operand) >> (32 * dword));
    }
    for (int l = 0; l < kLanes; ++l) out[l] = value;
  }
  if (in.is_dpp && source == 0) apply_dpp(wave, in, out);
  if (in.is_sdwa && source < 2) apply_sdwa(in, source, out);
}

u64 undefined_lanes(const Wave& wave, const Instruction& in, int source) {
  const Operand& operand = in.src[source];
  if (operand.kind == OperandKind::kConstant) return 0;
  u64 undefined = 0;
  for (int d = 0; d < operand.dwords; ++d) undefined |= wave.read_vector_undefined(operand, d);
  if (!undefined || !in.is_dpp || source != 0) return undefined;
  u64 moved = 0;
  for (int l = 0; l < kLanes; ++l)
    if (has_source(in, wave, l)) moved |= (undefined >> dpp_source(in.dpp.control, l) & 1) << l;
  return moved;
}

u64 written_lanes(const Wave& wave, const Instruction& in) {
  u64 mask = wave.exec();
  for (int l = 0; l < kLanes; ++l) {
    const bool enabled =
        in.dpp.row_mask >> (l / kRow) & 1 && in.dpp.bank_mask >> (l % kRow / 4) & 1;
    if (!enabled || (!in.dpp.bound_control && !has_source(in, wave, l))) mask &= ~(u64{1} << l);
  }
  return mask;
}

void store_dword(Wave& wave, const Operand& dst, int dword, const Lanes<u32>& value, u64 mask,
                 u64 undefined) {
  VectorRegister& target = wave.vgpr[dst.index + dword];
  u64& target_undefined = wave.vgpr_undefined[dst.index + dword];
  target_undefined = (target_undefined & ~mask) | (undefined & mask);
  if (mask == ~u64{0}) {
    std::memcpy(&target, &value, sizeof target);
    return;
  }
  for (int l = 0; l < kLanes; ++l)
    target[l] = mask >> l & 1 ? value[l] : target.lane[static_cast<size_t>(l)];
}

void place_sdwa(const Wave& wave, const Instruction& in, Lanes<u32>& value) {
  const int shift = select_shift(in.sdwa.dst_sel), width = select_bits(in.sdwa.dst_sel);
  if (width == 32) return;
  const u32 field = ((1u << width) - 1) << shift;
  const VectorRegister& old = wave.vgpr[in.dst.index];
  for (int l = 0; l < kLanes; ++l) {
    const u32 placed = value[l] << shift & field;
    const i32 extended = static_cast<i32>(value[l] << (32 - width)) >> (32 - width - shift);
    value[l] = in.sdwa.dst_unused == 2   ? (old[l] & ~field) | placed
               : in.sdwa.dst_unused == 1 ? (static_cast<u32>(extended) & ~(field - 1)) | placed
                                         : placed;
  }
}

void store_mask(Context& c, const Operand& dst, u64 bits) {
  const u64 exec = c.wave.exec();
  const u64 old = c.wave.scalar64(dst.index);
  // Under DPP, lanes that are active but masked off keep their bits.
  const u64 kept = exec & ~c.mask & old;
  const u64 result = (bits & c.mask) | kept;
  c.wave.set_scalar64(dst.index, result, c.undefined & c.mask);
  if (!c.in.writes_exec) return;
  if (c.undefined & c.mask)
    throw Fault("EXEC would be set from a comparison of values never written");
  c.wave.set_scalar64(kExec, result);
}

HIPSIM_INLINE void fma_lanes_body(const Lanes<float>& a, const Lanes<float>& b,
                                  const Lanes<float>& c, Lanes<float>& out) {
  for (int l = 0; l < kLanes; ++l) out[l] = __builtin_fmaf(a[l], b[l], c[l]);
}
HIPSIM_FAST(fma_lanes,
            (const Lanes<float>& a, const Lanes<float>& b, const Lanes<float>& c,
             Lanes<float>& out),
            (a, b, c, out))

uint16_t half_bits(double value, int mode) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) {
    const u64 bits = bits_as<u64>(value);
    return static_cast<uint16_t>(sign | 0x7e00 | (bits >> 42 & 0x3ff));
  }
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | 0x7c00;
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  const double scaled = std::ldexp(magnitude, 10 - exponent);  // in units of the last place
  double rounded = std::floor(scaled);
  const double rest = scaled - rounded;
  const bool away = mode == 0   ? rest > 0.5 || (rest == 0.5 && std::fmod(rounded, 2) != 0)
                    : mode == 1 ? rest > 0 && !sign
                    : mode == 2 ? rest > 0 && sign
                                : false;
  rounded += away;
  const double result = std::ldexp(rounded, exponent - 10);
  if (result > 65504) {
    const bool infinite = mode == 0 || (mode == 1 && !sign) || (mode == 2 && sign);
    return sign | (infinite ? 0x7c00 : 0x7bff);
  }
  return static_cast<uint16_t>(sign | FloatToHalf(static_cast<float>(result)));
}

}  // namespace hipsim
