// How a GPU computes a product: which kernels, with which grids and arguments. Plain C++; knows no
// driver, reads no memory but the problem itself.
//
//   gemm_plan plan = plan_gemm(problem, {cdna::chip::gfx950, 256, bytes});
//   if (plan.refusal) ...           // a sentence: nothing can be launched
//   plan.set_workspace(workspace);  // of plan.workspace_bytes <= bytes, aligned to 16
//   for (int i = 0; i < plan.count; ++i) launch(plan.launches[i]);     // in order, on one stream
//
// - The kernels are in the code object "gemm.<chip>.co".
// - problem.a, b, c, z, bias are device addresses; their alignment picks the kernel, any is served.
// - count is 0 where the result is empty. Every element of c and z is written otherwise.
// - The plan depends on nothing but the problem, the addresses' alignment and the device with the
//   workspace that there is, so results are reproducible.
// - The workspace need not be cleared, and is free again after the last launch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

#include "hk/arch/cdna/gfx942.h"
#include "hk/arch/cdna/gfx950.h"
#include "hk/core/device_launch.h"
#include "hk/kernels/gemm/device_arguments.h"
#include "hk/kernels/gemm/problem.h"

namespace hk {

struct gemm_device {
  cdna::chip chip;
  int32_t compute_units;
  int64_t most_workspace = int64_t{256} << 20;  // bytes that a plan may ask for
};

struct gemm_plan {
  const char* refusal = nullptr;
  int count = 0;
  device_launch launches[2] = {};
  uint64_t workspace_bytes = 0;

  // The first launch writes partial sums to the workspace, which the second adds.
  void set_workspace(void* workspace) {
    if (workspace_bytes == 0) return;
    auto product = launches[0].get_arguments<gemm_arguments>();
    auto reduction = launches[1].get_arguments<gemm_reduction_arguments>();
    product.c = reduction.partials = reinterpret_cast<uint64_t>(workspace);
    launches[0].set_arguments(product);
    launches[1].set_arguments(reduction);
  }
};

namespace device_gemm {

// ---- What kernels there are

enum class schedule : int32_t { ping_pong, direct, staged };

// A kernel, without operand type and layout.
struct variant {
  schedule kind;
  int32_t rows;  // of its tile of C
  int32_t cols;
  int32_t threads;
  int32_t step;           // splits of K are multiples of this many terms
  double clocks_of_step;  // 64 terms of a tile on an otherwise idle compute unit
};

// The fractions of the matrix units' rate that a schedule reaches are estimates: from llvm-mca for
// one wave, less what barriers cost. They only have to rank the variants.
template <cdna::chip on>
constexpr double step_clocks(int rows, int cols, double fraction) {
  return 2.0 * rows * cols * 64 / (cdna::traits<on>::mfma_rate * fraction);
}

inline constexpr variant gfx950_variants[] = {
    {schedule::ping_pong, 256, 256, 512, 128, step_clocks<cdna::chip::gfx950>(256, 256, 0.75)},
    {schedule::direct, 128, 128, 256, 64, step_clocks<cdna::chip::gfx950>(128, 128, 0.55)},
    {schedule::direct, 64, 64, 256, 64, step_clocks<cdna::chip::gfx950>(64, 64, 0.30)},
    {schedule::staged, 128, 128, 256, 64, step_clocks<cdna::chip::gfx950>(128, 128, 0.35)},
    {schedule::staged, 64, 64, 256, 64, step_clocks<cdna::chip::gfx950>(64, 64, 0.20)},
};
inline constexpr variant gfx942_variants[] = {
    {schedule::staged, 256, 256, 512, 64, step_clocks<cdna::chip::gfx942>(256, 256, 0.65)},
    {schedule::staged, 128, 128, 256, 64, step_clocks<cdna::chip::gfx942>(128, 128, 0.50)},
    {schedule::staged, 64, 64, 256, 64, step_clocks<cdna::chip::gfx942>(64, 64, 0.30)},
};

// ---- What a kernel can serve

struct operand {
  uint64_t address;
  int64_t rows;  // of C: m for a, n for b
  int64_t terms;
  bool terms_adjacent;
  int64_t stride() const { return 2 * (terms_adjacent ? terms : rows); }  // bytes
};

// Offsets inside of a tile are 32 bits, and below 2^31.
inline bool in_reach(const operand& x, int32_t tile_rows) {
  const int64_t stored_rows = x.terms_adjacent ? std::min<int64_t>(x.rows, tile_rows) : 64;
  return stored_rows * x.stride() + 1024 < int64_t{1} << 31;
}

// Loads to LDS bring 16 aligned bytes a lane.
inline bool directly_loadable(const operand& x) {
  return x.address % 16 == 0 && x.stride() % 16 == 0;
}

// Rows made of whole, aligned words of 4 bytes.
inline bool in_words(const operand& x) { return x.address % 4 == 0 && x.stride() % 4 == 0; }

inline bool serves(const variant& v, const operand& a, const operand& b) {
  if (!in_reach(a, v.rows) || !in_reach(b, v.cols)) return false;
  if (v.kind == schedule::staged) return true;
  return a.terms > 0 && directly_loadable(a) && directly_loadable(b);
}

// ---- What it costs

constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

// Sizes after entries of a batch have been made rows of one matrix where that is the same.
struct sizes {
  int64_t batch;
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t tiles(const variant& v) const {
    return ceil_div(m, v.rows) * ceil_div(n, v.cols) * batch;
  }
};

inline constexpr double start_clocks = 3000;   // launch of a block until its first product
inline constexpr double reduce_clocks = 8000;  // one more launch
inline constexpr double bytes_of_unit = 12;    // a clock, of memory, for each compute unit

// Clocks until all is done: rounds of blocks over the compute units, each as long as its steps and
// the store of its tile, and for splits > 1 the reduction's traffic.
inline double cost(const variant& v, const sizes& s, int64_t splits, int32_t units) {
  const int64_t blocks = s.tiles(v) * splits;
  const double steps = static_cast<double>(ceil_div(ceil_div(s.k, splits), v.step) * v.step / 64);
  const double store = 4.0 * v.rows * v.cols / (4 * bytes_of_unit);
  const double round = start_clocks + steps * v.clocks_of_step + store;
  double clocks = static_cast<double>(ceil_div(blocks, units)) * round;
  if (splits > 1) {
    const double partials = 4.0 * static_cast<double>(s.batch * s.m * s.n * (splits + 1));
    clocks += reduce_clocks + partials / (bytes_of_unit * units);
  }
  return clocks;
}

struct choice {
  const variant* kernel = nullptr;
  int64_t splits = 1;
  double clocks = 0;
};

// Parts of K that leave at least 256 terms to each.
inline int64_t most_splits(const variant& v, const sizes& s, int64_t most_workspace) {
  const int64_t result = 4 * s.batch * s.m * s.n;
  return std::min<int64_t>({64, s.k / std::max<int64_t>(256, v.step), most_workspace / result});
}

// The chip's kernels.
struct variants {
  const variant* first;
  const variant* last;
  const variant* begin() const { return first; }
  const variant* end() const { return last; }
};
inline variants variants_of(cdna::chip chip) {
  if (chip == cdna::chip::gfx950) return {std::begin(gfx950_variants), std::end(gfx950_variants)};
  return {std::begin(gfx942_variants), std::end(gfx942_variants)};
}

inline choice choose(const gemm_device& device, const sizes& s, const operand& a,
                     const operand& b) {
  choice best;
  for (const variant& v : variants_of(device.chip)) {
    if (!serves(v, a, b)) continue;
    for (int64_t splits = 1;
         splits <= std::max<int64_t>(1, most_splits(v, s, device.most_workspace)); ++splits) {
      const double clocks = cost(v, s, splits, device.compute_units);
      if (!best.kernel || clocks < best.clocks) best = {&v, splits, clocks};
    }
  }
  return best;
}

// ---- The launches

inline uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// Whether rows of n elements are made of runs of 8, each written by aligned stores of 16 bytes.
inline bool in_vectors(uint64_t address, int64_t n) { return address % 16 == 0 && n % 8 == 0; }

inline void set_grid(device_launch& launch, int64_t blocks, int32_t& grid_width) {
  const int64_t width = std::min<int64_t>(blocks, int64_t{1} << 22);
  grid_width = static_cast<int32_t>(width);
  launch.grid[0] = static_cast<uint32_t>(width);
  launch.grid[1] = static_cast<uint32_t>(ceil_div(blocks, width));
  launch.grid[2] = 1;
}

inline void set_name(device_launch& launch, const variant& v, const gemm_problem& p) {
  static constexpr const char* kinds[] = {"pingpong", "direct", "staged"};
  std::snprintf(launch.kernel, sizeof(launch.kernel), "gemm_%s_%dx%d_%s_%c%c",
                kinds[static_cast<int>(v.kind)], static_cast<int>(v.rows), static_cast<int>(v.cols),
                p.in_type == dtype::bf16 ? "bf16" : "f16", p.trans_a ? 't' : 'n',
                p.trans_b ? 't' : 'n');
}

// Runs of 8 tiles to a chiplet, in bands of 16 tiles: the 32 tiles of a chiplet then form a block
// of 8 x 4, and the 256 in flight one of 16 x 16. Of the parameters that
// tests/include/hk/arch/cdna/cache_simulation.cc tries, these hit L2 most at 4096^3 to 16384^3, and
// read least from memory of those that do.
inline void set_order(gemm_arguments& x, int64_t blocks) {
  x.group = 16;
  x.chunk_log2 = 0;
  while (x.chunk_log2 < 3 && (int64_t{16} << x.chunk_log2) <= blocks) ++x.chunk_log2;
}

inline gemm_arguments make_arguments(const gemm_problem& p, const sizes& s, const choice& chosen,
                                     const operand& a, const operand& b) {
  const variant& v = *chosen.kernel;
  gemm_arguments x{};
  x.a = a.address;
  x.b = b.address;
  x.c = address_of(p.c);
  x.z = address_of(p.z);
  x.bias = address_of(p.bias);
  x.a_entry_stride = p.broadcast_a ? 0 : 2 * s.m * s.k;
  x.b_entry_stride = p.broadcast_b ? 0 : 2 * s.n * s.k;
  x.bias_entry_stride = p.bias_rows == 0 ? 0 : s.n * (p.bias_type == dtype::f32 ? 4 : 2);
  x.m = static_cast<int32_t>(s.m);
  x.n = static_cast<int32_t>(s.n);
  x.k = static_cast<int32_t>(s.k);
  x.batch = static_cast<int32_t>(s.batch);
  x.row_tiles = static_cast<int32_t>(ceil_div(s.m, v.rows));
  x.col_tiles = static_cast<int32_t>(ceil_div(s.n, v.cols));
  x.split_terms = static_cast<int32_t>(ceil_div(ceil_div(s.k, chosen.splits), v.step) * v.step);
  x.split_terms = std::max(x.split_terms, v.step);
  x.splits = static_cast<int32_t>(std::max<int64_t>(1, ceil_div(s.k, x.split_terms)));
  x.act = static_cast<int8_t>(p.act);
  x.c_type = static_cast<int8_t>(p.out_type);
  x.bias_type = static_cast<int8_t>(p.bias_type);
  x.vectors = in_vectors(x.c, s.n) && in_vectors(x.z, s.n);
  x.a_words = in_words(a);
  x.b_words = in_words(b);
  return x;
}

inline gemm_reduction_arguments make_reduction(const gemm_arguments& x) {
  gemm_reduction_arguments r{};
  r.c = x.c;
  r.z = x.z;
  r.bias = x.bias;
  r.bias_entry_stride = x.bias_entry_stride;
  r.m = x.m;
  r.n = x.n;
  r.batch = x.batch;
  r.splits = x.splits;
  r.act = x.act;
  r.c_type = x.c_type;
  r.bias_type = x.bias_type;
  r.vectors = x.vectors;
  return r;
}

// Partial sums are plain f32, and the epilogue is left to the reduction.
inline void make_partial(gemm_arguments& x) {
  x.c_type = static_cast<int8_t>(dtype::f32);
  x.vectors = in_vectors(0, x.n);
  x.z = x.bias = 0;
  x.act = static_cast<int8_t>(activation::none);
}

inline void add_reduction(gemm_plan& plan, gemm_arguments& x) {
  gemm_reduction_arguments r = make_reduction(x);
  make_partial(x);
  plan.workspace_bytes = 4 * static_cast<uint64_t>(int64_t{x.m} * x.n * x.batch * x.splits);
  device_launch& launch = plan.launches[1];
  std::snprintf(launch.kernel, sizeof(launch.kernel), "gemm_reduce");
  launch.threads = 256;
  const int64_t runs =
      int64_t{x.batch} * (r.vectors ? int64_t{x.m} * (x.n / 8) : ceil_div(x.m, 8) * x.n);
  set_grid(launch, ceil_div(runs, launch.threads), r.grid_width);
  launch.set_arguments(r);
  plan.count = 2;
}

// One B for every entry, and no bias of each: the rows of all entries are those of one matrix.
inline sizes simplify(const gemm_problem& p) {
  const bool folds = p.broadcast_b && !p.broadcast_a && !p.trans_a &&
                     (!p.bias || p.bias_rows == 0) && p.m <= (INT32_MAX - 256) / p.batch;
  if (folds) return {1, p.m * p.batch, p.n, p.k};
  return {p.batch, p.m, p.n, p.k};
}

}  // namespace device_gemm

// `forced` names a kernel and a number of splits, for tests and for tuning.
inline gemm_plan plan_gemm(const gemm_problem& p, const gemm_device& device,
                           device_gemm::choice forced = {}) {
  using namespace device_gemm;
  gemm_plan plan;
  if (p.batch == 0 || p.m == 0 || p.n == 0) return plan;
  if (p.in_type == dtype::f32) {
    plan.refusal = "gemm on a GPU: expected a and b of bfloat16 or float16, received float32";
    return plan;
  }
  if (std::max({p.batch, p.m, p.n, p.k}) > INT32_MAX - 256) {
    plan.refusal = "gemm on a GPU: expected batch, M, N and K below 2^31 - 256";
    return plan;
  }
  const sizes s = simplify(p);
  const operand a{address_of(p.a), s.m, s.k, !p.trans_a}, b{address_of(p.b), s.n, s.k, p.trans_b};
  const choice chosen = forced.kernel ? forced : choose(device, s, a, b);
  if (!chosen.kernel) {
    plan.refusal =
        "gemm on a GPU: expected rows of a and b so short that 64 of them span less than 2 GiB";
    return plan;
  }
  gemm_arguments x = make_arguments(p, s, chosen, a, b);
  const int64_t blocks = int64_t{x.row_tiles} * x.col_tiles * x.batch * x.splits;
  if (blocks > INT32_MAX) {
    plan.refusal = "gemm on a GPU: expected at most 2^31 - 1 tiles of the result";
    return plan;
  }
  plan.count = 1;
  if (x.splits > 1) add_reduction(plan, x);
  device_launch& launch = plan.launches[0];
  set_name(launch, *chosen.kernel, p);
  launch.threads = static_cast<uint32_t>(chosen.kernel->threads);
  set_order(x, blocks);
  set_grid(launch, blocks, x.grid_width);
  launch.set_arguments(x);
  return plan;
}

}  // namespace hk
