// LDS bank conflicts.
//
// An LDS instruction is carried out in phases of some of its lanes; in a phase, each bank serves
// one dword. Measured on MI355X (gfx950): reads of 8, 12 and 16 bytes and writes of 8. The others
// are assumed to move as many bytes a phase as the measured ones of their direction: reads 256 (64
// banks), writes and atomics 128 (32 banks), lanes in order; on gfx942, 128 bytes of 32 banks
// throughout.
#pragma once

#include <cstdint>

#include "tests/hipsim/runtime/options.h"

namespace hipsim {

struct LdsCycles {
  uint32_t ideal = 0;  // phases
  uint32_t extra =
      0;  // cycles lost to conflicts: in each phase, the most dwords of a bank, less one
};

// `addresses` holds each lane's byte address, `bytes` the size of its access (1 to 16), `lanes` the
// lanes that take part.
LdsCycles CountLdsCycles(Chip chip, bool write, uint32_t bytes, const uint32_t* addresses,
                         uint64_t lanes);

}  // namespace hipsim
