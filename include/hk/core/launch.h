// How a kernel gets its blocks run: a thread pool as plain data, so that this library needs to know
// no particular pool and the same launcher serves every architecture.
#pragma once

#include <cstdint>

namespace hk {

// run(pool, blocks, block, context) calls block(context, i) exactly once for each i in [0, blocks)
// and returns when all calls have returned. It promises that
//  - blocks are claimed in increasing order, so a running block may wait for a lower-numbered one;
//  - the calling thread claims blocks too, so one thread is enough, and a busy pool is no deadlock;
//  - what the blocks wrote is visible to the caller afterwards.
// `block` must not throw. A `context` needs to live only until run returns. Calls do not nest: a
// block must not call run.
struct launcher {
  void* pool;       // the pool's own; passed back to run as it is
  int64_t threads;  // how many blocks may run at once, at least 1; a hint for choosing block sizes
  void (*run)(void* pool, int64_t blocks, void (*block)(void* context, int64_t index),
              void* context);
};

}  // namespace hk
