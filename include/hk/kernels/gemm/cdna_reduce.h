// The second half of a product whose K was cut into parts: adds the partial sums in order of the
// parts, so that results are reproducible, and finishes them as the epilogue does.
//
// A thread takes runs of 8 columns of a row: run i is columns 8 (i % runs of a row), row i / that.
#pragma once

#include "hk/kernels/gemm/cdna_epilogue.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

inline constexpr int reduction_threads = 256;

HK_INLINE f32x8 load_partial(uint64_t address, bool vectors, int count) {
  if (vectors && count >= run) return load_global<f32x8>(address);
  return load_run_of<float>(address, 0, count);
}

HK_INLINE void reduce(const gemm_reduction_arguments& p) {
  const uint32_t runs_of_row = (static_cast<uint32_t>(p.n) + run - 1) / run;
  const int64_t rows = int64_t{p.batch} * p.m;
  const int64_t index = int64_t{group_number(p.grid_width)} * reduction_threads + thread_index();
  if (index >= rows * runs_of_row) return;
  const int64_t row = index / runs_of_row;
  const int32_t col = static_cast<int32_t>(index - row * runs_of_row) * run;
  const int count = p.n - col;
  const int64_t element = row * p.n + col, part = 4 * rows * p.n;

  f32x8 sum = 0.0f;
  uint64_t from = p.partials + static_cast<uint64_t>(4 * element);
#pragma clang loop unroll_count(2)
  for (int32_t s = 0; s < p.splits; ++s, from += static_cast<uint64_t>(part))
    sum += load_partial(from, p.partial_vectors, count);
  const f32x8 bias = load_bias(p.bias, static_cast<dtype>(p.bias_type), p.bias_entry_stride,
                               static_cast<int32_t>(row / p.m), col, count);
  finish_run(p, element, sum, bias, count);
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
