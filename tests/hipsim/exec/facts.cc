#include "tests/hipsim/exec/facts.h"

#include <string_view>

namespace hipsim {
namespace {

bool Has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

uint32_t ValuTraits(const Instruction& i, std::string_view name) {
  uint32_t traits = kTraitValu;
  if (i.kind == Class::kTrans) traits |= kTraitTrans;
  if (i.is_dpp) traits |= kTraitDpp;
  if (name.starts_with("v_permlane")) traits |= kTraitPermlane;
  if (name.starts_with("v_readlane") || name.starts_with("v_readfirstlane")) {
    traits |= kTraitReadLane;
  }
  if (name.starts_with("v_writelane")) traits |= kTraitWriteLane;
  if (name.starts_with("v_div_fmas")) traits |= kTraitDivFmas;
  if (name.starts_with("v_dot")) traits |= kTraitDot;
  const bool narrow_sdwa = i.is_sdwa && i.sdwa.dst_sel != Sdwa::kDword;
  if (narrow_sdwa || (i.format == Format::kVop3 && (i.op_sel & 8) != 0)) {
    traits |= kTraitNarrowWrite;
  }
  return traits;
}

uint32_t MfmaTraits(std::string_view name) {
  if (name.ends_with("f64")) return kTraitMfma | kTraitDoubleMfma;
  // v_mfma_f32_32x32x1_2b_f32: the operands' type ends the name.
  return name.ends_with("_f32") || Has(name, "_xf32") ? kTraitMfma | kTraitSingleMfma : kTraitMfma;
}

uint32_t MemoryTraits(const Instruction& i, const MemoryOp& op) {
  const bool buffer = i.kind == Class::kBuffer;
  uint32_t traits = kTraitMemory;
  if (i.kind != Class::kDs) traits |= kTraitVectorMemory;
  if (op.kind == MemoryKind::kDirectLoad || op.add_tid || i.lds) traits |= kTraitUsesM0;
  const bool wide = op.kind == MemoryKind::kStore && i.src[1].dwords > 2;
  const bool scalar_offset = buffer && i.src[3].kind == OperandKind::kScalar;
  if (i.kind != Class::kDs && wide && !scalar_offset) traits |= kTraitWideStore;
  return traits;
}

uint32_t SaluTraits(std::string_view name) {
  uint32_t traits = kTraitSalu;
  if (name.starts_with("s_setreg")) traits |= kTraitSetreg;
  if (name.starts_with("s_getreg")) traits |= kTraitGetreg;
  if (name.starts_with("s_movrel")) traits |= kTraitUsesM0;
  return traits;
}

// Passes of the VALU, of four clocks: transcendentals and 32-bit products run at a quarter of the
// rate.
uint8_t IssuePasses(const Instruction& i, std::string_view name) {
  if (i.kind == Class::kTrans) return 4;
  const bool product = name.starts_with("v_mul_lo_u32") || name.starts_with("v_mul_hi_") ||
                       name.starts_with("v_mad_u64_u32") || name.starts_with("v_mad_i64_i32");
  return product ? 4 : 1;
}

bool IsMemory(Class kind) {
  return kind == Class::kSmem || kind == Class::kDs || kind == Class::kFlat ||
         kind == Class::kScratch || kind == Class::kGlobal || kind == Class::kBuffer;
}

}  // namespace

Facts FactsOf(const Instruction& i) {
  Facts facts;
  const std::string_view name = i.name();
  if (i.opcode == nullptr) return facts;
  if (IsMemory(i.kind)) {
    const auto op = ParseMemoryOp(name);
    facts.is_memory = op.has_value();
    if (op) facts.memory = *op;
    if (i.lds && facts.memory.kind == MemoryKind::kLoad) {
      facts.memory.kind = MemoryKind::kDirectLoad;
    }
    if (i.kind != Class::kSmem) facts.traits = MemoryTraits(i, facts.memory);
    return facts;
  }
  switch (i.kind) {
    case Class::kValu:
    case Class::kTrans:
      facts.traits = ValuTraits(i, name);
      facts.issue = IssuePasses(i, name);
      break;
    case Class::kMfma:
      facts.traits = MfmaTraits(name);
      break;
    case Class::kSalu:
      facts.traits = SaluTraits(name);
      break;
    case Class::kMessage:
      facts.traits = kTraitUsesM0;
      break;
    default:
      break;
  }
  return facts;
}

}  // namespace hipsim
