// Conversions from and to floats of 8, 6 and 4 bits.
#include "tests/hipsim/exec/lanes.h"
#include "tests/hipsim/exec/small_float.h"
#include "tests/hipsim/exec/vector.h"

namespace hipsim {

namespace {

const OperationTable kTable = {};

}  // namespace

const OperationTable& small_float_conversions() { return kTable; }

}  // namespace hipsim
