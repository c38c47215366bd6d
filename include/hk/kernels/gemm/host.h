// The host's entry point for matrix products.
#pragma once

#include <atomic>
#include <utility>

#include "hk/hk.h"
#include "hk/kernels/gemm/host_partition.h"
#include "hk/kernels/gemm/host_skinny.h"
#include "hk/kernels/gemm/host_tiled.h"
#include "hk/kernels/gemm/problem.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

// Rewrites p as the same product with as many rows and as few columns as its layout allows to see.
inline void simplify(gemm_problem& p) {
  // One B for every batch entry: the rows of all entries are those of one matrix.
  if (p.broadcast_b && !p.broadcast_a && !p.trans_a) {
    p.m *= p.batch;
    p.batch = 1;
  }
  // A column C is the row C^T = B^T A^T in the same memory; a vector reads the same either way. (A
  // bias would have to be added along the other axis.)
  if (p.n == 1 && !p.bias) {
    std::swap(p.a, p.b);
    std::swap(p.broadcast_a, p.broadcast_b);
    std::swap(p.m, p.n);
    p.trans_b = !p.trans_a;
    p.trans_a = false;
  }
}

// What the threads share.
struct context {
  const gemm_problem& problem;
  partition blocks;
  block_function run;
  std::atomic<bool> out_of_memory;
};

inline void run_block(void* opaque, int64_t index) {
  auto& c = *static_cast<context*>(opaque);
  if (!c.run(c.problem, c.blocks.at(c.problem, index))) c.out_of_memory = true;
}

}  // namespace gemm

inline status gemm_host(const gemm_problem& problem, const launcher& launch) {
  if (problem.batch == 0 || problem.m == 0 || problem.n == 0) return status::ok;
  gemm_problem p = problem;
  gemm::simplify(p);
  const bool skinny = gemm::is_skinny(p);
  const auto run = visit(p.in_type, [&]<element T>(T*) {
    return skinny ? gemm::choose_skinny<T>(p.trans_a, p.trans_b)
                  : gemm::choose_tiled<T>(p.trans_a, p.trans_b);
  });
  const auto blocks =
      skinny ? gemm::cut_into_columns(p, launch.threads) : gemm::cut_into_blocks(p, launch.threads);
  gemm::context context{p, blocks, run, false};
  launch.run(launch.pool, blocks.count, gemm::run_block, &context);
  return context.out_of_memory ? status::out_of_memory : status::ok;
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
