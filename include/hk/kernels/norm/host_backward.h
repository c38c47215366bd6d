// Layer and RMS norm on the host: the backward. problem.h states what is computed; with
// n = (h - mean) rstd and u = weight dy,
//
//   g = rstd (u - mean(u) - n mean(u n)) + dh       (rms: without mean(u))
//   dweight = sum over rows of dy n,   dbias = sum over rows of dy
//
//                        H
//           +--------+--------+--- ... ---+---+
//   part 0  | h, dy rows: pass 1 sums u and u n over the row, and adds dy n and dy to the part's
//           |             two partial rows; pass 2 writes dresidual = g and dx = dropout'(g),
//           |             while the next rows are fetched
//           +--------+--------+--- ... ---+---+
//   part 1  | ...
//           +--------+--------+--- ... ---+---+
//   then, by columns: dweight and dbias = the partial rows summed from part 0 on
//
// The rows are cut into parts by R and H alone, so the sums do not depend on the threads.
#pragma once

#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/norm/dropout.h"
#include "hk/kernels/norm/problem.h"
#include "hk/kernels/norm/statistics.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace norm {

// Partial sums of dweight and dbias: [parts, H] each, or null where not wanted.
struct partials {
  std::int64_t parts;
  std::int64_t rows;  // of the problem, to a part
  float* dweight;
  float* dbias;
};

// The backward of one row.
template <element T>
struct backward_row {
  const T* h;
  const T* dy;
  const T* dh;  // optional
  T* dx;
  T* dresidual;        // optional
  std::int64_t first;  // flat element in [R, H]
  statistics s;

  HK_INLINE backward_row(const norm_problem& problem, std::int64_t row)
      : first(row * problem.cols) {
    h = static_cast<const T*>(problem.h) + first;
    dy = static_cast<const T*>(problem.dy) + first;
    dh = problem.dh ? static_cast<const T*>(problem.dh) + first : nullptr;
    dx = static_cast<T*>(problem.dx) + first;
    dresidual = problem.dresidual ? static_cast<T*>(problem.dresidual) + first : nullptr;
    s = {problem.mean ? problem.mean[row] : 0.0f, problem.rstd[row]};
  }
};

// n = (h - mean) rstd and u = weight dy, for the piece at `at`.
template <norm_kind Kind, element T>
HK_INLINE void load_piece(vec& n, vec& dy, vec& u, const backward_row<T>& row, const float* weight,
                          std::int64_t at, int count) {
  load(n, row.h + at, count);
  if (Kind == norm_kind::layer) shift(n, n, -row.s.mean);
  scale(n, n, row.s.rstd);
  load(dy, row.dy + at, count);
  copy(u, dy);
  if (weight) {
    vec w;
    load(w, weight + at, count);
    mul(u, dy, w);
  }
}

// partial[j] += term[j]
HK_INLINE void accumulate(float* partial, const vec& term, int count) {
  vec sum;
  load(sum, partial, count);
  add(sum, sum, term);
  store(partial, sum, count);
}

// The means of u and of u n over the row; adds dy n and dy to the partial rows, if wanted.
template <norm_kind Kind, element T>
HK_INLINE void reduce_row(float (&means)[2], const backward_row<T>& row, const float* weight,
                          float* dweight, float* dbias, std::int64_t cols) {
  sum_row(means, cols, [&](std::int64_t at, int count, auto& sums) HK_LAMBDA_INLINE {
    vec n, dy, u;
    load_piece<Kind>(n, dy, u, row, weight, at, count);
    if (Kind == norm_kind::layer) add(sums.of[0], sums.of[0], u);
    mul_add(sums.of[1], u, n, sums.of[1]);
    if (dbias) accumulate(dbias + at, dy, count);
    mul(n, n, dy);
    if (dweight) accumulate(dweight + at, n, count);
  });
  for (float& mean : means) mean /= static_cast<float>(cols);
}

// dresidual = g and dx = dropout'(g)
template <norm_kind Kind, element T>
HK_INLINE void write_row(const norm_problem& problem, const backward_row<T>& row,
                         const float (&means)[2]) {
  const bool drops = problem.dropout_rate > 0.0f;
  dropout mask(problem, row.first);
  for_each_piece<piece>(problem.cols, [&](std::int64_t at, int count) HK_LAMBDA_INLINE {
    vec n, dy, g;
    prefetch<piece>(row.h + problem.cols + at);
    prefetch<piece>(row.dy + problem.cols + at);
    load_piece<Kind>(n, dy, g, row, problem.weight, at, count);
    if (Kind == norm_kind::layer) shift(g, g, -means[0]);
    scale(n, n, means[1]);
    sub(g, g, n);
    scale(g, g, row.s.rstd);
    if (row.dh) {
      vec dh;
      prefetch<piece>(row.dh + problem.cols + at);
      load(dh, row.dh + at, count);
      add(g, g, dh);
    }
    if (row.dresidual) store(row.dresidual + at, g, count);
    if (drops) mask.apply(g);
    store(row.dx + at, g, count);
  });
}

template <norm_kind Kind, element T>
HK_INLINE void backward_part(const norm_problem& problem, const partials& sums, std::int64_t part) {
  const std::int64_t cols = problem.cols;
  float* const dweight = sums.dweight ? sums.dweight + part * cols : nullptr;
  float* const dbias = sums.dbias ? sums.dbias + part * cols : nullptr;
  for (float* partial : {dweight, dbias})
    if (partial) std::memset(partial, 0, cols * sizeof(float));
  const std::int64_t end = piece_end(problem.rows, part * sums.rows, sums.rows);
  for (std::int64_t r = part * sums.rows; r < end; ++r) {
    const backward_row<T> row(problem, r);
    float means[2];
    reduce_row<Kind>(means, row, problem.weight, dweight, dbias, cols);
    write_row<Kind>(problem, row, means);
  }
}

// dst[j] = sum over parts of partial[part][j], for a piece of `count` columns.
HK_INLINE void sum_parts(float* dst, const float* partial, std::int64_t parts, std::int64_t cols,
                         int count) {
  vec sum, term;
  zero(sum);
  for (std::int64_t part = 0; part < parts; ++part) {
    load(term, partial + part * cols, count);
    add(sum, sum, term);
  }
  store(dst, sum, count);
}

// The second stage: each block sums the partial rows over a range of columns.
inline void sum_partials(const norm_problem& problem, const partials& sums,
                         const launcher& launch) {
  constexpr std::int64_t width = 16 * piece;
  for_each_block(launch, pieces_of(problem.cols, width), [&](std::int64_t block) {
    const std::int64_t first = block * width;
    const std::int64_t end = piece_end(problem.cols, first, width);
    for_each_piece<piece>(end - first, [&](std::int64_t at, int count) HK_LAMBDA_INLINE {
      const std::int64_t col = first + at;
      if (sums.dweight)
        sum_parts(problem.dweight + col, sums.dweight + col, sums.parts, problem.cols, count);
      if (sums.dbias)
        sum_parts(problem.dbias + col, sums.dbias + col, sums.parts, problem.cols, count);
    });
  });
}

// Cuts the rows into parts: at most 64, of at least 16 rows.
inline partials plan_parts(const norm_problem& problem) {
  const std::int64_t rows = pieces_of(problem.rows, 64);
  const std::int64_t part_rows = rows < 16 ? 16 : rows;
  return {pieces_of(problem.rows, part_rows), part_rows, nullptr, nullptr};
}

// Gives the partial rows their memory; they are this thread's until the kernel returns.
inline status allocate(partials& sums, const norm_problem& problem) {
  const int kinds = (problem.dweight != nullptr) + (problem.dbias != nullptr);
  if (kinds == 0) return status::ok;
  const std::int64_t size = sums.parts * problem.cols;
  auto* memory = static_cast<float*>(
      workspace::of_this_thread(static_cast<std::size_t>(kinds * size) * sizeof(float)));
  if (!memory) return status::out_of_memory;
  if (problem.dweight) sums.dweight = memory;
  if (problem.dbias) sums.dbias = memory + (kinds - 1) * size;
  return status::ok;
}

template <norm_kind Kind, element T>
void backward(const norm_problem& problem, const partials& sums, const launcher& launch) {
  for_each_block(launch, sums.parts,
                 [&](std::int64_t part) { backward_part<Kind, T>(problem, sums, part); });
}

}  // namespace norm

inline status norm_backward_host(const norm_problem& problem, const launcher& launch) {
  if (problem.cols == 0) return status::ok;
  norm::partials sums = norm::plan_parts(problem);
  if (const status outcome = norm::allocate(sums, problem); outcome != status::ok) return outcome;
  visit(problem.type, [&]<element T>(T*) {
    if (problem.kind == norm_kind::layer)
      norm::backward<norm_kind::layer, T>(problem, sums, launch);
    else
      norm::backward<norm_kind::rms, T>(problem, sums, launch);
  });
  norm::sum_partials(problem, sums, launch);
  return status::ok;
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
