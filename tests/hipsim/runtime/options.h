// The controls of the simulated device: what hipsim_set_option and the environment set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tests/hipsim/isa/instruction.h"

namespace hipsim {

// Checks that can be turned on and off; all are on by default.
enum Check : uint32_t {
  kCheckWaits = 1u << 0,      // registers used before their load was waited for
  kCheckRaces = 1u << 1,      // LDS accesses of two waves that no barrier orders
  kCheckHazards = 1u << 2,    // missing wait states
  kCheckBounds = 1u << 3,     // accesses outside buffers, LDS and scratch
  kCheckAlignment = 1u << 4,  // misaligned accesses
  kCheckUndefined = 1u << 5,  // undefined data in a store, an address or a branch
  kCheckBarriers = 1u << 6,   // barriers that some wave does not reach
  kCheckAll = (1u << 7) - 1,
};

inline std::string_view ChipName(Chip chip) { return chip == Chip::kGfx950 ? "gfx950" : "gfx942"; }

struct Options {
  Chip chip = Chip::kGfx950;
  int devices = 1;
  uint64_t seed = 0;
  uint32_t quantum = 64;        // instructions a wave executes at most before another's turn
  uint32_t threads = 0;         // 0: one per core
  uint64_t limit = 20'000'000;  // instructions of a wave
  uint32_t checks = kCheckAll;
  bool any_buffer = false;       // kernels may access any live buffer, not only their arguments'
  bool dword_alignment = false;  // LDS accesses of 8 and 16 bytes may be aligned to 4
  int64_t skip = -1;             // byte offset from the entry of an instruction that is left out
  bool quiet = false;            // reports are kept, not printed
  std::string statistics;        // file to which a line per launch is added
};

// Sets one option from text; false, and nothing changes, for an unknown name or value.
bool SetOption(Options& options, std::string_view name, std::string_view value);

// The options that the environment's HIPSIM_<NAME> variables ask for; unknown values give a line on
// stderr and the default.
Options OptionsFromEnvironment();

}  // namespace hipsim
