// Modules, functions and launches.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

#include "tests/hipsim/exec/launch.h"
#include "tests/hipsim/runtime/runtime.h"

namespace hipsim {
namespace {

constexpr uint32_t kMaxThreads = 1024;

size_t LdsOf(Chip chip) { return chip == Chip::kGfx950 ? 160 << 10 : 64 << 10; }

HipError Fail(HipError error, const char* check, std::string report) {
  if (!Runtime::Get().options().quiet) std::fprintf(stderr, "hipsim: %s\n", report.c_str());
  Runtime::Get().SetReport(check, std::move(report));
  return error;
}

HipError ErrorOf(LoadStatus status) {
  switch (status) {
    case LoadStatus::kOk:
      return kSuccess;
    case LoadStatus::kNoBinaryForGpu:
      return kNoBinaryForGpu;
    case LoadStatus::kOutOfMemory:
      return kOutOfMemory;
    default:
      return kInvalidImage;
  }
}

HipError Load(hipModule_t* module, std::span<const uint8_t> image) {
  const Chip chip = Runtime::Get().options().chip;
  CodeObject::Result result = CodeObject::Load(image, ChipName(chip));
  if (result.status != LoadStatus::kOk) {
    return Fail(ErrorOf(result.status), "load", std::move(result.message));
  }
  Runtime::Get().buffers().AddInternal(result.object->base(), result.object->size());
  *module = new ihipModule_t{std::make_unique<Program>(std::move(result.object), chip), {}};
  Runtime::Get().Add(*module);
  return kSuccess;
}

HipError LoadFile(hipModule_t* module, const char* path) {
  if (module == nullptr || path == nullptr) return kInvalidValue;
  std::ifstream file(path, std::ios::binary);
  if (!file) return kFileNotFound;
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return Load(module, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

// The caller does not say how long the image is. A damaged header may claim more than there is, so
// that the bytes are copied through the system, which stops where memory ends.
std::vector<uint8_t> ReadableBytes(const void* address, uint64_t size) {
  constexpr uint64_t kChunk = 4096;
  std::vector<uint8_t> bytes(std::min<uint64_t>(size, uint64_t{1} << 30));
  uint64_t done = 0;
  while (done < bytes.size()) {
    const uint64_t from = reinterpret_cast<uint64_t>(address) + done;
    const uint64_t count = std::min<uint64_t>(bytes.size() - done, kChunk - from % kChunk);
    iovec local{bytes.data() + done, count}, remote{reinterpret_cast<void*>(from), count};
    const ssize_t copied = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (copied <= 0) break;
    done += static_cast<uint64_t>(copied);
  }
  if (done == 0) {  // The system may forbid the call; then the header is trusted.
    std::memcpy(bytes.data(), address, bytes.size());
    return bytes;
  }
  bytes.resize(done);
  return bytes;
}

HipError LoadData(hipModule_t* module, const void* image) {
  if (module == nullptr || image == nullptr) return kInvalidValue;
  const uint64_t size = ImageSize(image);
  if (size == 0) {
    return Fail(kInvalidImage, "load",
                "the code object is neither an ELF file nor an offload bundle.");
  }
  const std::vector<uint8_t> bytes = ReadableBytes(image, size);
  return Load(module, bytes);
}

HipError Unload(hipModule_t module) {
  if (!Runtime::Get().Remove(module)) return kInvalidHandle;
  for (const auto& [name, function] : module->functions) Runtime::Get().Remove(function.get());
  Runtime::Get().buffers().RemoveInternal(module->program->object().base());
  delete module;
  return kSuccess;
}

HipError GetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  static std::mutex mutex;
  if (function == nullptr || name == nullptr) return kInvalidValue;
  if (!Runtime::Get().Valid(module)) return kInvalidHandle;
  const Kernel* kernel = module->program->object().FindKernel(name);
  if (kernel == nullptr) return kNotFound;
  const std::lock_guard lock(mutex);
  auto& symbol = module->functions[name];
  if (symbol == nullptr) {
    symbol = std::make_unique<ihipModuleSymbol_t>();
    symbol->kernel = kernel;
    symbol->module = module;
    Runtime::Get().Add(symbol.get());
  }
  *function = symbol.get();
  return kSuccess;
}

HipError GetGlobal(hipDeviceptr_t* pointer, size_t* size, hipModule_t module, const char* name) {
  if (name == nullptr) return kInvalidValue;
  if (!Runtime::Get().Valid(module)) return kInvalidHandle;
  const GlobalSymbol* symbol = module->program->object().FindGlobal(name);
  if (symbol == nullptr) return kNotFound;
  if (pointer != nullptr) *pointer = reinterpret_cast<void*>(symbol->address);
  if (size != nullptr) *size = symbol->size;
  return kSuccess;
}

HipError GetAttribute(int* value, uint32_t attribute, hipFunction_t function) {
  if (value == nullptr) return kInvalidValue;
  if (!Runtime::Get().Valid(function)) return kInvalidHandle;
  const Kernel& kernel = *function->kernel;
  const int values[] = {
      static_cast<int>(kernel.max_threads),
      static_cast<int>(kernel.descriptor.group_segment_size),
      0,
      static_cast<int>(kernel.descriptor.private_segment_size),
      static_cast<int>(kernel.vgprs),
      95,
      95,
      0,
      function->max_dynamic_lds,
      0,
  };
  if (attribute >= std::size(values)) return kInvalidValue;
  *value = values[attribute];
  return kSuccess;
}

HipError SetAttribute(const void* function, uint32_t attribute, int value) {
  constexpr uint32_t kMaxDynamicLds = 8, kCarveout = 9;
  if (!Runtime::Get().Valid(function)) return kInvalidDeviceFunction;
  if (attribute != kMaxDynamicLds && attribute != kCarveout) return kInvalidValue;
  auto* symbol = static_cast<ihipModuleSymbol_t*>(const_cast<void*>(function));
  if (attribute == kCarveout) return kSuccess;
  const auto lds = static_cast<int64_t>(LdsOf(Runtime::Get().options().chip));
  if (value < 0 || value + int64_t{symbol->kernel->descriptor.group_segment_size} > lds) {
    return kInvalidValue;
  }
  symbol->max_dynamic_lds = value;
  return kSuccess;
}

// The shape of a launch.
struct Shape {
  std::array<uint32_t, 3> grid, block;
  uint32_t dynamic_lds;
};

// Copies the explicit arguments to their places.
HipError PackArguments(const Kernel& kernel, void** params, void** extra,
                       std::vector<uint8_t>& segment) {
  segment.assign(kernel.kernarg_size, 0);
  if (params != nullptr && extra != nullptr) return kInvalidValue;
  if (extra != nullptr) {
    const void* bytes = nullptr;
    size_t size = 0;
    for (int i = 0; extra[i] != reinterpret_cast<void*>(3); i += 2) {
      const auto key = reinterpret_cast<uintptr_t>(extra[i]);
      if (key == 1) bytes = extra[i + 1];
      if (key == 2) size = *static_cast<const size_t*>(extra[i + 1]);
      if (key != 1 && key != 2) return kInvalidValue;
    }
    if (bytes == nullptr && size != 0) return kInvalidValue;
    if (size != 0) std::memcpy(segment.data(), bytes, std::min(size, segment.size()));
    return kSuccess;
  }
  size_t index = 0;
  for (const KernelArgument& argument : kernel.arguments) {
    if (argument.hidden()) continue;
    if (params == nullptr || params[index] == nullptr) return kInvalidValue;
    std::memcpy(segment.data() + argument.offset, params[index++], argument.size);
  }
  return kSuccess;
}

// The value of a hidden argument.
uint64_t HiddenArgument(std::string_view kind, const Shape& shape) {
  const auto axis = static_cast<size_t>(kind.back() - 'x');
  if (kind.starts_with("hidden_block_count_")) return shape.grid[axis];
  if (kind.starts_with("hidden_group_size_")) return shape.block[axis];
  if (kind == "hidden_dynamic_lds_size") return shape.dynamic_lds;
  if (kind == "hidden_grid_dims") {
    return shape.grid[2] * shape.block[2] > 1 ? 3 : shape.grid[1] * shape.block[1] > 1 ? 2 : 1;
  }
  return 0;  // Remainders and global offsets; buffers for printing and the heap, which there are
             // not.
}

void PackHidden(const Kernel& kernel, const Shape& shape, std::vector<uint8_t>& segment) {
  for (const KernelArgument& argument : kernel.arguments) {
    if (!argument.hidden()) continue;
    const uint64_t value = HiddenArgument(argument.kind, shape);
    std::memcpy(segment.data() + argument.offset, &value, std::min<size_t>(argument.size, 8));
  }
}

HipError CheckShape(const Kernel& kernel, const Shape& shape, Chip chip) {
  uint64_t threads = 1, limit = std::min(kMaxThreads, kernel.max_threads);
  for (int axis = 0; axis < 3; ++axis) {
    if (shape.grid[axis] == 0 || shape.block[axis] == 0) return kInvalidConfiguration;
    if (uint64_t{shape.grid[axis]} * shape.block[axis] > 0xFFFFFFFF) return kInvalidConfiguration;
    threads *= shape.block[axis];
  }
  if (threads > limit) return kInvalidConfiguration;
  const uint64_t lds = uint64_t{kernel.descriptor.group_segment_size} + shape.dynamic_lds;
  return lds > LdsOf(chip) ? kInvalidValue : kSuccess;
}

void AppendLine(const std::string& path, const std::string& line) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  std::ofstream(path, std::ios::app) << line << '\n';
}

HipError ErrorOfCheck(std::string_view check) {
  if (check == "bounds") return kIllegalAddress;
  if (check == "limit") return kLaunchTimeOut;
  return kLaunchFailure;
}

HipError LaunchKernel(hipFunction_t function, const Shape& shape, hipStream_t stream, void** params,
                      void** extra) {
  if (!Runtime::Get().Valid(function)) return kInvalidHandle;
  if (!ValidStream(stream)) return kContextIsDestroyed;
  LaunchRequest request;
  request.options = Runtime::Get().options();
  request.program = function->module->program.get();
  request.kernel = function->kernel;
  request.grid = shape.grid;
  request.block = shape.block;
  request.dynamic_lds = shape.dynamic_lds;
  HipError error = CheckShape(*request.kernel, shape, request.program->chip());
  if (error != kSuccess) return error;
  error = PackArguments(*request.kernel, params, extra, request.arguments);
  if (error != kSuccess) return error;
  PackHidden(*request.kernel, shape, request.arguments);
  request.buffers = Runtime::Get().buffers().Snapshot();
  LaunchResult result = Launch(request);
  if (!request.options.statistics.empty()) {
    AppendLine(request.options.statistics, result.statistics);
  }
  Runtime::Get().SetStatistics(std::move(result.statistics));
  if (result.check.empty()) return kSuccess;
  error = ErrorOfCheck(result.check);
  return Fail(error, result.check.c_str(), std::move(result.report));
}

}  // namespace
}  // namespace hipsim

using namespace hipsim;

HIPSIM_EXPORT hipError_t hipModuleLoad(hipModule_t* module, const char* path) {
  return Enter("hipModuleLoad", [&] { return LoadFile(module, path); });
}

HIPSIM_EXPORT hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return Enter("hipModuleLoadData", [&] { return LoadData(module, image); });
}

HIPSIM_EXPORT hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned,
                                             uint32_t*, void**) {
  return Enter("hipModuleLoadDataEx", [&] { return LoadData(module, image); });
}

HIPSIM_EXPORT hipError_t hipModuleUnload(hipModule_t module) {
  return Enter("hipModuleUnload", [&] { return Unload(module); });
}

HIPSIM_EXPORT hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module,
                                              const char* name) {
  return Enter("hipModuleGetFunction", [&] { return GetFunction(function, module, name); });
}

HIPSIM_EXPORT hipError_t hipModuleGetGlobal(hipDeviceptr_t* pointer, size_t* size,
                                            hipModule_t module, const char* name) {
  return Enter("hipModuleGetGlobal", [&] { return GetGlobal(pointer, size, module, name); });
}

HIPSIM_EXPORT hipError_t hipFuncGetAttribute(int* value, uint32_t attribute,
                                             hipFunction_t function) {
  return Enter("hipFuncGetAttribute", [&] { return GetAttribute(value, attribute, function); });
}

HIPSIM_EXPORT hipError_t hipFuncSetAttribute(const void* function, uint32_t attribute, int value) {
  return Enter("hipFuncSetAttribute", [&] { return SetAttribute(function, attribute, value); });
}

HIPSIM_EXPORT hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x,
                                               unsigned grid_y, unsigned grid_z, unsigned block_x,
                                               unsigned block_y, unsigned block_z,
                                               unsigned dynamic_lds, hipStream_t stream,
                                               void** params, void** extra) {
  return Enter("hipModuleLaunchKernel", [&] {
    const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_lds};
    return LaunchKernel(function, shape, stream, params, extra);
  });
}
