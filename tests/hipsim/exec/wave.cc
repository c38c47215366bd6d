#include "tests/hipsim/exec/wave.h"

namespace hipsim {

namespace {

enum Special {
  kSharedBase = 235,
  kSharedLimit = 236,
  kPrivateBase = 237,
  kPrivateLimit = 238,
  kVccz = 251,
  kExecz = 252,
  kScc = 253,
};

uint64_t read_special(const Wave& wave, int index) {
  switch (index) {
    case kSharedBase:
      return wave.shared_base;
    case kSharedLimit:
      return wave.shared_limit;
    case kPrivateBase:
      return wave.private_base;
    case kPrivateLimit:
      return wave.private_limit;
    case kVccz:
      return wave.vcc() == 0;
    case kExecz:
      return wave.exec() == 0;
    case kScc:
      return wave.scc;
    default:
      throw Fault("operand " + std::to_string(index) +
                  " is not simulated: expected a register, a constant, an aperture, VCCZ, EXECZ "
                  "or SCC");
  }
}

}  // namespace

void Wave::reset(int vgprs, int agprs, Chip new_chip) {
  chip = new_chip;
  vgpr_count = vgprs;
  agpr_count = agprs;
  VectorRegister poison;
  poison.lane.fill(0xfff5a5a5);  // a NaN in f32, f16 and bfloat16
  vgpr.assign(agprs ? kFirstAgpr + agprs : vgprs, poison);
  vgpr_undefined.assign(vgpr.size(), ~uint64_t{0});
  sgpr.fill(0);
  sgpr_undefined.fill(~0u);
  set_scalar64(kExec, ~uint64_t{0});
  scc = scc_undefined = false;
  mode = Mode{};
}

uint64_t Wave::read_scalar(const Operand& operand) const {
  switch (operand.kind) {
    case OperandKind::kConstant:
      return operand.value;
    case OperandKind::kScalar:
      return operand.dwords > 1 ? scalar64(operand.index) : sgpr[operand.index];
    case OperandKind::kSpecial:
      return read_special(*this, operand.index);
    default:
      throw Fault("a scalar operand is missing or is a vector register");
  }
}

uint64_t Wave::read_scalar_undefined(const Operand& operand) const {
  if (operand.kind == OperandKind::kScalar)
    return operand.dwords > 1 ? undefined64(operand.index) : sgpr_undefined[operand.index];
  if (operand.kind != OperandKind::kSpecial) return 0;
  if (operand.index == kVccz) return undefined64(kVcc) != 0;
  if (operand.index == kScc) return scc_undefined;
  return 0;
}

const VectorRegister& Wave::read_vector(const Operand& operand, int d, VectorRegister& room) const {
  if (operand.kind == OperandKind::kVector) return vgpr[operand.index + d];
  uint64_t value;
  if (operand.kind == OperandKind::kScalar) {
    value = sgpr[operand.index + d];
  } else {
    value = read_scalar(operand) >> (32 * d);
  }
  room.lane.fill(static_cast<uint32_t>(value));
  return room;
}

uint64_t Wave::read_vector_undefined(const Operand& operand, int d) const {
  if (operand.kind == OperandKind::kVector) return vgpr_undefined[operand.index + d];
  if (operand.kind == OperandKind::kScalar)
    return sgpr_undefined[operand.index + d] ? ~uint64_t{0} : 0;
  return read_scalar_undefined(operand) ? ~uint64_t{0} : 0;
}

}  // namespace hipsim
