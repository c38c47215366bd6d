// Devices and their properties.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/hipsim/runtime/runtime.h"

namespace hipsim {
namespace {

constexpr int kVersion = 70000000;  // HIP 7.0
constexpr size_t kGibi = size_t{1} << 30;
constexpr int kMaxThreads = 1024;

// What sets the chips apart; the figures are those of an MI325X and an MI355X.
struct ChipFacts {
  const char* name;
  const char* arch;
  int compute_units;
  size_t lds;
  size_t memory;
  int clock_khz, memory_clock_khz;
  int minor;
};

constexpr ChipFacts kChips[] = {
    {"AMD Instinct MI325X (simulated)", "gfx942:sramecc+:xnack-", 304, 64 << 10, 256 * kGibi,
     2'100'000, 1'500'000, 4},
    {"AMD Instinct MI355X (simulated)", "gfx950:sramecc+:xnack-", 256, 160 << 10, 288 * kGibi,
     2'400'000, 2'000'000, 5},
};

const ChipFacts& CurrentChip() {
  return kChips[Runtime::Get().options().chip == Chip::kGfx950 ? 1 : 0];
}

void SetSizes(const ChipFacts& chip, DeviceProperties& p) {
  p.totalGlobalMem = chip.memory;
  p.sharedMemPerBlock = p.sharedMemPerMultiprocessor = chip.lds;
  p.sharedMemPerBlockOptin = p.maxSharedMemoryPerMultiProcessor = chip.lds;
  p.regsPerBlock = p.regsPerMultiprocessor = 131072;
  p.warpSize = 64;
  p.memPitch = 0x7FFFFFFF;
  p.maxThreadsPerBlock = kMaxThreads;
  std::fill_n(p.maxThreadsDim, 3, kMaxThreads);
  p.maxGridSize[0] = 0x7FFFFFFF;
  p.maxGridSize[1] = p.maxGridSize[2] = 65536;
  p.totalConstMem = 0x7FFFFFFF;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 2;
  p.l2CacheSize = 4 << 20;
  p.memoryBusWidth = 8192;
  p.textureAlignment = p.texturePitchAlignment = 256;
}

DeviceProperties Properties(int device) {
  const ChipFacts& chip = CurrentChip();
  DeviceProperties p{};
  std::snprintf(p.name, sizeof(p.name), "%s", chip.name);
  std::snprintf(p.gcnArchName, sizeof(p.gcnArchName), "%s", chip.arch);
  std::snprintf(p.uuid, sizeof(p.uuid), "hipsim-%d", device);
  SetSizes(chip, p);
  p.clockRate = chip.clock_khz;
  p.clockInstructionRate = 100'000;
  p.memoryClockRate = chip.memory_clock_khz;
  p.major = 9;
  p.minor = chip.minor;
  p.multiProcessorCount = chip.compute_units;
  p.pciBusID = device + 1;
  p.canMapHostMemory = p.concurrentKernels = p.ECCEnabled = p.unifiedAddressing = 1;
  p.asyncEngineCount = 8;
  p.hostRegisterSupported = p.canUseHostPointerForRegisteredMem = 1;
  p.hostNativeAtomicSupported = p.memoryPoolsSupported = p.isLargeBar = 1;
  p.arch = 0x7FFFF;
  return p;
}

// The attributes that typical launchers ask for; -1 for any other.
int64_t Attribute(uint32_t attribute, const DeviceProperties& p) {
  switch (attribute) {
    case 0:
      return p.ECCEnabled;
    case 2:
      return p.asyncEngineCount;
    case 3:
      return p.canMapHostMemory;
    case 4:
      return p.canUseHostPointerForRegisteredMem;
    case 5:
      return p.clockRate;
    case 6:
      return p.computeMode;
    case 8:
      return p.concurrentKernels;
    case 9:
    case 10:
    case 11:
      return 0;
    case 15:
      return p.hostNativeAtomicSupported;
    case 16:
      return p.integrated;
    case 19:
      return p.l2CacheSize;
    case 23:
      return p.major;
    case 24:
      return p.managedMemory;
    case 25:
      return p.maxBlocksPerMultiProcessor;
    case 26:
    case 27:
    case 28:
      return p.maxThreadsDim[attribute - 26];
    case 29:
    case 30:
    case 31:
      return p.maxGridSize[attribute - 29];
    case 56:
      return p.maxThreadsPerBlock;
    case 57:
      return p.maxThreadsPerMultiProcessor;
    case 58:
      return static_cast<int64_t>(p.memPitch);
    case 59:
      return p.memoryBusWidth;
    case 60:
      return p.memoryClockRate;
    case 61:
      return p.minor;
    case 63:
    case 10015:
      return p.multiProcessorCount;
    case 67:
      return p.pciBusID;
    case 68:
      return p.pciDeviceID;
    case 69:
      return p.pciDomainID;
    case 71:
      return p.regsPerBlock;
    case 72:
      return p.regsPerMultiprocessor;
    case 74:
      return static_cast<int64_t>(p.sharedMemPerBlock);
    case 75:
      return static_cast<int64_t>(p.sharedMemPerBlockOptin);
    case 76:
    case 10002:
      return static_cast<int64_t>(p.sharedMemPerMultiprocessor);
    case 83:
      return static_cast<int64_t>(p.totalConstMem);
    case 85:
      return p.unifiedAddressing;
    case 87:
      return p.warpSize;
    case 88:
      return p.memoryPoolsSupported;
    case 90:
      return p.hostRegisterSupported;
    case 10000:
    case 10017:
      return p.clockInstructionRate;
    case 10011:
      return p.isLargeBar;
    case 10012:
      return p.asicRevision;
    case 10018:
      return 8;  // XCDs
    case 10019:
      return 512;
    default:
      return -1;
  }
}

HipError WithDevice(int device, auto&& body) {
  if (!ValidDevice(device)) return kInvalidDevice;
  return body();
}

HipError CopyText(char* to, int size, const char* from) {
  if (to == nullptr || size <= 0) return kInvalidValue;
  std::snprintf(to, static_cast<size_t>(size), "%s", from);
  return kSuccess;
}

}  // namespace
}  // namespace hipsim

using namespace hipsim;

HIPSIM_EXPORT hipError_t hipInit(unsigned flags) {
  return Enter("hipInit", [&] {
    if (flags != 0) return kInvalidValue;
    return Runtime::Get().options().devices == 0 ? kNoDevice : kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipGetDeviceCount(int* count) {
  return Enter("hipGetDeviceCount", [&] {
    if (count == nullptr) return kInvalidValue;
    *count = Runtime::Get().options().devices;
    return *count == 0 ? kNoDevice : kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipSetDevice(int device) {
  return Enter("hipSetDevice", [&] {
    return WithDevice(device, [&] {
      CurrentThread().device = device;
      return kSuccess;
    });
  });
}

HIPSIM_EXPORT hipError_t hipGetDevice(int* device) {
  return Enter("hipGetDevice", [&] {
    if (device == nullptr) return kInvalidValue;
    if (!ValidDevice(0)) return kNoDevice;
    *device = CurrentThread().device;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return Enter("hipDeviceGet", [&] {
    if (device == nullptr) return kInvalidValue;
    return WithDevice(ordinal, [&] {
      *device = ordinal;
      return kSuccess;
    });
  });
}

HIPSIM_EXPORT hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device) {
  return Enter("hipDeviceGetName", [&] {
    return WithDevice(device, [&] { return CopyText(name, size, CurrentChip().name); });
  });
}

HIPSIM_EXPORT hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return Enter("hipDeviceTotalMem", [&] {
    if (bytes == nullptr) return kInvalidValue;
    return WithDevice(device, [&] {
      *bytes = CurrentChip().memory;
      return kSuccess;
    });
  });
}

HIPSIM_EXPORT hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t device) {
  return Enter("hipDeviceComputeCapability", [&] {
    if (major == nullptr || minor == nullptr) return kInvalidValue;
    return WithDevice(device, [&] {
      *major = 9;
      *minor = CurrentChip().minor;
      return kSuccess;
    });
  });
}

HIPSIM_EXPORT hipError_t hipDeviceGetPCIBusId(char* id, int size, int device) {
  return Enter("hipDeviceGetPCIBusId", [&] {
    return WithDevice(device, [&] {
      char text[16];
      std::snprintf(text, sizeof(text), "0000:%02x:00.0", device + 1);
      return CopyText(id, size, text);
    });
  });
}

HIPSIM_EXPORT hipError_t hipGetDevicePropertiesR0600(DeviceProperties* properties, int device) {
  return Enter("hipGetDeviceProperties", [&] {
    if (properties == nullptr) return kInvalidValue;
    return WithDevice(device, [&] {
      *properties = Properties(device);
      return kSuccess;
    });
  });
}

HIPSIM_EXPORT hipError_t hipDeviceGetAttribute(int* value, uint32_t attribute, int device) {
  return Enter("hipDeviceGetAttribute", [&] {
    if (value == nullptr) return kInvalidValue;
    return WithDevice(device, [&] {
      const int64_t found = Attribute(attribute, Properties(device));
      if (found < 0) return kInvalidValue;
      *value = static_cast<int>(std::min<int64_t>(found, 0x7FFFFFFF));
      return kSuccess;
    });
  });
}

HIPSIM_EXPORT hipError_t hipRuntimeGetVersion(int* version) {
  return Enter("hipRuntimeGetVersion", [&] {
    if (version == nullptr) return kInvalidValue;
    *version = kVersion;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipDriverGetVersion(int* version) {
  return Enter("hipDriverGetVersion", [&] {
    if (version == nullptr) return kInvalidValue;
    *version = kVersion;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return Enter("hipMemGetInfo", [&] {
    if (free == nullptr || total == nullptr) return kInvalidValue;
    *total = CurrentChip().memory;
    *free = *total - std::min<size_t>(*total, Runtime::Get().buffers().allocated());
    return kSuccess;
  });
}

// Work is done when it is submitted, so that none is left.
HIPSIM_EXPORT hipError_t hipDeviceSynchronize() {
  return Enter("hipDeviceSynchronize", [] { return kSuccess; });
}
