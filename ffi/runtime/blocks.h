// The run that hk::launcher promises, over anything that can run a task some time later.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

namespace jax_hipkittens {

// The blocks of one run. Workers share its ownership: a helper that starts after the caller has
// left finds nothing to claim, and the memory it looks at is still there.
class block_run {
 public:
  using block_function = void (*)(void* context, int64_t index);

  block_run(int64_t blocks, block_function block, void* context)
      : blocks_(blocks), block_(block), context_(context) {}

  // Claims and runs blocks, lowest first, until none is left to claim.
  void work() {
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < blocks_;) {
      block_(context_, i);
      if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == blocks_) finished_.notify_all();
    }
  }

  // Returns when every block has run; to be called after work(), when all are claimed.
  void wait() const {
    int64_t finished;
    while ((finished = finished_.load(std::memory_order_acquire)) < blocks_) {
      finished_.wait(finished, std::memory_order_acquire);
    }
  }

 private:
  const int64_t blocks_;
  const block_function block_;
  void* const context_;
  // Apart, so that claiming and finishing do not take each other's cache line.
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int64_t> finished_{0};
};

// Runs block(context, i) for each i in [0, blocks) on the calling thread and on at most `helpers`
// tasks handed to schedule(task). It is right whether a task runs at once, later, or after this
// returned, and when schedule throws: the caller then does the rest itself.
template <class Schedule>
void run_blocks(int64_t helpers, int64_t blocks, block_run::block_function block, void* context,
                Schedule&& schedule) noexcept {
  helpers = std::min(helpers, blocks - 1);
  if (helpers <= 0) {
    for (int64_t i = 0; i < blocks; ++i) block(context, i);
    return;
  }
  std::shared_ptr<block_run> run;
  try {
    run = std::make_shared<block_run>(blocks, block, context);
    for (int64_t i = 0; i < helpers; ++i) schedule([run] { run->work(); });
  } catch (...) {
    // Fewer helpers, or none at all, are only slower.
    if (!run) return run_blocks(0, blocks, block, context, schedule);
  }
  run->work();
  run->wait();
}

}  // namespace jax_hipkittens
