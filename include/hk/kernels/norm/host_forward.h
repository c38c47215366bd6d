// Layer and RMS norm on the host: the forward. problem.h states what is computed.
//
//                        H
//           +--------+--------+--- ... ---+---+
//   x row   | piece  | piece  |           |   |   in the first-level cache after the first pass
//           +--------+--------+--- ... ---+---+
//             |
//             +-> pass 1: h = round(residual + dropout(x)), only where it differs from x
//             +-> pass 2, 3: mean and rstd of h (rms: pass 2 alone)
//             +-> pass 4: y = (h - mean) rstd weight + bias, while the next row is fetched
//
// A piece is a register vector of four SIMD registers. Rows are independent; a block takes as many
// as make up about 128 KiB, of whatever groups.
#pragma once

#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/norm/dropout.h"
#include "hk/kernels/norm/host_rows.h"
#include "hk/kernels/norm/problem.h"
#include "hk/kernels/norm/statistics.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace norm {

// h = round(residual + dropout(x)), for one row.
template <element T>
HK_INLINE void make_hidden(const norm_problem& problem, std::int64_t row, std::int64_t group) {
  const std::int64_t first = row * problem.cols;
  const T* const x = static_cast<const T*>(problem.x) + first;
  const T* const residual =
      problem.residual ? static_cast<const T*>(problem.residual) + first : nullptr;
  T* const h = static_cast<T*>(problem.h) + first;
  const bool drops = problem.dropout_rate > 0.0f;
  dropout mask = dropout_of_row(problem, row, group);
  for_each_piece<piece>(problem.cols, [&](std::int64_t at, int count) HK_LAMBDA_INLINE {
    vec v, r;
    prefetch<piece>(x + problem.cols + at);
    load(v, x + at, count);
    if (drops) mask.apply(v);
    if (residual) {
      prefetch<piece>(residual + problem.cols + at);
      load(r, residual + at, count);
      add(v, v, r);
    }
    store(h + at, v, count);
  });
}

// y = (h - mean) rstd weight + bias, for one row; weight and bias may be null.
template <norm_kind Kind, element T>
HK_INLINE void normalise(T* y, const T* h, statistics s, const float* weight, const float* bias,
                         std::int64_t cols) {
  for_each_piece<piece>(cols, [&](std::int64_t at, int count) HK_LAMBDA_INLINE {
    vec v, w, b;
    prefetch<piece>(h + cols + at);
    load(v, h + at, count);
    if (Kind == norm_kind::layer) shift(v, v, -s.mean);
    scale(v, v, s.rstd);
    if (weight) load(w, weight + at, count);
    if (bias) load(b, bias + at, count);
    if (weight && bias)
      mul_add(v, v, w, b);
    else if (weight)
      mul(v, v, w);
    else if (bias)
      add(v, v, b);
    store(y + at, v, count);
  });
}

template <norm_kind Kind, element T>
HK_INLINE void forward_row(const norm_problem& problem, std::int64_t row, std::int64_t group) {
  if (problem.h) make_hidden<T>(problem, row, group);
  const std::int64_t first = row * problem.cols;
  const T* const h = static_cast<const T*>(problem.h ? problem.h : problem.x) + first;
  statistics s;
  if constexpr (Kind == norm_kind::layer) {
    s = layer_statistics(h, problem.cols, problem.epsilon);
    problem.mean[row] = s.mean;
  } else {
    s = rms_statistics(h, problem.cols, problem.epsilon);
  }
  problem.rstd[row] = s.rstd;
  normalise<Kind>(static_cast<T*>(problem.y) + first, h, s, problem.weight.of(group),
                  problem.bias.of(group), problem.cols);
}

template <norm_kind Kind, element T>
void forward(const norm_problem& problem, const launcher& launch) {
  constexpr std::int64_t block_elements = 128 * 1024 / sizeof(T);
  const std::int64_t rows = pieces_of(block_elements, problem.cols);
  for_each_block(launch, pieces_of(problem.rows, rows), [&](std::int64_t block) {
    const std::int64_t end = piece_end(problem.rows, block * rows, rows);
    for_each_row(problem, block * rows, end,
                 [&](std::int64_t row, std::int64_t group)
                     HK_LAMBDA_INLINE { forward_row<Kind, T>(problem, row, group); });
  });
}

}  // namespace norm

inline status norm_forward_host(const norm_problem& problem, const launcher& launch) {
  if (problem.rows == 0 || problem.cols == 0) return status::ok;
  visit(problem.type, [&]<element T>(T*) {
    if (problem.kind == norm_kind::layer)
      norm::forward<norm_kind::layer, T>(problem, launch);
    else
      norm::forward<norm_kind::rms, T>(problem, launch);
  });
  return status::ok;
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
