// run_blocks over schedulers that run a task at once, on a thread, too late, or never.
#include "ffi/runtime/blocks.h"

#include <functional>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>

#include "tests/unit.h"

namespace {

struct record {
  std::mutex mutex;
  std::vector<int64_t> order;
  std::set<std::thread::id> threads;

  static void block(void* context, int64_t index) {
    auto& self = *static_cast<record*>(context);
    std::lock_guard lock(self.mutex);
    self.order.push_back(index);
    self.threads.insert(std::this_thread::get_id());
  }

  bool ran_each_once(int64_t blocks) {
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < blocks; ++i) {
      if (static_cast<int64_t>(sorted.size()) != blocks || sorted[i] != i) return false;
    }
    return true;
  }
};

using task = std::function<void()>;

}  // namespace

HK_TEST(no_blocks_do_nothing) {
  record runs;
  jax_hipkittens::run_blocks(3, 0, record::block, &runs, [](task) { CHECK(false); });
  CHECK(runs.order.empty());
}

HK_TEST(one_thread_runs_in_order) {
  record runs;
  jax_hipkittens::run_blocks(0, 100, record::block, &runs, [](task) { CHECK(false); });
  CHECK(runs.ran_each_once(100));
  CHECK(std::is_sorted(runs.order.begin(), runs.order.end()));
}

HK_TEST(threads_run_each_block_once) {
  for (int round = 0; round < 200; ++round) {
    record runs;
    unit::thread_pool pool(4);
    const hk::launcher launch = pool.get();
    launch.run(launch.pool, 37, record::block, &runs);
    CHECK(runs.ran_each_once(37));
    CHECK(runs.threads.size() <= 4u);
  }
}

HK_TEST(a_task_run_inside_schedule_does_all) {
  record runs;
  jax_hipkittens::run_blocks(2, 10, record::block, &runs, [](task run) { run(); });
  CHECK(runs.ran_each_once(10));
}

HK_TEST(a_busy_pool_leaves_the_work_to_the_caller) {
  std::vector<task> late;
  {
    record runs;
    jax_hipkittens::run_blocks(3, 10, record::block, &runs,
                               [&](task run) { late.push_back(std::move(run)); });
    CHECK(runs.ran_each_once(10));
    CHECK_EQ(runs.threads.size(), 1u);
  }
  // The record is gone; a helper that starts now must not touch it.
  CHECK_EQ(late.size(), 3u);
  for (task& run : late) run();
}

HK_TEST(no_more_helpers_than_blocks) {
  int scheduled = 0;
  record runs;
  jax_hipkittens::run_blocks(7, 3, record::block, &runs, [&](task) { ++scheduled; });
  CHECK_EQ(scheduled, 2);
  CHECK(runs.ran_each_once(3));
}

HK_TEST(a_scheduler_that_throws_only_slows_down) {
  record out_of_memory;
  jax_hipkittens::run_blocks(3, 10, record::block, &out_of_memory,
                             [](task) { throw std::bad_alloc(); });
  CHECK(out_of_memory.ran_each_once(10));
  record no_threads;
  jax_hipkittens::run_blocks(3, 10, record::block, &no_threads,
                             [](task) { throw std::runtime_error("no threads left"); });
  CHECK(no_threads.ran_each_once(10));
}

HK_TEST(a_block_may_wait_for_a_lower_one) {
  struct chain {
    std::atomic<int64_t> done{0};
    static void block(void* context, int64_t index) {
      auto& self = *static_cast<chain*>(context);
      for (int64_t n; (n = self.done.load()) != index;) self.done.wait(n);
      self.done.store(index + 1);
      self.done.notify_all();
    }
  } chained;
  unit::thread_pool pool(4);
  const hk::launcher launch = pool.get();
  launch.run(launch.pool, 500, chain::block, &chained);
  CHECK_EQ(chained.done.load(), 500);
}
