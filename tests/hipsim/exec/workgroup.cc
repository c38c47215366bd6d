// The scheduler: runs the waves of a workgroup in turns.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "tests/hipsim/exec/device.h"

namespace hipsim {
namespace {

constexpr uint64_t kSharedBase = uint64_t{1} << 48, kPrivateBase = uint64_t{2} << 48;
constexpr uint64_t kApertureSize = uint64_t{1} << 32;
constexpr uint32_t kXcds = 8;
constexpr uint64_t kPreloadPrologue = 256;  // bytes that a preloading launch skips

uint32_t Threads(const LaunchRequest& request) {
  return request.block[0] * request.block[1] * request.block[2];
}

uint64_t Linear(const std::array<uint32_t, 3>& id, const std::array<uint32_t, 3>& grid) {
  return id[0] + uint64_t{grid[0]} * (id[1] + uint64_t{grid[1]} * id[2]);
}

Mode ModeOf(const KernelDescriptor& descriptor) {
  const uint32_t r = descriptor.rsrc1;
  Mode mode;
  mode.bits = (r >> 12 & 0xFF) | (r >> 21 & 1) << 8 | (r >> 23 & 1) << 9 | (r >> 26 & 1) << 23;
  return mode;
}

uint32_t VectorCount(const Instruction& wait) {
  return (wait.simm16 & 15) | (wait.simm16 >> 14 & 3) << 4;
}

uint32_t ScalarCount(const Instruction& wait) { return wait.simm16 >> 8 & 15; }

void CountEffect(const DeviceWave& wave) {
  wave.current->effects.fetch_add(1, std::memory_order_relaxed);
}

std::string Words(const Instruction& instruction) {
  std::string text;
  for (int w = 0; w < instruction.size / 4; ++w) {
    char word[12];
    std::snprintf(word, sizeof(word), "%s%08x", w == 0 ? "" : " ", instruction.words[w]);
    text += word;
  }
  return text;
}

}  // namespace

void Workgroup::Run(const std::array<uint32_t, 3>& coordinates) {
  id = coordinates;
  Start();
  std::vector<DeviceWave*> ready;
  while (true) {
    ready.clear();
    for (const auto& wave : waves) {
      if (wave->state == DeviceWave::State::kReady) ready.push_back(wave.get());
    }
    if (ready.empty()) {
      if (!ReleaseBarrier()) return;
      continue;
    }
    DeviceWave& wave = *ready[random_() % ready.size()];
    faulting_wave = wave.index;
    RunWave(wave, 1 + random_() % context.request->options.quantum);
  }
}

void Workgroup::Start() {
  const LaunchRequest& request = *context.request;
  const auto count = static_cast<int>((Threads(request) + 63) / 64);
  while (static_cast<int>(waves.size()) < count) {
    waves.push_back(std::make_unique<DeviceWave>(*this, static_cast<int>(waves.size())));
  }
  const uint64_t linear = Linear(id, request.grid);
  random_.seed(request.options.seed * 0x9E3779B97F4A7C15 + linear);
  lds.assign((context.lds_bytes + 3) / 4 * 4, 0xFF);
  lds_defined.assign(lds.size(), 0);
  races.Reset(context.lds_bytes);
  for (const auto& wave : waves) StartWave(*wave);
}

void Workgroup::StartWave(DeviceWave& wave) {
  const LaunchRequest& request = *context.request;
  const KernelDescriptor& descriptor = request.kernel->descriptor;
  const uint32_t total = descriptor.total_vgprs();
  const uint32_t vgprs = std::min(total, descriptor.accum_offset());
  wave.reset(static_cast<int>(vgprs), static_cast<int>(total - vgprs), request.program->chip());
  wave.mode = ModeOf(descriptor);
  wave.shared_base = kSharedBase;
  wave.shared_limit = kSharedBase + kApertureSize - 1;
  wave.private_base = kPrivateBase;
  wave.private_limit = kPrivateBase + kApertureSize - 1;
  wave.xcc_id = static_cast<uint32_t>(Linear(id, request.grid) % kXcds);
  wave.pc = request.kernel->entry + (descriptor.preload_length != 0 ? kPreloadPrologue : 0);
  wave.state = DeviceWave::State::kReady;
  wave.executed = wave.states = 0;
  wave.hazards.Reset();
  wave.scratch_bytes = descriptor.private_segment_size;
  wave.scratch.assign(size_t{wave.scratch_bytes} * kLanes, 0xFF);
  wave.scratch_defined.assign(wave.scratch.size(), 0);
  SetScalars(wave);
  SetWorkItems(wave);
}

void Workgroup::SetScalars(DeviceWave& wave) {
  const KernelDescriptor& descriptor = context.request->kernel->descriptor;
  int next = 0;
  const auto pointer = [&](uint32_t property, uint64_t value) {
    if ((descriptor.properties & property) == 0) return;
    wave.set_scalar64(next, value);
    next += 2;
  };
  if ((descriptor.properties & kPrivateSegmentBuffer) != 0) next += 4;  // Left undefined.
  pointer(kDispatchPointer, context.dispatch_packet);
  if ((descriptor.properties & kQueuePointer) != 0) next += 2;
  pointer(kKernargPointer, context.kernarg);
  pointer(kDispatchId, 0);
  if ((descriptor.properties & kFlatScratchInit) != 0) next += 2;
  if ((descriptor.properties & kPrivateSegmentSize) != 0) {
    wave.set_scalar(next++, descriptor.private_segment_size);
  }
  for (uint32_t d = 0; d < descriptor.preload_length; ++d) {
    uint32_t value = 0;
    const size_t at = size_t{4} * (descriptor.preload_offset + d);
    const std::vector<uint8_t>& arguments = context.request->arguments;
    if (at + 4 <= arguments.size()) std::memcpy(&value, arguments.data() + at, 4);
    wave.set_scalar(next++, value);
  }
  for (int axis = 0; axis < 3; ++axis) {
    if (descriptor.has_workgroup_id(axis)) wave.set_scalar(next++, id[static_cast<size_t>(axis)]);
  }
  if (descriptor.has_workgroup_info()) wave.set_scalar(next++, 0);
}

// v0 holds a lane's place in the workgroup: x, y << 10, z << 20.
void Workgroup::SetWorkItems(DeviceWave& wave) {
  const auto& block = context.request->block;
  const uint32_t first = static_cast<uint32_t>(wave.index) * kLanes;
  const uint32_t live = std::min<uint32_t>(kLanes, Threads(*context.request) - first);
  for (uint32_t lane = 0; lane < live; ++lane) {
    const uint32_t item = first + lane, x = item % block[0], y = item / block[0] % block[1];
    const uint32_t z = item / block[0] / block[1];
    wave.vgpr[0][static_cast<int>(lane)] = x | y << 10 | z << 20;
  }
  const uint64_t lanes = live == kLanes ? ~uint64_t{0} : (uint64_t{1} << live) - 1;
  wave.vgpr_undefined[0] = ~lanes;
  wave.set_scalar64(kExec, lanes);
}

void Workgroup::RunWave(DeviceWave& wave, uint64_t quantum) {
  Program& program = *context.request->program;
  const uint64_t limit = context.request->options.limit;
  for (uint64_t n = 0; n < quantum && wave.state == DeviceWave::State::kReady; ++n) {
    const Decoded* decoded = program.At(wave.pc);
    wave.current = decoded;
    if (decoded == nullptr) throw Fault("the wave has left the kernel's code.");
    if (wave.pc == context.skip) {
      wave.pc += decoded->instruction.size;
      continue;
    }
    if (++wave.executed > limit) CheckStuck(wave);
    Step(wave, *decoded);
    if (decoded->instruction.kind == Class::kWait) return;
  }
}

void Workgroup::Step(DeviceWave& wave, const Decoded& decoded) {
  const Instruction& i = decoded.instruction;
  if (i.opcode == nullptr) {
    throw Fault("an unknown instruction: the words " + Words(i) + " are none of this chip's.");
  }
  if (i.vgprs > wave.vgpr_count || i.agprs > wave.agpr_count) {
    throw Fault("uses a vector register past the wave's " + std::to_string(wave.vgpr_count) +
                " VGPRs and " + std::to_string(wave.agpr_count) + " AGPRs.");
  }
  if (wave.pending_registers != 0 && context.Checks(kCheckWaits)) wave.CheckPendingRegisters(i);
  if (decoded.facts.traits != 0 && context.Checks(kCheckHazards)) {
    const std::string hazard =
        wave.hazards.Check(i, decoded.facts, wave.states, context.request->program->chip());
    if (!hazard.empty()) throw CheckFault("hazard", hazard);
  }
  ++statistics.instructions[static_cast<size_t>(i.kind)];
  statistics.valu_passes += decoded.facts.issue;
  statistics.mfma_passes += i.passes;
  wave.pc = i.address + i.size;
  const uint64_t now = wave.states;
  wave.states += i.kind == Class::kNop ? static_cast<uint64_t>(i.simm16 & 15) + 1 : 1;
  if (i.kind == Class::kBranch) CheckBranch(wave, i);
  if (i.execute != nullptr) {
    i.execute(wave, i);
  } else {
    Control(wave, i);
  }
  if (decoded.facts.traits != 0) wave.hazards.Issue(i, decoded.facts, now);
}

void Workgroup::Control(DeviceWave& wave, const Instruction& i) {
  switch (i.kind) {
    case Class::kNop:
      CountEffect(wave);
      return;
    case Class::kHint:
    case Class::kCache:
      return;
    case Class::kMessage:
      if (std::string_view(i.name()).starts_with("s_trap")) {
        throw Fault("the kernel gives up: it has come to a trap.");
      }
      return;
    case Class::kWait:
      if (wave.WaitMatters(VectorCount(i), ScalarCount(i))) CountEffect(wave);
      return wave.Wait(VectorCount(i), ScalarCount(i));
    case Class::kBarrier:
      if (waves.size() > 1) CountEffect(wave);
      wave.state = DeviceWave::State::kAtBarrier;
      return;
    case Class::kEnd:
      wave.Wait(0, 0);
      wave.state = DeviceWave::State::kEnded;
      return;
    default:
      throw Fault("the simulated device does not execute this instruction, words " + Words(i) +
                  ".");
  }
}

void Workgroup::CheckBranch(const DeviceWave& wave, const Instruction& i) const {
  if (!context.Checks(kCheckUndefined)) return;
  const std::string_view name = i.name();
  bool undefined = false;
  if (name.starts_with("s_cbranch_scc")) undefined = wave.scc_undefined;
  if (name.starts_with("s_cbranch_vcc")) undefined = wave.undefined64(kVcc) != 0;
  if (name.starts_with("s_cbranch_exec")) undefined = wave.undefined64(kExec) != 0;
  const Operand& target = i.src[0];
  if (target.kind == OperandKind::kScalar && target.index < 127) {
    undefined |= wave.undefined64(target.index) != 0;
  }
  if (!undefined) return;
  throw CheckFault("undefined",
                   "the branch depends on a value that was computed from registers or memory "
                   "never written.");
}

// All waves that have not ended are at a barrier: lets them go on. An ended wave counts as if it
// were there. False if none is left.
bool Workgroup::ReleaseBarrier() {
  bool any = false;
  races.NextEpoch();
  for (const auto& wave : waves) {
    if (wave->state != DeviceWave::State::kAtBarrier) continue;
    wave->state = DeviceWave::State::kReady;
    any = true;
    faulting_wave = wave->index;
    wave->CarryLdsAccesses();
  }
  return any;
}

void Workgroup::CheckStuck(const DeviceWave& wave) const {
  const std::string ran = "wave " + std::to_string(wave.index) + " has executed " +
                          std::to_string(context.request->options.limit) + " instructions";
  std::string waiting;
  for (const auto& other : waves) {
    if (other->state != DeviceWave::State::kAtBarrier) continue;
    waiting += (waiting.empty() ? "" : ", ") + std::to_string(other->index);
  }
  if (waiting.empty() || !context.Checks(kCheckBarriers)) {
    throw CheckFault("limit", ran + " without ending; if it needs more, raise HIPSIM_LIMIT.");
  }
  throw CheckFault("barrier", ran + " and has not come to the barrier at which these waves wait: " +
                                  waiting + ".");
}

}  // namespace hipsim
