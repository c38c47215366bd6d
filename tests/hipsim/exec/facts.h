// What the checks, the scheduler and the statistics want to know of an instruction, computed once.
#pragma once

#include <cstdint>

#include "tests/hipsim/exec/memory_op.h"
#include "tests/hipsim/isa/instruction.h"

namespace hipsim {

// How an instruction takes part in hazards.
enum Trait : uint32_t {
  kTraitValu = 1u << 0,  // vector arithmetic, transcendentals included, MFMA not
  kTraitTrans = 1u << 1,
  kTraitMfma = 1u << 2,
  kTraitDpp = 1u << 3,
  kTraitPermlane = 1u << 4,  // v_permlane16_swap, v_permlane32_swap
  kTraitReadLane = 1u << 5,  // v_readlane, v_readfirstlane
  kTraitWriteLane = 1u << 6,
  kTraitDivFmas = 1u << 7,
  kTraitNarrowWrite = 1u << 8,   // writes a part of its destination: SDWA, op_sel
  kTraitVectorMemory = 1u << 9,  // buffer, global, flat, scratch
  kTraitUsesM0 = 1u << 10,       // direct loads to LDS, add-tid, s_sendmsg, s_movrel
  kTraitWideStore = 1u << 11,    // stored data over 64 bits, no scalar offset
  kTraitSalu = 1u << 12,
  kTraitDot = 1u << 13,  // v_dot*
  kTraitSetreg = 1u << 14,
  kTraitGetreg = 1u << 15,
  kTraitDoubleMfma = 1u << 16,  // f64 operands
  kTraitSingleMfma = 1u << 17,  // f32 operands: not on the XDL unit
  kTraitMemory = 1u << 18,      // reads registers as LDS or vector memory does
};

struct Facts {
  uint32_t traits = 0;
  bool is_memory = false;
  MemoryOp memory;
  uint8_t issue = 0;  // passes of the VALU
};

Facts FactsOf(const Instruction& instruction);

}  // namespace hipsim
