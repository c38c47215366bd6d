// The tables of vector operations, one for each family; find_vector searches them.
#pragma once

#include <string_view>
#include <unordered_map>

#include "tests/hipsim/exec/wave.h"

namespace hipsim {

using OperationTable = std::unordered_map<std::string_view, Execute>;

const OperationTable& float_operations();
const OperationTable& integer_operations();
const OperationTable& comparisons();
const OperationTable& conversions();
const OperationTable& small_float_conversions();
const OperationTable& packed_operations();

}  // namespace hipsim
