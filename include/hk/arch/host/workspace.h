// Where a block of a host kernel keeps its tiles: the counterpart of LDS. One buffer per thread,
// kept for the next block, so that blocks allocate nothing once a thread has run one.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#include "hk/core/config.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

class workspace {
 public:
  workspace() = default;
  workspace(const workspace&) = delete;
  workspace& operator=(const workspace&) = delete;
  ~workspace() { std::free(data_); }

  // At least `bytes` bytes aligned to a cache line, valid until the next call on this thread; null
  // if there is no memory. The contents are whatever the last user left.
  static void* of_this_thread(std::size_t bytes) {
    thread_local workspace mine;
    return mine.reserve(bytes);
  }

 private:
  void* reserve(std::size_t bytes) {
    if (bytes <= size_) return data_;
    std::free(data_);
    size_ = (bytes + 63) / 64 * 64;
    data_ = std::aligned_alloc(64, size_);
    if (!data_) size_ = 0;
    return data_;
  }

  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// A kernel's tiles as one struct in this thread's workspace, default-initialised (sizes in use, not
// elements); null if there is no memory.
template <class Tiles>
HK_INLINE Tiles* shared_tiles() {
  void* memory = workspace::of_this_thread(sizeof(Tiles));
  return memory ? new (memory) Tiles : nullptr;
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
