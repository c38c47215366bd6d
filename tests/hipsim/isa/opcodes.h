// The opcode tables, one for each encoding, sorted by opcode.
//
// A row's `operands` is "destinations=sources;flags". An operand is a type letter, followed by a
// number of dwords where that differs from the letter's own:
//   f h d y  float of 32, 16, 64 bits, bfloat16        b i u  32-bit integers
//   s t      16-bit integers, signed and unsigned      l j    64-bit integers, unsigned and signed
//   p z q    two f16, bfloat16, 16-bit integers        g      two f32
//   m        lane mask in an SGPR pair                 r      scalar of a vector instruction
//   v        registers without a type
// "+" before a destination: it is read as well. Flags: C writes SCC, c reads SCC, E writes EXEC,
// e reads EXEC, v reads VCC, M reads M0, T is transcendental.
#pragma once

#include <span>

#include "tests/hipsim/isa/instruction.h"

namespace hipsim {

inline constexpr uint8_t kGfx942Only = static_cast<uint8_t>(Chip::kGfx942);
inline constexpr uint8_t kGfx950Only = static_cast<uint8_t>(Chip::kGfx950);
inline constexpr uint8_t kBoth = kGfx942Only | kGfx950Only;

extern const std::span<const Opcode> kSop1Opcodes;
extern const std::span<const Opcode> kSop2Opcodes;
extern const std::span<const Opcode> kSopkOpcodes;
extern const std::span<const Opcode> kSopcOpcodes;
extern const std::span<const Opcode> kSoppOpcodes;
extern const std::span<const Opcode> kSmemOpcodes;
extern const std::span<const Opcode> kVop1Opcodes;
extern const std::span<const Opcode> kVop2Opcodes;
extern const std::span<const Opcode> kVopcOpcodes;
extern const std::span<const Opcode> kVop3Opcodes;  // those without a VOP1, VOP2 or VOPC form
extern const std::span<const Opcode> kVop3pOpcodes;
extern const std::span<const Opcode> kMaiOpcodes;
extern const std::span<const Opcode> kScaledMaiOpcodes;
extern const std::span<const Opcode> kDsOpcodes;
extern const std::span<const Opcode> kFlatOpcodes;
extern const std::span<const Opcode> kGlobalOpcodes;
extern const std::span<const Opcode> kScratchOpcodes;
extern const std::span<const Opcode> kMubufOpcodes;
extern const std::span<const Opcode> kMtbufOpcodes;

}  // namespace hipsim
