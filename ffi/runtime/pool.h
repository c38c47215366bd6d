// Kernels on XLA's own thread pool.
#pragma once

#include <algorithm>
#include <utility>

#include "ffi/runtime/blocks.h"
#include "hk/core/launch.h"
#include "xla/ffi/api/ffi.h"

namespace jax_hipkittens {

// A launcher over `pool`, which must outlive it. The caller counts as one of the pool's threads, so
// no more than the pool's size work at once; a pool that reports no threads leaves the caller
// alone.
inline hk::launcher make_launcher(xla::ffi::ThreadPool& pool) {
  auto run = [](void* opaque, int64_t blocks, block_run::block_function block, void* context) {
    auto& pool = *static_cast<xla::ffi::ThreadPool*>(opaque);
    run_blocks(pool.num_threads() - 1, blocks, block, context,
               [&](auto task) { pool.Schedule(std::move(task)); });
  };
  return {&pool, std::max<int64_t>(1, pool.num_threads()), run};
}

}  // namespace jax_hipkittens
