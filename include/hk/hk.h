// The tile library: nouns in types/, verbs in ops/, realised by arch/.
#pragma once

#include "hk/core/config.h"
#include "hk/core/dtype.h"
#include "hk/core/element.h"
#include "hk/core/launch.h"
#include "hk/ops/maps.h"
#include "hk/ops/masks.h"
#include "hk/ops/memory.h"
#include "hk/ops/mma.h"
#include "hk/ops/reductions.h"
#include "hk/types/global_layout.h"
#include "hk/types/register_tile.h"
#include "hk/types/register_vector.h"
#include "hk/types/shared_tile.h"
#if HK_ARCH_HOST
#include "hk/arch/host/blocks.h"
#include "hk/arch/host/workspace.h"
#endif
