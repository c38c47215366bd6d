// Finds LDS accesses of two waves of a workgroup that no barrier orders.
//
// All running waves of a workgroup have passed the same number of barriers: its epoch. An access
// lasts from its issue to the wait that completes it; two accesses of different waves to the same
// byte, one of them a write, that share an epoch may happen in either order. This holds for every
// order in which the waves could run, so that what is found does not depend on the order in which
// they did.
//
// An access that is still open at a barrier is recorded again in the next epoch. A direct load to
// LDS is unordered with its own wave's other accesses too, until its wait.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace hipsim {

struct LdsAccess {
  enum class Kind : uint8_t { kRead, kWrite, kAtomic, kDirect };  // kDirect: a direct load's write

  uint8_t wave = 0;  // in the workgroup, at most 31
  Kind kind = Kind::kRead;
  uint64_t pc = 0;
};

class RaceTracker {
 public:
  // Starts a workgroup with `bytes` of LDS, in a fresh epoch.
  void Reset(uint32_t bytes);
  void NextEpoch() { ++epoch_; }

  // Records an access to [address, address + size), which lies inside the LDS; returns an earlier
  // access that it races with. Fast where both are multiples of 4, as nearly always.
  std::optional<LdsAccess> Record(uint32_t address, uint32_t size, const LdsAccess& access);

  // Ends a direct load's write: its wave's later accesses are ordered after it.
  void CloseDirect(uint32_t address, uint32_t size, uint8_t wave);

 private:
  // What happened to a granule of the LDS in its last epoch. While no access is smaller, a granule
  // is a dword; from the first access to less, a byte.
  struct Cell {
    uint32_t write_epoch = 0, read_epoch = 0;
    uint32_t readers = 0;  // a bit per wave
    uint32_t atomics = 0;  // a bit per wave, where the writes are atomics
    uint64_t write_pc = 0, read_pc = 0;
    uint8_t writer = 0;
    uint8_t reader = 0;  // the last
    LdsAccess::Kind write_kind = LdsAccess::Kind::kWrite;
  };

  void SplitCells();
  std::optional<LdsAccess> Read(Cell& cell, const LdsAccess& access) const;
  std::optional<LdsAccess> Write(Cell& cell, const LdsAccess& access) const;
  std::optional<LdsAccess> WriteConflict(const Cell& cell, const LdsAccess& access) const;

  std::vector<Cell> cells_;
  uint32_t bytes_ = 0;
  uint32_t shift_ = 2;  // of an address, to a cell's index
  uint32_t epoch_ = 0;
};

}  // namespace hipsim
