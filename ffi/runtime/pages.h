// The pages under a result that nobody has written yet.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace jax_hipkittens {

// Asks for 2 MiB pages under `bytes` bytes at `data`. XLA takes the memory of a large result afresh
// from the system at every call, and an op that reads and writes each element once spends longer on
// the faults of 4 KiB pages than on its work. Only a hint: whole 2 MiB pages inside the result are
// named, and a system that has none to give goes on as before.
inline void prefer_large_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t page = std::uintptr_t{2} << 20;
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t first = (start + page - 1) / page * page;
  const std::uintptr_t end = (start + bytes) / page * page;
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace jax_hipkittens
