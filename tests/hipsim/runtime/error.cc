// hipGetErrorString and its kin.
#include <algorithm>
#include <iterator>

#include "tests/hipsim/runtime/runtime.h"

namespace {

struct ErrorText {
  hipError_t code;
  const char* name;
  const char* text;
};

// HIP's words.
constexpr ErrorText kErrors[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {4, "hipErrorDeinitialized", "driver shutting down"},
    {9, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "hipErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "hipErrorInvalidSymbol", "invalid device symbol"},
    {17, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {21, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {35, "hipErrorInsufficientDriver", "driver version is insufficient for runtime version"},
    {52, "hipErrorMissingConfiguration", "__global__ function call is not configured"},
    {53, "hipErrorPriorLaunchFailure", "unspecified launch failure in prior launch"},
    {98, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "hipErrorInvalidImage", "device kernel image is invalid"},
    {201, "hipErrorInvalidContext", "invalid device context"},
    {205, "hipErrorMapFailed", "mapping of buffer object failed"},
    {206, "hipErrorUnmapFailed", "unmapping of buffer object failed"},
    {209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {214, "hipErrorECCNotCorrectable", "uncorrectable ECC error encountered"},
    {215, "hipErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {217, "hipErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {218, "hipErrorInvalidKernelFile", "invalid kernel file"},
    {300, "hipErrorInvalidSource", "invalid source"},
    {301, "hipErrorFileNotFound", "file not found"},
    {302, "hipErrorSharedObjectSymbolNotFound", "shared object symbol not found"},
    {303, "hipErrorSharedObjectInitFailed", "shared object initialization failed"},
    {304, "hipErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {401, "hipErrorIllegalState", "the operation cannot be performed in the present state"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "hipErrorLaunchOutOfResources", "out of resources requested for launch"},
    {702, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {704, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {705, "hipErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {708, "hipErrorSetOnActiveProcess", "cannot set while device is active in this process"},
    {709, "hipErrorContextIsDestroyed", "context is destroyed"},
    {710, "hipErrorAssert", "device-side assert triggered"},
    {712, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {713, "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {720, "hipErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {801, "hipErrorNotSupported", "operation not supported"},
    {900, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {999, "hipErrorUnknown", "unknown error"},
};

const ErrorText& Find(hipError_t code) {
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [&](const ErrorText& error) { return error.code == code; });
  return found == std::end(kErrors) ? *(std::end(kErrors) - 1) : *found;
}

bool Known(hipError_t code) { return Find(code).code == code; }

}  // namespace

HIPSIM_EXPORT const char* hipGetErrorName(hipError_t error) { return Find(error).name; }

HIPSIM_EXPORT const char* hipGetErrorString(hipError_t error) { return Find(error).text; }

HIPSIM_EXPORT hipError_t hipDrvGetErrorName(hipError_t error, const char** text) {
  if (text == nullptr) return hipsim::kInvalidValue;
  *text = Known(error) ? Find(error).name : nullptr;
  return Known(error) ? hipsim::kSuccess : hipsim::kInvalidValue;
}

HIPSIM_EXPORT hipError_t hipDrvGetErrorString(hipError_t error, const char** text) {
  if (text == nullptr) return hipsim::kInvalidValue;
  *text = Known(error) ? Find(error).text : nullptr;
  return Known(error) ? hipsim::kSuccess : hipsim::kInvalidValue;
}

// Both give the last error of any call of the thread; the first forgets it.
HIPSIM_EXPORT hipError_t hipGetLastError() {
  return std::exchange(hipsim::CurrentThread().last_error, hipsim::kSuccess);
}

HIPSIM_EXPORT hipError_t hipPeekAtLastError() { return hipsim::CurrentThread().last_error; }
