// What a launch did, counted.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "tests/hipsim/code_object.h"
#include "tests/hipsim/isa/instruction.h"
#include "tests/hipsim/runtime/options.h"

namespace hipsim {

inline constexpr int kClasses = static_cast<int>(Class::kCache) + 1;

struct Statistics {
  std::array<uint64_t, kClasses> instructions{};  // of a wave, by class
  uint64_t mfma_passes = 0;                       // of four clocks
  uint64_t valu_passes = 0;
  uint64_t lds_cycles = 0;                       // phases of LDS instructions
  uint64_t lds_conflict_cycles = 0;              // cycles on top
  uint64_t lds_read = 0, lds_written = 0;        // bytes
  uint64_t global_read = 0, global_written = 0;  // bytes that lanes ask for; no caches
  uint64_t scratch_read = 0, scratch_written = 0;
  uint64_t scalar_read = 0;
  // Buffers that vector memory instructions of the launch both read and wrote: through others, its
  // waves cannot have told each other anything.
  uint64_t buffers_read_and_written = 0;

  void Add(const Statistics& other);
};

struct LaunchShape {
  std::array<uint32_t, 3> grid, block;
  uint32_t lds = 0;  // bytes of a workgroup
};

// How many waves fit on a SIMD, by what bounds them.
struct Occupancy {
  uint32_t registers = 0, lds = 0;
  uint32_t waves() const { return registers < lds ? registers : lds; }
};

Occupancy OccupancyOf(const Kernel& kernel, const LaunchShape& shape, Chip chip);

// One line of JSON.
std::string ToJson(const Statistics& statistics, const Kernel& kernel, const LaunchShape& shape,
                   Chip chip, double seconds);

}  // namespace hipsim
