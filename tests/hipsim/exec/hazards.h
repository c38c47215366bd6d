// Required wait states: pairs of instructions that the hardware does not keep apart by itself.
//
// A wait state is one issued instruction, or each of the n + 1 of s_nop n.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tests/hipsim/exec/facts.h"
#include "tests/hipsim/isa/instruction.h"

namespace hipsim {

class Hazards {
 public:
  void Reset();

  // What the instruction, to be issued at the given state, lacks: a sentence, or nothing.
  std::string Check(const Instruction& instruction, const Facts& facts, uint64_t now,
                    Chip chip) const;
  // Records its issue.
  void Issue(const Instruction& instruction, const Facts& facts, uint64_t now);

 private:
  // When something last happened to a vector register, as a wait state; 0: never.
  struct VectorTimes {
    uint64_t valu = 0;   // written by the VALU
    uint64_t trans = 0;  // written by a transcendental
    uint64_t narrow = 0;
    uint64_t dot = 0;
    uint64_t mfma = 0;                        // written by an MFMA
    uint64_t mfma_read = 0;                   // read as an MFMA's C
    uint64_t stored = 0;                      // read by a wide store
    uint16_t mfma_first = 0, mfma_count = 0;  // that MFMA's D
    uint8_t mfma_passes = 0, read_passes = 0;
    uint8_t mfma_kind = 0;  // 0: XDL, 1: f32, 2: f64
  };
  struct Need;

  std::string CheckMatrix(const Instruction& i, uint64_t now, Chip chip) const;
  std::string CheckVector(const Instruction& i, const Facts& facts, uint64_t now, Chip chip) const;
  std::string CheckVectorRead(int r, const Facts& facts, uint64_t now, Chip chip) const;
  std::string CheckVectorWrite(int r, const Facts& facts, uint64_t now, Chip chip) const;
  std::string CheckScalar(const Instruction& i, const Facts& facts, uint64_t now) const;
  std::string CheckScalarRead(int r, const Instruction& i, const Facts& facts, uint64_t now) const;
  void RecordWrites(const Instruction& i, const Facts& facts, uint64_t now);

  std::array<VectorTimes, 512> vector_{};
  std::array<uint64_t, 128> scalar_{};  // SGPRs written by the VALU
  uint64_t m0_ = 0;                     // written by the SALU
  uint64_t setreg_ = 0;
  uint64_t any_valu_scalar_ = 0;
  uint64_t any_mfma_ = 0, any_store_ = 0;
};

}  // namespace hipsim
