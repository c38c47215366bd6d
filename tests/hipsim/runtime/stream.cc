// Streams and events. Work is done when it is submitted, which is one of the orders that HIP
// allows.
#include "tests/hipsim/runtime/runtime.h"

namespace hipsim {
namespace {

HipError CreateStream(hipStream_t* stream, uint32_t flags, int priority) {
  if (stream == nullptr || flags > 1) return kInvalidValue;
  if (!ValidDevice(CurrentThread().device)) return kNoDevice;
  *stream = new ihipStream_t{CurrentThread().device, flags, priority};
  Runtime::Get().Add(*stream);
  return kSuccess;
}

HipError CreateEvent(hipEvent_t* event, uint32_t flags) {
  constexpr uint32_t kDisableTiming = 2;
  if (event == nullptr) return kInvalidValue;
  if (!ValidDevice(CurrentThread().device)) return kNoDevice;
  *event = new ihipEvent_t;
  (*event)->device = CurrentThread().device;
  (*event)->timed = (flags & kDisableTiming) == 0;
  Runtime::Get().Add(*event);
  return kSuccess;
}

HipError CheckStream(hipStream_t stream) {
  return ValidStream(stream) ? kSuccess : kContextIsDestroyed;
}

HipError CheckEvent(hipEvent_t event) {
  return Runtime::Get().Valid(event) ? kSuccess : kInvalidHandle;
}

HipError Elapsed(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  if (milliseconds == nullptr) return kInvalidValue;
  if (CheckEvent(start) != kSuccess || CheckEvent(stop) != kSuccess) return kInvalidHandle;
  if (!start->recorded || !stop->recorded || !start->timed || !stop->timed) return kInvalidHandle;
  const std::chrono::duration<float, std::milli> elapsed = stop->time - start->time;
  *milliseconds = elapsed.count();
  return kSuccess;
}

}  // namespace
}  // namespace hipsim

using namespace hipsim;

HIPSIM_EXPORT hipError_t hipStreamCreate(hipStream_t* stream) {
  return Enter("hipStreamCreate", [&] { return CreateStream(stream, 0, 0); });
}

HIPSIM_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return Enter("hipStreamCreateWithFlags", [&] { return CreateStream(stream, flags, 0); });
}

HIPSIM_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags,
                                                     int priority) {
  return Enter("hipStreamCreateWithPriority",
               [&] { return CreateStream(stream, flags, priority); });
}

HIPSIM_EXPORT hipError_t hipStreamDestroy(hipStream_t stream) {
  return Enter("hipStreamDestroy", [&] {
    if (stream == nullptr || !Runtime::Get().Remove(stream)) return kInvalidHandle;
    delete stream;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream) {
  return Enter("hipStreamSynchronize", [&] { return CheckStream(stream); });
}

HIPSIM_EXPORT hipError_t hipStreamQuery(hipStream_t stream) {
  return Enter("hipStreamQuery", [&] { return CheckStream(stream); });
}

HIPSIM_EXPORT hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* device) {
  return Enter("hipStreamGetDevice", [&] {
    if (device == nullptr) return kInvalidValue;
    if (CheckStream(stream) != kSuccess) return kContextIsDestroyed;
    *device = Runtime::Get().Valid(stream) ? stream->device : CurrentThread().device;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return Enter("hipStreamWaitEvent", [&] {
    if (flags != 0) return kInvalidValue;
    const HipError error = CheckStream(stream);
    return error == kSuccess ? CheckEvent(event) : error;
  });
}

// No stream is ever captured: hipStreamBeginCapture is not among the entry points.
HIPSIM_EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, uint32_t* status) {
  return Enter("hipStreamIsCapturing", [&] {
    if (status == nullptr) return kInvalidValue;
    *status = 0;
    return CheckStream(stream);
  });
}

HIPSIM_EXPORT hipError_t hipEventCreate(hipEvent_t* event) {
  return Enter("hipEventCreate", [&] { return CreateEvent(event, 0); });
}

HIPSIM_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return Enter("hipEventCreateWithFlags", [&] { return CreateEvent(event, flags); });
}

HIPSIM_EXPORT hipError_t hipEventDestroy(hipEvent_t event) {
  return Enter("hipEventDestroy", [&] {
    if (!Runtime::Get().Remove(event)) return kInvalidHandle;
    delete event;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return Enter("hipEventRecord", [&] {
    if (CheckStream(stream) != kSuccess) return kContextIsDestroyed;
    if (CheckEvent(event) != kSuccess) return kInvalidHandle;
    event->recorded = true;
    event->time = std::chrono::steady_clock::now();
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipEventSynchronize(hipEvent_t event) {
  return Enter("hipEventSynchronize", [&] { return CheckEvent(event); });
}

HIPSIM_EXPORT hipError_t hipEventQuery(hipEvent_t event) {
  return Enter("hipEventQuery", [&] { return CheckEvent(event); });
}

HIPSIM_EXPORT hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start,
                                             hipEvent_t stop) {
  return Enter("hipEventElapsedTime", [&] { return Elapsed(milliseconds, start, stop); });
}
