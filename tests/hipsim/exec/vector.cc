#include "tests/hipsim/exec/vector.h"

namespace hipsim {

Execute find_vector(const Instruction& instruction) {
  for (const OperationTable* table :
       {&float_operations(), &integer_operations(), &comparisons(), &conversions(),
        &small_float_conversions(), &packed_operations()}) {
    const auto found = table->find(instruction.name());
    if (found != table->end()) return found->second;
  }
  return nullptr;
}

}  // namespace hipsim
