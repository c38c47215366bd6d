#include "tests/hipsim/exec/launch.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "tests/hipsim/exec/device.h"

namespace hipsim {
namespace {

constexpr size_t kKernargPadding = 64;  // bytes that a wide scalar load may touch past the segment

// The fields of an AQL dispatch packet that kernels read.
struct DispatchPacket {
  uint16_t header = 0, setup = 3;
  uint16_t workgroup[3] = {};
  uint16_t reserved0 = 0;
  uint32_t grid[3] = {};  // in work items
  uint32_t private_size = 0, group_size = 0;
  uint64_t kernel = 0, kernarg = 0, reserved1 = 0, signal = 0;
};
static_assert(sizeof(DispatchPacket) == 64);

// Memory that the launch itself provides to its kernel.
struct Provided {
  std::vector<uint8_t> kernarg, kernarg_defined;
  DispatchPacket packet;
};

Buffer InternalBuffer(const void* memory, size_t size, uint8_t* defined) {
  return {reinterpret_cast<uint64_t>(memory), size, defined, Buffer::Kind::kInternal, 0};
}

// Whether some aligned eight bytes of the arguments point into the buffer.
bool ArgumentPointsInto(const std::vector<uint8_t>& arguments, const Buffer& buffer) {
  for (size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    uint64_t value;
    std::memcpy(&value, arguments.data() + at, sizeof(value));
    if (value >= buffer.base && value < buffer.end()) return true;
  }
  return false;
}

void ProvideMemory(const LaunchRequest& request, Provided& provided, LaunchContext& context) {
  const size_t size = request.arguments.size();
  provided.kernarg = request.arguments;
  provided.kernarg.resize((size + 2 * kKernargPadding - 1) / kKernargPadding * kKernargPadding,
                          0xFF);
  provided.kernarg_defined.assign(provided.kernarg.size(), 0);
  std::fill_n(provided.kernarg_defined.begin(), size, uint8_t{1});
  DispatchPacket& packet = provided.packet;
  for (int axis = 0; axis < 3; ++axis) {
    packet.workgroup[axis] = static_cast<uint16_t>(request.block[axis]);
    packet.grid[axis] = request.grid[axis] * request.block[axis];
  }
  packet.private_size = request.kernel->descriptor.private_segment_size;
  packet.group_size = context.lds_bytes;
  packet.kernarg = reinterpret_cast<uint64_t>(provided.kernarg.data());
  context.kernarg = packet.kernarg;
  context.dispatch_packet = reinterpret_cast<uint64_t>(&packet);
  context.buffers.push_back(InternalBuffer(provided.kernarg.data(), provided.kernarg.size(),
                                           provided.kernarg_defined.data()));
  context.buffers.push_back(InternalBuffer(&packet, sizeof(packet), nullptr));
}

void ProvideBuffers(const LaunchRequest& request, LaunchContext& context) {
  const CodeObject& object = request.program->object();
  for (const Buffer& buffer : request.buffers) {
    const bool own_code = buffer.kind == Buffer::Kind::kInternal && buffer.base == object.base();
    const bool allowed =
        own_code || (buffer.kind != Buffer::Kind::kInternal &&
                     (request.options.any_buffer || ArgumentPointsInto(request.arguments, buffer)));
    (allowed ? context.buffers : context.others).push_back(buffer);
  }
  std::sort(context.buffers.begin(), context.buffers.end(),
            [](const Buffer& a, const Buffer& b) { return a.base < b.base; });
}

// A fault with everything that there is to know about where it happened.
std::string Report(const LaunchContext& context, const Workgroup& group, const Fault& fault) {
  const LaunchRequest& request = *context.request;
  std::string text = "kernel '" + request.kernel->name + "'";
  char place[160];
  std::snprintf(place, sizeof(place), ", workgroup (%u, %u, %u)", group.id[0], group.id[1],
                group.id[2]);
  text += place;
  if (group.faulting_wave >= 0) {
    const DeviceWave& wave = *group.waves[static_cast<size_t>(group.faulting_wave)];
    text += ", wave " + std::to_string(wave.index);
    if (fault.lane >= 0) text += ", lane " + std::to_string(fault.lane);
    if (wave.current != nullptr) {
      const Instruction& instruction = wave.current->instruction;
      std::snprintf(place, sizeof(place), ", offset 0x%llx (address 0x%llx), '",
                    static_cast<unsigned long long>(instruction.address - request.kernel->entry),
                    static_cast<unsigned long long>(instruction.address));
      text += place + disassemble(instruction) + "'";
    }
  }
  return text + ": " + fault.what();
}

// The default floating-point environment, in which denormals are kept: XLA's threads flush them.
class DefaultArithmetic {
 public:
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before_); }
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

 private:
  std::fenv_t before_;
};

// Runs the workgroups on some threads, each taking the next.
class Launcher {
 public:
  explicit Launcher(const LaunchContext& context) : context_(context) {}

  void Run() {
    const LaunchRequest& request = *context_.request;
    count_ = uint64_t{request.grid[0]} * request.grid[1] * request.grid[2];
    uint64_t threads = request.options.threads;
    if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
    threads = std::min(threads, count_);
    std::vector<std::thread> pool;
    for (uint64_t t = 1; t < threads; ++t) pool.emplace_back([this] { Work(); });
    Work();
    for (std::thread& thread : pool) thread.join();
  }

  Statistics statistics;
  std::string check, report;

 private:
  void Work() {
    const DefaultArithmetic arithmetic;
    const auto& grid = context_.request->grid;
    Workgroup group(context_);
    for (uint64_t n = next_++; n < count_ && !stop_; n = next_++) {
      const std::array<uint32_t, 3> id{static_cast<uint32_t>(n % grid[0]),
                                       static_cast<uint32_t>(n / grid[0] % grid[1]),
                                       static_cast<uint32_t>(n / grid[0] / grid[1])};
      if (!RunOne(group, id, n)) break;
    }
    const std::lock_guard lock(mutex_);
    statistics.Add(group.statistics);
  }

  bool RunOne(Workgroup& group, const std::array<uint32_t, 3>& id, uint64_t n) {
    try {
      group.Run(id);
      return true;
    } catch (const CheckFault& fault) {
      Stop(n, fault.check, Report(context_, group, fault));
    } catch (const Fault& fault) {
      Stop(n, "instruction", Report(context_, group, fault));
    }
    return false;
  }

  // Of several faults, the one of the first workgroup is told.
  void Stop(uint64_t workgroup, const char* what, std::string text) {
    stop_ = true;
    const std::lock_guard lock(mutex_);
    if (workgroup >= first_) return;
    first_ = workgroup;
    check = what;
    report = std::move(text);
  }

  const LaunchContext& context_;
  uint64_t count_ = 0;
  std::atomic<uint64_t> next_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  uint64_t first_ = ~uint64_t{0};
};

}  // namespace

LaunchResult Launch(const LaunchRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const KernelDescriptor& descriptor = request.kernel->descriptor;
  LaunchContext context;
  context.request = &request;
  context.checks = request.options.checks;
  context.lds_bytes = descriptor.group_segment_size + request.dynamic_lds;
  if (request.options.skip >= 0) {
    context.skip = request.kernel->entry + static_cast<uint64_t>(request.options.skip);
  }
  Provided provided;
  ProvideMemory(request, provided, context);
  ProvideBuffers(request, context);
  context.uses = std::vector<std::atomic<uint8_t>>(context.buffers.size());
  Launcher launcher(context);
  launcher.Run();
  for (const auto& use : context.uses) {
    launcher.statistics.buffers_read_and_written += use == 3 ? 1 : 0;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const LaunchShape shape{request.grid, request.block, context.lds_bytes};
  return {std::move(launcher.check), std::move(launcher.report),
          ToJson(launcher.statistics, *request.kernel, shape, request.program->chip(),
                 seconds.count())};
}

}  // namespace hipsim
