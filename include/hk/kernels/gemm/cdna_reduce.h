// The second half of a product whose K was cut into parts: adds the partial sums in order of the
// parts, so that results are reproducible, and finishes them as the epilogue does.
//
// A thread takes a run of 8 elements, along rows or along columns as in the epilogue: adjacent
// threads take adjacent runs of a row, or adjacent columns.
#pragma once

#include "hk/kernels/gemm/cdna_epilogue.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

inline constexpr int reduction_threads = 256;

HK_INLINE f32x8 load_partial(uint64_t address, const run_place& at) {
  if (at.along_row) return load_global<f32x8>(address);
  f32x8 values = 0.0f;
#pragma unroll
  for (int e = 0; e < run; ++e)
    if (e < at.rows)
      values[e] = load_global<float>(address + static_cast<uint64_t>(int64_t{4} * e * at.cols));
  return values;
}

// Runs cut every entry into pieces of 1 x 8 or 8 x 1; `across` of them make a line, `down` lines an
// entry.
HK_INLINE void reduce(const gemm_reduction_arguments& p) {
  const bool along_row = p.vectors != 0;
  const uint32_t m = static_cast<uint32_t>(p.m), n = static_cast<uint32_t>(p.n);
  const uint32_t across = along_row ? n / run : n;
  const uint32_t down = along_row ? m : (m + run - 1) / run;
  const uint64_t index = uint64_t{group_number(p.grid_width)} * reduction_threads + thread_index();
  const uint64_t line = index / across;
  if (line >= uint64_t{down} * static_cast<uint32_t>(p.batch)) return;
  const int32_t entry = static_cast<int32_t>(line / down);
  const int32_t row = static_cast<int32_t>(line % down) * (along_row ? 1 : run);
  const int32_t col = static_cast<int32_t>(index - line * across) * (along_row ? run : 1);
  const run_place at{(int64_t{entry} * p.m + row) * p.n + col, p.n, p.m - row, along_row};

  const int64_t part = int64_t{4} * p.batch * p.m * p.n;
  uint64_t from = p.partials + static_cast<uint64_t>(4 * at.element);
  f32x8 sum = 0.0f;
#pragma clang loop unroll_count(2)
  for (int32_t s = 0; s < p.splits; ++s, from += static_cast<uint64_t>(part))
    sum += load_partial(from, at);
  finish_run(p, at, sum, load_bias(p, entry, col));
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
