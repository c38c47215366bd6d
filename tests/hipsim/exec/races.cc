#include "tests/hipsim/exec/races.h"

#include <algorithm>

namespace hipsim {

void RaceTracker::Reset(uint32_t bytes) {
  ++epoch_;
  if (bytes == bytes_) return;  // Older epochs' cells count for nothing.
  bytes_ = bytes;
  cells_.assign(((bytes + 3) / 4 * 4) >> shift_, Cell{});
}

void RaceTracker::SplitCells() {
  std::vector<Cell> bytes(cells_.size() * 4);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = cells_[i / 4];
  cells_ = std::move(bytes);
  shift_ = 0;
}

std::optional<LdsAccess> RaceTracker::Record(uint32_t address, uint32_t size,
                                             const LdsAccess& access) {
  if (shift_ == 2 && ((address | size) & 3) != 0) SplitCells();
  const uint32_t end = (address + size) >> shift_;
  std::optional<LdsAccess> conflict;
  for (uint32_t i = address >> shift_; i < end && !conflict; ++i) {
    conflict =
        access.kind == LdsAccess::Kind::kRead ? Read(cells_[i], access) : Write(cells_[i], access);
  }
  return conflict;
}

void RaceTracker::CloseDirect(uint32_t address, uint32_t size, uint8_t wave) {
  const uint32_t end = (address + size) >> shift_;
  for (uint32_t i = address >> shift_; i < end; ++i) {
    Cell& cell = cells_[i];
    if (cell.writer == wave && cell.write_kind == LdsAccess::Kind::kDirect) {
      cell.write_kind = LdsAccess::Kind::kWrite;
    }
  }
}

// An earlier write of this epoch that is unordered with the access.
std::optional<LdsAccess> RaceTracker::WriteConflict(const Cell& cell,
                                                    const LdsAccess& access) const {
  using Kind = LdsAccess::Kind;
  if (cell.write_epoch != epoch_) return std::nullopt;
  bool conflict = cell.writer != access.wave;
  if (cell.write_kind == Kind::kAtomic) {
    conflict = access.kind != Kind::kAtomic && (cell.atomics & ~(1u << access.wave)) != 0;
  } else if (cell.write_kind == Kind::kDirect && access.kind != Kind::kDirect) {
    conflict = true;
  }
  if (!conflict) return std::nullopt;
  return LdsAccess{cell.writer, cell.write_kind, cell.write_pc};
}

std::optional<LdsAccess> RaceTracker::Read(Cell& cell, const LdsAccess& access) const {
  if (auto conflict = WriteConflict(cell, access)) return conflict;
  if (cell.read_epoch != epoch_) cell.readers = 0;
  cell.read_epoch = epoch_;
  cell.readers |= 1u << access.wave;
  cell.reader = access.wave;
  cell.read_pc = access.pc;
  return std::nullopt;
}

std::optional<LdsAccess> RaceTracker::Write(Cell& cell, const LdsAccess& access) const {
  using Kind = LdsAccess::Kind;
  if (auto conflict = WriteConflict(cell, access)) return conflict;
  const uint32_t others = cell.read_epoch == epoch_ ? cell.readers & ~(1u << access.wave) : 0;
  if (others != 0) {
    const bool last = cell.reader != access.wave;
    const auto wave = static_cast<uint8_t>(last ? cell.reader : __builtin_ctz(others));
    return LdsAccess{wave, Kind::kRead, cell.read_pc};
  }
  const bool same_epoch = cell.write_epoch == epoch_;
  // An atomic after the same wave's plain write leaves the write on record: others race with that.
  const bool keep = same_epoch && access.kind == Kind::kAtomic && cell.write_kind != Kind::kAtomic;
  if (!same_epoch || access.kind != Kind::kAtomic) cell.atomics = 0;
  if (access.kind == Kind::kAtomic) cell.atomics |= 1u << access.wave;
  if (!keep) cell.write_kind = access.kind;
  cell.write_epoch = epoch_;
  cell.writer = access.wave;
  cell.write_pc = access.pc;
  return std::nullopt;
}

}  // namespace hipsim
