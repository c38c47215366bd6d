#include "tests/hipsim/exec/wave.h"

namespace hipsim {

void bind(Instruction& instruction) {
  switch (instruction.format) {
    case Format::kSop1:
    case Format::kSop2:
    case Format::kSopk:
    case Format::kSopc:
    case Format::kSopp:
      instruction.execute = find_scalar(instruction);
      return;
    case Format::kVop1:
    case Format::kVop2:
    case Format::kVopc:
    case Format::kVop3:
    case Format::kVop3p:
    case Format::kMai:
      instruction.execute = find_matrix(instruction);
      if (!instruction.execute) instruction.execute = find_cross_lane(instruction);
      if (!instruction.execute) instruction.execute = find_vector(instruction);
      return;
    default:
      instruction.execute = find_memory(instruction);
  }
}

}  // namespace hipsim
