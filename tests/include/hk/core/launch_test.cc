// The launcher's contract, kept by the pool that kernels are tested with.
#include "hk/core/launch.h"

#include "tests/unit.h"

namespace {

struct sums {
  const int64_t* terms;
  int64_t* partial;
  static void block(void* context, int64_t index) {
    auto& self = *static_cast<sums*>(context);
    self.partial[index] += self.terms[index];
  }
};

}  // namespace

static_assert(std::is_trivial_v<hk::launcher> && std::is_standard_layout_v<hk::launcher>,
              "a launcher is plain data: it crosses between differently compiled units");

HK_TEST(each_block_runs_once_and_is_seen) {
  for (int64_t threads : {1, 2, 3}) {
    unit::thread_pool pool(threads);
    const hk::launcher launch = pool.get();
    CHECK_EQ(launch.threads, threads);
    for (int64_t blocks : {0, 1, 2, 50}) {
      std::vector<int64_t> terms(blocks), partial(blocks);
      for (int64_t i = 0; i < blocks; ++i) terms[i] = i * i;
      sums context{terms.data(), partial.data()};
      launch.run(launch.pool, blocks, sums::block, &context);
      CHECK(partial == terms);
    }
  }
}
