// What atomics compute.
#pragma once

#include <cstdint>

#include "tests/hipsim/exec/memory_op.h"

namespace hipsim {

// The value after an atomic. `a` and `b` are its data: LDS forms have data0 and data1, others the
// data and the comparand.
uint64_t ApplyAtomic(const MemoryOp& op, uint64_t old, uint64_t a, uint64_t b);

// Updates memory that other threads may update too; returns the value before. `memory` is aligned.
uint64_t AtomicUpdate(const MemoryOp& op, void* memory, uint64_t a, uint64_t b);

}  // namespace hipsim
