// A workgroup and its waves, as the device holds them: registers, LDS, scratch, and the memory
// operations under way.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/hipsim/exec/hazards.h"
#include "tests/hipsim/exec/launch.h"
#include "tests/hipsim/exec/program.h"
#include "tests/hipsim/exec/races.h"
#include "tests/hipsim/exec/statistics.h"
#include "tests/hipsim/exec/wave.h"

namespace hipsim {

class DeviceWave;
class Workgroup;

// What one of the checks found; `check` is its word in hipsim.h.
class CheckFault : public Fault {
 public:
  CheckFault(const char* check, const std::string& message, int lane = -1)
      : Fault(message, lane), check(check) {}
  const char* check;
};

// The bytes of LDS that an instruction accesses.
struct LdsRegion {
  LdsAccess::Kind kind = LdsAccess::Kind::kRead;
  uint32_t bytes = 0;  // of each lane
  uint64_t lanes = 0;
  std::array<uint32_t, kLanes> address;
};

// A memory operation that was issued and not waited for. Its results are kept here until the wait.
struct Pending {
  const Decoded* decoded = nullptr;
  bool on_vector = false, on_scalar = false;  // counted by vmcnt, by lgkmcnt
  bool unordered = false;                     // SMEM and FLAT may return out of order
  RegisterRange dst;                          // count 0: no register is written
  uint64_t lanes = 0;
  std::array<VectorRegister, 4> data;
  std::array<uint64_t, 4> undefined;  // by dword, a bit per lane
  std::array<uint32_t, 16> scalars;   // SMEM
  std::array<uint32_t, 16> scalars_undefined;
  std::array<LdsRegion, 2> lds;
  int lds_count = 0;
};

// What all workgroups of a launch share.
struct LaunchContext {
  const LaunchRequest* request = nullptr;
  std::vector<Buffer> buffers;  // that the kernel may access, by address
  std::vector<Buffer> others;   // live, but not reachable from its arguments
  uint64_t kernarg = 0;         // address
  uint64_t dispatch_packet = 0;
  uint64_t skip = 0;  // address of the instruction left out; 0: none
  uint32_t lds_bytes = 0;
  uint32_t checks = kCheckAll;

  mutable std::vector<std::atomic<uint8_t>> uses;  // by buffer: 1 read, 2 written by vector memory

  bool Checks(Check check) const { return (checks & check) != 0; }

  void MarkUse(const Buffer& buffer, const MemoryOp& op) const {
    const uint8_t use = op.kind == MemoryKind::kStore ? 2 : op.kind == MemoryKind::kAtomic ? 3 : 1;
    std::atomic<uint8_t>& uses_of = uses[static_cast<size_t>(&buffer - buffers.data())];
    if ((uses_of.load(std::memory_order_relaxed) & use) != use) uses_of.fetch_or(use);
  }
};

// Where a lane's bytes are in this process. `defined` is null if all are; `data` is null where a
// buffer's range check refused the lane.
struct LanePlace {
  uint8_t* data = nullptr;
  uint8_t* defined = nullptr;
  uint32_t valid = 0;  // bytes from `data` that the range check let through
};

class DeviceWave : public Wave {
 public:
  enum class State : uint8_t { kReady, kAtBarrier, kEnded };

  DeviceWave(Workgroup& group, int index) : group(group), index(index) {}

  // Executes a memory instruction: computes and checks its addresses, and queues its results.
  void ExecuteMemory(const Decoded& decoded);
  // Completes what s_waitcnt requires.
  void Wait(uint32_t vmcnt, uint32_t lgkmcnt);
  // Whether a wait with these counts would complete anything.
  bool WaitMatters(uint32_t vmcnt, uint32_t lgkmcnt) const;
  // Faults if the instruction uses a register whose load is under way.
  void CheckPendingRegisters(const Instruction& instruction) const;
  // Records the LDS accesses under way again, in the epoch that a barrier starts.
  void CarryLdsAccesses();

  const LaunchContext& context() const;

  Workgroup& group;
  const int index;
  State state = State::kReady;
  const Decoded* current = nullptr;
  uint64_t executed = 0;  // instructions
  uint64_t states = 0;    // wait states passed
  Hazards hazards;
  std::vector<uint8_t> scratch, scratch_defined;  // lane by lane
  uint32_t scratch_bytes = 0;                     // of a lane
  std::vector<std::unique_ptr<Pending>> pending;  // in order of issue
  std::vector<std::unique_ptr<Pending>> spare;
  std::array<uint8_t, 512> pending_vector{};
  std::array<uint8_t, 128> pending_scalar{};
  int pending_registers = 0;

 private:
  friend class MemoryUnit;

  void Complete(Pending& pending);
  void CompleteDirect(const Pending& pending);
  void MarkPending(const RegisterRange& range, int change);

  const Buffer* last_buffer_ = nullptr;
};

class Workgroup {
 public:
  explicit Workgroup(const LaunchContext& context) : context(context) {}

  // Runs the workgroup with these coordinates to its end.
  void Run(const std::array<uint32_t, 3>& id);

  // Records an access, and faults if it races with another.
  void RecordLds(const LdsRegion& region, const DeviceWave& wave, const Instruction& instruction);

  const LaunchContext& context;
  std::array<uint32_t, 3> id{};
  std::vector<uint8_t> lds, lds_defined;
  RaceTracker races;
  std::vector<std::unique_ptr<DeviceWave>> waves;
  Statistics statistics;
  int faulting_wave = -1;  // whose instruction is executed

 private:
  void Start();
  void StartWave(DeviceWave& wave);
  void SetScalars(DeviceWave& wave);
  void SetWorkItems(DeviceWave& wave);
  void RunWave(DeviceWave& wave, uint64_t quantum);
  void Step(DeviceWave& wave, const Decoded& decoded);
  void Control(DeviceWave& wave, const Instruction& instruction);
  void CheckBranch(const DeviceWave& wave, const Instruction& instruction) const;
  bool ReleaseBarrier();
  void CheckStuck(const DeviceWave& wave) const;

  std::mt19937_64 random_;
};

}  // namespace hipsim
