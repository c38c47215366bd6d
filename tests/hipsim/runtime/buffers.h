// The memory that a kernel may access: device allocations and registered host ranges, and which of
// their bytes have been written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hipsim {

// A range of bytes. `defined` holds a byte per byte of memory, 1 where it has been written; null if
// all have.
struct Buffer {
  enum class Kind { kDevice, kHost, kRegistered, kInternal };

  uint64_t base = 0;
  uint64_t size = 0;
  uint8_t* defined = nullptr;
  Kind kind = Kind::kDevice;
  int device = 0;

  uint64_t end() const { return base + size; }
  uint8_t* DefinedAt(uint64_t address) const {
    return defined == nullptr ? nullptr : defined + (address - base);
  }
};

std::string Describe(const Buffer& buffer);

// All live buffers. Memory is mapped without being reserved, so that a buffer takes only the pages
// that are touched.
class Buffers {
 public:
  // Device (or pinned host) memory; null if there is not enough. Small allocations are filled with
  // 0xFF, a NaN in every float format.
  void* Allocate(uint64_t size, Buffer::Kind kind, int device);
  // Frees what Allocate returned; false for any other address.
  bool Free(void* address, Buffer::Kind kind);

  // Registers memory of the caller's, which may overlap other registered memory; false if it
  // overlaps an allocation.
  bool Register(void* address, uint64_t size);
  bool Unregister(void* address);
  // Memory of the simulator's own, such as a code object's segments.
  void AddInternal(uint64_t base, uint64_t size);
  void RemoveInternal(uint64_t base);

  // False if the bytes are not all inside one buffer.
  bool MarkUndefined(void* address, uint64_t size, bool poison);

  // The buffer that holds [address, address + size).
  std::optional<Buffer> Find(uint64_t address, uint64_t size) const;
  std::vector<Buffer> Snapshot() const;

  // Copies or fills memory and what is known of its bytes.
  void Copy(void* to, const void* from, uint64_t size);
  void Fill(void* to, const void* pattern, uint64_t pattern_size, uint64_t count);

  uint64_t allocated() const;

 private:
  struct Entry {
    Buffer buffer;
    uint64_t mapped = 0;  // bytes mapped at base; 0 if the memory is not ours
    uint64_t shadow = 0;  // bytes mapped at defined
    int registered = 0;   // how often
  };

  using Key = std::pair<uint64_t, uint64_t>;  // base and size

  std::map<Key, Entry>::iterator WithBase(uint64_t base, Buffer::Kind kind);
  const Entry* Holding(uint64_t address, uint64_t size) const;
  bool OverlapsAllocation(uint64_t base, uint64_t size) const;
  static void Release(const Entry& entry);

  mutable std::mutex mutex_;
  std::map<Key, Entry> entries_;
  uint64_t allocated_ = 0;
};

}  // namespace hipsim
