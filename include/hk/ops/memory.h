// Moving tiles and vectors: global to register, global to shared, register to shared, and back.
// Loads widen to f32 or keep the operand type; elements outside the matrix read as zero. Stores
// round once and never write outside the matrix. docs/tiles.md gives each as a formula.
#pragma once

#include "hk/core/config.h"
#if HK_ARCH_HOST
#include "hk/arch/host/memory.h"
#endif
