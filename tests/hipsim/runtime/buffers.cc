#include "tests/hipsim/runtime/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace hipsim {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPoisonedSize = uint64_t{16} << 20;  // larger allocations are left sparse

uint64_t Pages(uint64_t size) { return (size + kPage - 1) / kPage * kPage; }

void* MapPages(uint64_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

std::string Describe(const Buffer& buffer) {
  const char* kind = buffer.kind == Buffer::Kind::kDevice       ? "the device buffer"
                     : buffer.kind == Buffer::Kind::kHost       ? "the pinned host buffer"
                     : buffer.kind == Buffer::Kind::kRegistered ? "the registered buffer"
                                                                : "the simulator's range";
  char text[128];
  std::snprintf(text, sizeof(text), "%s [0x%llx, 0x%llx) of %llu bytes", kind,
                static_cast<unsigned long long>(buffer.base),
                static_cast<unsigned long long>(buffer.end()),
                static_cast<unsigned long long>(buffer.size));
  return text;
}

void* Buffers::Allocate(uint64_t size, Buffer::Kind kind, int device) {
  Entry entry;
  entry.mapped = Pages(std::max<uint64_t>(size, 1)) + kPage;  // The last page stays empty: a gap.
  void* memory = MapPages(entry.mapped);
  if (memory == nullptr) return nullptr;
  entry.buffer = {reinterpret_cast<uint64_t>(memory), size, nullptr, kind, device};
  if (kind == Buffer::Kind::kDevice) {
    entry.shadow = entry.mapped;
    entry.buffer.defined = static_cast<uint8_t*>(MapPages(entry.shadow));
    if (entry.buffer.defined == nullptr) {
      munmap(memory, entry.mapped);
      return nullptr;
    }
    if (size <= kPoisonedSize) std::memset(memory, 0xFF, size);
  }
  const std::lock_guard lock(mutex_);
  allocated_ += kind == Buffer::Kind::kDevice ? size : 0;
  entries_[{entry.buffer.base, size}] = entry;
  return memory;
}

bool Buffers::Free(void* address, Buffer::Kind kind) {
  const std::lock_guard lock(mutex_);
  const auto at = WithBase(reinterpret_cast<uint64_t>(address), kind);
  if (at == entries_.end()) return false;
  allocated_ -= kind == Buffer::Kind::kDevice ? at->second.buffer.size : 0;
  Release(at->second);
  entries_.erase(at);
  return true;
}

bool Buffers::Register(void* address, uint64_t size) {
  const std::lock_guard lock(mutex_);
  const auto base = reinterpret_cast<uint64_t>(address);
  const auto at = entries_.find({base, size});
  if (at != entries_.end() && at->second.registered > 0) {
    ++at->second.registered;
    return true;
  }
  if (OverlapsAllocation(base, size)) return false;
  Entry entry;
  entry.buffer = {base, size, nullptr, Buffer::Kind::kRegistered, 0};
  entry.registered = 1;
  entries_[{base, size}] = entry;
  return true;
}

bool Buffers::Unregister(void* address) {
  const std::lock_guard lock(mutex_);
  const auto at = WithBase(reinterpret_cast<uint64_t>(address), Buffer::Kind::kRegistered);
  if (at == entries_.end()) return false;
  if (--at->second.registered == 0) {
    Release(at->second);
    entries_.erase(at);
  }
  return true;
}

void Buffers::AddInternal(uint64_t base, uint64_t size) {
  const std::lock_guard lock(mutex_);
  Entry entry;
  entry.buffer = {base, size, nullptr, Buffer::Kind::kInternal, 0};
  entries_[{base, size}] = entry;
}

void Buffers::RemoveInternal(uint64_t base) {
  const std::lock_guard lock(mutex_);
  const auto at = WithBase(base, Buffer::Kind::kInternal);
  if (at != entries_.end()) entries_.erase(at);
}

bool Buffers::MarkUndefined(void* address, uint64_t size, bool poison) {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<uint64_t>(address);
  auto* entry = const_cast<Entry*>(Holding(at, size));
  if (entry == nullptr) return false;
  Buffer& buffer = entry->buffer;
  if (buffer.defined == nullptr) {
    entry->shadow = Pages(std::max<uint64_t>(buffer.size, 1));
    buffer.defined = static_cast<uint8_t*>(MapPages(entry->shadow));
    if (buffer.defined == nullptr) return false;
    std::memset(buffer.defined, 1, buffer.size);
  }
  std::memset(buffer.DefinedAt(at), 0, size);
  if (poison) std::memset(address, 0xFF, size);
  return true;
}

std::optional<Buffer> Buffers::Find(uint64_t address, uint64_t size) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = Holding(address, size);
  if (entry == nullptr) return std::nullopt;
  return entry->buffer;
}

std::vector<Buffer> Buffers::Snapshot() const {
  const std::lock_guard lock(mutex_);
  std::vector<Buffer> buffers;
  buffers.reserve(entries_.size());
  for (const auto& [base, entry] : entries_) buffers.push_back(entry.buffer);
  return buffers;
}

void Buffers::Copy(void* to, const void* from, uint64_t size) {
  std::memmove(to, from, size);
  const auto target = Find(reinterpret_cast<uint64_t>(to), size);
  if (!target || target->defined == nullptr) return;
  uint8_t* defined = target->DefinedAt(reinterpret_cast<uint64_t>(to));
  const auto source = Find(reinterpret_cast<uint64_t>(from), size);
  if (source && source->defined != nullptr) {
    std::memmove(defined, source->DefinedAt(reinterpret_cast<uint64_t>(from)), size);
  } else {
    std::memset(defined, 1, size);
  }
}

void Buffers::Fill(void* to, const void* pattern, uint64_t pattern_size, uint64_t count) {
  auto* bytes = static_cast<uint8_t*>(to);
  if (pattern_size == 1) {
    std::memset(bytes, *static_cast<const uint8_t*>(pattern), count);
  } else {
    for (uint64_t i = 0; i < count; ++i) {
      std::memcpy(bytes + i * pattern_size, pattern, pattern_size);
    }
  }
  const auto target = Find(reinterpret_cast<uint64_t>(to), pattern_size * count);
  if (target && target->defined != nullptr) {
    std::memset(target->DefinedAt(reinterpret_cast<uint64_t>(to)), 1, pattern_size * count);
  }
}

uint64_t Buffers::allocated() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

std::map<Buffers::Key, Buffers::Entry>::iterator Buffers::WithBase(uint64_t base,
                                                                   Buffer::Kind kind) {
  auto at = entries_.lower_bound({base, 0});
  for (; at != entries_.end() && at->first.first == base; ++at) {
    if (at->second.buffer.kind == kind) return at;
  }
  return entries_.end();
}

const Buffers::Entry* Buffers::Holding(uint64_t address, uint64_t size) const {
  for (auto at = entries_.upper_bound({address, ~uint64_t{0}}); at != entries_.begin();) {
    const Entry& entry = (--at)->second;
    const uint64_t offset = address - entry.buffer.base;
    if (offset <= entry.buffer.size && size <= entry.buffer.size - offset) return &entry;
  }
  return nullptr;
}

bool Buffers::OverlapsAllocation(uint64_t base, uint64_t size) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& item) {
    const Buffer& buffer = item.second.buffer;
    return buffer.kind != Buffer::Kind::kRegistered && buffer.base < base + size &&
           base < buffer.end();
  });
}

void Buffers::Release(const Entry& entry) {
  if (entry.mapped != 0) munmap(reinterpret_cast<void*>(entry.buffer.base), entry.mapped);
  if (entry.shadow != 0) munmap(entry.buffer.defined, entry.shadow);
}

}  // namespace hipsim
