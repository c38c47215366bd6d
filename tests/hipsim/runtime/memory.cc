// Device memory, pinned and registered host memory, copies and fills.
#include <algorithm>
#include <cstring>

#include "tests/hipsim/runtime/runtime.h"

namespace hipsim {
namespace {

HipError Allocate(void** pointer, size_t size, Buffer::Kind kind) {
  if (pointer == nullptr) return kInvalidValue;
  *pointer = nullptr;
  if (!ValidDevice(CurrentThread().device)) return kNoDevice;
  if (size == 0) return kSuccess;
  size_t total = 0;
  size_t free = 0;
  if (kind == Buffer::Kind::kDevice) {
    const bool large = Runtime::Get().options().chip == Chip::kGfx950;
    total = size_t{large ? 288u : 256u} << 30;
    free = total - std::min<size_t>(total, Runtime::Get().buffers().allocated());
    if (size > free) return kOutOfMemory;
  }
  *pointer = Runtime::Get().buffers().Allocate(size, kind, CurrentThread().device);
  return *pointer == nullptr ? kOutOfMemory : kSuccess;
}

HipError Free(void* pointer, Buffer::Kind kind) {
  if (pointer == nullptr || Runtime::Get().buffers().Free(pointer, kind)) return kSuccess;
  return kInvalidValue;
}

std::optional<Buffer> Known(const void* pointer, size_t size) {
  return Runtime::Get().buffers().Find(reinterpret_cast<uint64_t>(pointer), size);
}

// Device memory has to be the device's, all of it; other memory is taken on trust.
bool RangeOk(const void* pointer, size_t size, bool device) {
  if (pointer == nullptr) return false;
  if (device) return Known(pointer, size).has_value();
  const auto start = Known(pointer, 1);
  return !start || Known(pointer, size).has_value();
}

HipError Copy(void* to, const void* from, size_t size, uint32_t kind) {
  if (size == 0) return kSuccess;
  const bool to_device =
      kind == kHostToDevice || kind == kDeviceToDevice || kind == kDeviceToDeviceNoCu;
  const bool from_device =
      kind == kDeviceToHost || kind == kDeviceToDevice || kind == kDeviceToDeviceNoCu;
  if (kind > kCopyDefault && kind != kDeviceToDeviceNoCu) return kInvalidMemcpyDirection;
  if (!RangeOk(to, size, to_device) || !RangeOk(from, size, from_device)) return kInvalidValue;
  Runtime::Get().buffers().Copy(to, from, size);
  return kSuccess;
}

HipError Copy2d(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                size_t height, uint32_t kind) {
  if (width > to_pitch || width > from_pitch) return kInvalidValue;
  for (size_t row = 0; row < height; ++row) {
    const HipError error = Copy(static_cast<char*>(to) + row * to_pitch,
                                static_cast<const char*>(from) + row * from_pitch, width, kind);
    if (error != kSuccess) return error;
  }
  return kSuccess;
}

HipError Fill(void* to, uint32_t value, size_t element, size_t count) {
  if (count == 0) return kSuccess;
  if (!RangeOk(to, element * count, true)) return kInvalidValue;
  Runtime::Get().buffers().Fill(to, &value, element, count);
  return kSuccess;
}

HipError OnStream(hipStream_t stream, auto&& body) {
  if (!ValidStream(stream)) return kContextIsDestroyed;
  return body();
}

}  // namespace
}  // namespace hipsim

using namespace hipsim;

HIPSIM_EXPORT hipError_t hipMalloc(void** pointer, size_t size) {
  return Enter("hipMalloc", [&] { return Allocate(pointer, size, Buffer::Kind::kDevice); });
}

HIPSIM_EXPORT hipError_t hipFree(void* pointer) {
  return Enter("hipFree", [&] { return Free(pointer, Buffer::Kind::kDevice); });
}

HIPSIM_EXPORT hipError_t hipMallocAsync(void** pointer, size_t size, hipStream_t stream) {
  return Enter("hipMallocAsync", [&] {
    return OnStream(stream, [&] { return Allocate(pointer, size, Buffer::Kind::kDevice); });
  });
}

HIPSIM_EXPORT hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  return Enter("hipFreeAsync", [&] {
    return OnStream(stream, [&] { return Free(pointer, Buffer::Kind::kDevice); });
  });
}

HIPSIM_EXPORT hipError_t hipHostMalloc(void** pointer, size_t size, unsigned) {
  return Enter("hipHostMalloc", [&] { return Allocate(pointer, size, Buffer::Kind::kHost); });
}

HIPSIM_EXPORT hipError_t hipHostFree(void* pointer) {
  return Enter("hipHostFree", [&] { return Free(pointer, Buffer::Kind::kHost); });
}

HIPSIM_EXPORT hipError_t hipHostRegister(void* pointer, size_t size, unsigned) {
  return Enter("hipHostRegister", [&] {
    if (pointer == nullptr || size == 0) return kInvalidValue;
    if (Known(pointer, 1)) return kHostMemoryAlreadyRegistered;
    return Runtime::Get().buffers().Register(pointer, size) ? kSuccess
                                                            : kHostMemoryAlreadyRegistered;
  });
}

HIPSIM_EXPORT hipError_t hipHostUnregister(void* pointer) {
  return Enter("hipHostUnregister", [&] {
    return Runtime::Get().buffers().Unregister(pointer) ? kSuccess : kHostMemoryNotRegistered;
  });
}

HIPSIM_EXPORT hipError_t hipHostGetDevicePointer(void** device, void* host, unsigned) {
  return Enter("hipHostGetDevicePointer", [&] {
    if (device == nullptr || !Known(host, 1)) return kInvalidValue;
    *device = host;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipPointerGetAttributes(PointerAttributes* attributes,
                                                 const void* pointer) {
  return Enter("hipPointerGetAttributes", [&] {
    if (attributes == nullptr || pointer == nullptr) return kInvalidValue;
    *attributes = {};
    const auto buffer = Known(pointer, 1);
    if (!buffer) return kSuccess;  // HIP answers "unregistered" for ordinary host memory.
    auto* address = const_cast<void*>(pointer);
    attributes->type = buffer->kind == Buffer::Kind::kDevice ? kDevice : kHost;
    attributes->device = buffer->device;
    attributes->device_pointer = address;
    attributes->host_pointer = buffer->kind == Buffer::Kind::kDevice ? nullptr : address;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size,
                                               hipDeviceptr_t pointer) {
  return Enter("hipMemGetAddressRange", [&] {
    const auto buffer = Known(pointer, 1);
    if (base == nullptr || size == nullptr || !buffer) return kInvalidValue;
    *base = reinterpret_cast<void*>(buffer->base);
    *size = buffer->size;
    return kSuccess;
  });
}

HIPSIM_EXPORT hipError_t hipMemcpy(void* to, const void* from, size_t size, uint32_t kind) {
  return Enter("hipMemcpy", [&] { return Copy(to, from, size, kind); });
}

HIPSIM_EXPORT hipError_t hipMemcpyAsync(void* to, const void* from, size_t size, uint32_t kind,
                                        hipStream_t stream) {
  return Enter("hipMemcpyAsync",
               [&] { return OnStream(stream, [&] { return Copy(to, from, size, kind); }); });
}

HIPSIM_EXPORT hipError_t hipMemcpyHtoD(hipDeviceptr_t to, const void* from, size_t size) {
  return Enter("hipMemcpyHtoD", [&] { return Copy(to, from, size, kHostToDevice); });
}

HIPSIM_EXPORT hipError_t hipMemcpyDtoH(void* to, hipDeviceptr_t from, size_t size) {
  return Enter("hipMemcpyDtoH", [&] { return Copy(to, from, size, kDeviceToHost); });
}

HIPSIM_EXPORT hipError_t hipMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                     size_t width, size_t height, uint32_t kind) {
  return Enter("hipMemcpy2D",
               [&] { return Copy2d(to, to_pitch, from, from_pitch, width, height, kind); });
}

HIPSIM_EXPORT hipError_t hipMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                          size_t from_pitch, size_t width, size_t height,
                                          uint32_t kind, hipStream_t stream) {
  return Enter("hipMemcpy2DAsync", [&] {
    return OnStream(stream,
                    [&] { return Copy2d(to, to_pitch, from, from_pitch, width, height, kind); });
  });
}

HIPSIM_EXPORT hipError_t hipMemset(void* to, int value, size_t size) {
  return Enter("hipMemset", [&] { return Fill(to, static_cast<uint32_t>(value), 1, size); });
}

HIPSIM_EXPORT hipError_t hipMemsetAsync(void* to, int value, size_t size, hipStream_t stream) {
  return Enter("hipMemsetAsync", [&] {
    return OnStream(stream, [&] { return Fill(to, static_cast<uint32_t>(value), 1, size); });
  });
}

HIPSIM_EXPORT hipError_t hipMemsetD8(hipDeviceptr_t to, unsigned char value, size_t count) {
  return Enter("hipMemsetD8", [&] { return Fill(to, value, 1, count); });
}

HIPSIM_EXPORT hipError_t hipMemsetD16(hipDeviceptr_t to, unsigned short value, size_t count) {
  return Enter("hipMemsetD16", [&] { return Fill(to, value, 2, count); });
}

HIPSIM_EXPORT hipError_t hipMemsetD32(hipDeviceptr_t to, int value, size_t count) {
  return Enter("hipMemsetD32", [&] { return Fill(to, static_cast<uint32_t>(value), 4, count); });
}

HIPSIM_EXPORT hipError_t hipMemsetD32Async(hipDeviceptr_t to, int value, size_t count,
                                           hipStream_t stream) {
  return Enter("hipMemsetD32Async", [&] {
    return OnStream(stream, [&] { return Fill(to, static_cast<uint32_t>(value), 4, count); });
  });
}
