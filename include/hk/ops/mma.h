// Matrix products of tiles, accumulated in f32: D += A B in the three operand forms. Operands are
// laid out for the architecture's matrix instruction by the loads that fill them.
// docs/tiles.md gives each as a formula.
#pragma once

#include "hk/core/config.h"
#if HK_ARCH_HOST
#include "hk/arch/host/mma.h"
#elif HK_ARCH_CDNA
#include "hk/arch/cdna/mma.h"
#endif
