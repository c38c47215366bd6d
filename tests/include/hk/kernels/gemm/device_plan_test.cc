// The launch plans of products on a GPU: every size is served, grids cover the result, kernels get
// only what they can serve, and the argument structs are what the device expects.
#include "hk/kernels/gemm/device_plan.h"

#include <string>

#include "tests/unit.h"

namespace {

using namespace hk;

gemm_problem make_problem(int64_t batch, int64_t m, int64_t n, int64_t k) {
  gemm_problem p{};
  p.in_type = p.out_type = dtype::bf16;
  p.batch = batch;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a = reinterpret_cast<const void*>(0x10000);
  p.b = reinterpret_cast<const void*>(0x20000);
  p.c = reinterpret_cast<void*>(0x30000);
  return p;
}

const gemm_device mi355x{cdna::chip::gfx950, 256}, mi300x{cdna::chip::gfx942, 304};

gemm_arguments arguments_of(const gemm_plan& plan) {
  return plan.launches[0].get_arguments<gemm_arguments>();
}

bool starts_with(const char* name, const char* prefix) {
  return std::string(name).rfind(prefix, 0) == 0;
}

// That the blocks of the grid and the parts of K cover the product, none of them empty.
void check_covers(const gemm_plan& plan, const gemm_problem& p) {
  CHECK(plan.refusal == nullptr && plan.count >= 1);
  const gemm_arguments x = arguments_of(plan);
  const device_launch& launch = plan.launches[0];
  int rows = 0, cols = 0;
  CHECK_EQ(std::sscanf(std::string(launch.kernel).substr(5).c_str(), "%*[a-z]_%dx%d", &rows, &cols),
           2);
  CHECK(int64_t{x.row_tiles} * rows >= x.m && int64_t{x.row_tiles - 1} * rows < x.m);
  CHECK(int64_t{x.col_tiles} * cols >= x.n && int64_t{x.col_tiles - 1} * cols < x.n);
  const int64_t blocks = int64_t{x.row_tiles} * x.col_tiles * x.batch * x.splits;
  CHECK(int64_t{launch.grid[0]} * launch.grid[1] >= blocks);
  CHECK(int64_t{launch.grid[0]} * (launch.grid[1] - 1) < blocks);
  CHECK(launch.grid[1] <= 65535u && launch.grid[2] == 1u);
  CHECK_EQ(x.grid_width, static_cast<int32_t>(launch.grid[0]));
  CHECK_EQ(int64_t{x.m} * x.n * x.batch, p.batch * p.m * p.n);
  if (x.k > 0) CHECK(int64_t{x.splits} * x.split_terms >= x.k);
  CHECK(x.splits == 1 || int64_t{x.splits - 1} * x.split_terms < x.k);
  CHECK_EQ(x.split_terms % 64, 0);
  CHECK_EQ(plan.count, x.splits > 1 ? 2 : 1);
  CHECK_EQ(plan.workspace_bytes,
           x.splits > 1 ? 4 * static_cast<uint64_t>(p.batch * p.m * p.n * x.splits) : 0u);
}

}  // namespace

HK_TEST(every_size_is_covered) {
  for (const gemm_device& device : {mi355x, mi300x})
    for (const int64_t batch : {1, 3})
      for (const int64_t m : {1, 7, 64, 300, 4096})
        for (const int64_t n : {1, 100, 520, 8192})
          for (const int64_t k : {0, 1, 64, 192, 16384}) {
            gemm_problem p = make_problem(batch, m, n, k);
            for (int layout = 0; layout < 4; ++layout) {
              p.trans_a = layout & 1;
              p.trans_b = layout >> 1;
              check_covers(plan_gemm(p, device), p);
            }
          }
}

HK_TEST(an_empty_result_launches_nothing) {
  for (const gemm_problem& p :
       {make_problem(0, 4, 4, 4), make_problem(1, 0, 4, 4), make_problem(1, 4, 0, 4)}) {
    const gemm_plan plan = plan_gemm(p, mi355x);
    CHECK(plan.refusal == nullptr);
    CHECK_EQ(plan.count, 0);
  }
}

HK_TEST(large_products_take_large_tiles) {
  const gemm_problem p = make_problem(1, 8192, 8192, 8192);
  CHECK_EQ(std::string(plan_gemm(p, mi355x).launches[0].kernel), "gemm_pingpong_256x256_bf16_nn");
  CHECK_EQ(std::string(plan_gemm(p, mi300x).launches[0].kernel), "gemm_staged_256x256_bf16_nn");
}

HK_TEST(a_long_thin_product_is_split) {
  const gemm_problem p = make_problem(1, 64, 64, 65536);
  CHECK(arguments_of(plan_gemm(p, mi355x)).splits > 8);
  CHECK(plan_gemm(p, mi355x).workspace_bytes <= uint64_t{256} << 20);
}

HK_TEST(direct_loads_are_for_rows_of_aligned_16_bytes) {
  gemm_problem p = make_problem(1, 512, 512, 512);
  CHECK(!starts_with(plan_gemm(p, mi355x).launches[0].kernel, "gemm_staged"));
  p.k = 513;
  CHECK(starts_with(plan_gemm(p, mi355x).launches[0].kernel, "gemm_staged"));
  CHECK_EQ(arguments_of(plan_gemm(p, mi355x)).a_words, 0);
  CHECK_EQ(arguments_of(plan_gemm(p, mi355x)).b_words, 1);  // [K, N], rows of 512
  p.k = 514;
  CHECK_EQ(arguments_of(plan_gemm(p, mi355x)).a_words, 1);
  p = make_problem(1, 512, 512, 512);
  for (const int bytes : {2, 4, 8}) {
    p.a = reinterpret_cast<const void*>(uintptr_t{0x10000} + static_cast<uintptr_t>(bytes));
    const gemm_plan plan = plan_gemm(p, mi355x);
    CHECK(starts_with(plan.launches[0].kernel, "gemm_staged"));
    CHECK_EQ(arguments_of(plan).a_words, bytes == 2 ? 0 : 1);
  }
}

HK_TEST(entries_fold_into_rows_where_one_b_serves_all) {
  gemm_problem p = make_problem(6, 10, 64, 64);
  p.broadcast_b = true;
  CHECK_EQ(arguments_of(plan_gemm(p, mi355x)).m, 60);
  p.bias = reinterpret_cast<const void*>(0x40000);
  p.bias_rows = 10;  // a row of its own for each entry
  CHECK_EQ(arguments_of(plan_gemm(p, mi355x)).m, 10);
  CHECK_EQ(arguments_of(plan_gemm(p, mi355x)).bias_entry_stride, int64_t{64 * 2});
  CHECK_EQ(arguments_of(plan_gemm(p, mi355x)).b_entry_stride, int64_t{0});
}

HK_TEST(the_workspace_is_where_the_first_launch_writes_and_the_second_reads) {
  gemm_plan plan = plan_gemm(make_problem(1, 64, 64, 16384), mi355x);
  CHECK_EQ(plan.count, 2);
  plan.set_workspace(reinterpret_cast<void*>(0x50000));
  CHECK_EQ(arguments_of(plan).c, uint64_t{0x50000});
  const auto reduction = plan.launches[1].get_arguments<gemm_reduction_arguments>();
  CHECK_EQ(reduction.partials, uint64_t{0x50000});
  CHECK_EQ(reduction.c, uint64_t{0x30000});
  CHECK_EQ(std::string(plan.launches[1].kernel), "gemm_reduce");
}

HK_TEST(what_cannot_be_served_is_refused_with_a_sentence) {
  gemm_problem p = make_problem(1, 4, 4, 4);
  p.in_type = dtype::f32;
  CHECK(plan_gemm(p, mi355x).refusal != nullptr);
  CHECK(plan_gemm(make_problem(1, 4, int64_t{1} << 31, 4), mi355x).refusal != nullptr);
  CHECK(plan_gemm(make_problem(1, 4096, 4096, int64_t{1} << 30), mi355x).refusal != nullptr);
}

HK_TEST(rows_past_4_gib_are_in_reach) {
  CHECK(plan_gemm(make_problem(1, 1 << 20, 8192, 8192), mi355x).refusal == nullptr);
  CHECK(plan_gemm(make_problem(1, 8, 8, 1 << 22), mi355x).refusal == nullptr);
}

static_assert(sizeof(gemm_arguments) == 120 && sizeof(gemm_reduction_arguments) == 64);
