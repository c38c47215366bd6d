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
// Where each group of rows has sums of its own, a part lies in one group or holds several whole
// ones. A sum whose rows all lie in one part is added up where it belongs, without a partial row.
// The rows are cut into parts by R and G alone, so the sums do not depend on the threads.
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

// How the rows are cut into parts: each `stretch` of rows into parts of `rows`.
struct row_parts {
  std::int64_t stretch;
  std::int64_t rows;
  std::int64_t of_stretch;  // parts
  std::int64_t count;       // of all parts

  std::int64_t begin(std::int64_t part) const {
    return part / of_stretch * stretch + part % of_stretch * rows;
  }
  std::int64_t end(std::int64_t part, std::int64_t all_rows) const {
    const std::int64_t first = part / of_stretch * stretch;
    return piece_end(piece_end(all_rows, first, stretch), begin(part), rows);
  }
};

// Where the parts add up dweight or dbias.
struct row_sums {
  per_group<float> result;  // null when not wanted
  std::int64_t count;       // of sums: one for each group, or one for all
  float* partial;           // [parts, H], or null where the parts add to the result

  HK_INLINE float* row(std::int64_t part, std::int64_t group, std::int64_t cols) const {
    return partial ? partial + part * cols : result.of(group);
  }
};

// The sums that a kernel makes, and how.
struct backward_plan {
  row_parts parts;
  row_sums dweight;
  row_sums dbias;
};

// The backward of one row.
template <element T>
struct backward_row {
  const float* weight;  // optional
  const T* h;
  const T* dy;
  const T* dh;  // optional
  T* dx;
  T* dresidual;  // optional
  statistics s;

  HK_INLINE backward_row(const norm_problem& problem, std::int64_t row, std::int64_t group)
      : weight(problem.weight.of(group)) {
    const std::int64_t first = row * problem.cols;
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
HK_INLINE void load_piece(vec& n, vec& dy, vec& u, const backward_row<T>& row, std::int64_t at,
                          int count) {
  load(n, row.h + at, count);
  if (Kind == norm_kind::layer) shift(n, n, -row.s.mean);
  scale(n, n, row.s.rstd);
  load(dy, row.dy + at, count);
  copy(u, dy);
  if (row.weight) {
    vec w;
    load(w, row.weight + at, count);
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

// The means of u and of u n over the row; adds dy n and dy to rows of sums, if wanted.
template <norm_kind Kind, element T>
HK_INLINE void reduce_row(float (&means)[2], const backward_row<T>& row, float* dweight,
                          float* dbias, std::int64_t cols) {
  sum_row(means, cols, [&](std::int64_t at, int count, auto& sums) HK_LAMBDA_INLINE {
    vec n, dy, u;
    load_piece<Kind>(n, dy, u, row, at, count);
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
HK_INLINE void write_row(const norm_problem& problem, const backward_row<T>& row, dropout& mask,
                         const float (&means)[2]) {
  const bool drops = problem.dropout_rate > 0.0f;
  for_each_piece<piece>(problem.cols, [&](std::int64_t at, int count) HK_LAMBDA_INLINE {
    vec n, dy, g;
    prefetch<piece>(row.h + problem.cols + at);
    prefetch<piece>(row.dy + problem.cols + at);
    load_piece<Kind>(n, dy, g, row, at, count);
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

// Starts a row of sums at 0 when the part comes to it.
HK_INLINE void start_sums(float*& current, float* next, std::int64_t cols) {
  if (next != current) std::memset(next, 0, cols * sizeof(float));
  current = next;
}

template <norm_kind Kind, element T>
HK_INLINE void backward_part(const norm_problem& problem, const backward_plan& plan,
                             std::int64_t part) {
  const std::int64_t cols = problem.cols;
  const std::int64_t end = plan.parts.end(part, problem.rows);
  float* dweight = nullptr;
  float* dbias = nullptr;
  for_each_row(problem, plan.parts.begin(part), end,
               [&](std::int64_t r, std::int64_t group) HK_LAMBDA_INLINE {
                 start_sums(dweight, plan.dweight.row(part, group, cols), cols);
                 start_sums(dbias, plan.dbias.row(part, group, cols), cols);
                 const backward_row<T> row(problem, r, group);
                 float means[2];
                 reduce_row<Kind>(means, row, dweight, dbias, cols);
                 dropout mask = dropout_of_row(problem, r, group);
                 write_row<Kind>(problem, row, mask, means);
               });
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

// One sum over its partial rows, in the columns [first, end).
inline void sum_columns(const row_sums& sums, std::int64_t index, const row_parts& parts,
                        std::int64_t cols, std::int64_t first, std::int64_t end) {
  const std::int64_t count_of_sum = parts.count / sums.count;
  const float* const partial = sums.partial + index * count_of_sum * cols + first;
  float* const dst = sums.result.of(index) + first;
  for_each_piece<piece>(end - first, [&](std::int64_t at, int count) HK_LAMBDA_INLINE {
    sum_parts(dst + at, partial + at, count_of_sum, cols, count);
  });
}

// The second stage: each block sums the partial rows of one sum over a range of columns.
inline void sum_partials(const backward_plan& plan, std::int64_t cols, const launcher& launch) {
  constexpr std::int64_t width = 16 * piece;
  const std::int64_t ranges = pieces_of(cols, width);
  const std::int64_t weights = plan.dweight.partial ? plan.dweight.count : 0;
  const std::int64_t biases = plan.dbias.partial ? plan.dbias.count : 0;
  if (weights + biases == 0) return;
  for_each_block(launch, (weights + biases) * ranges, [&](std::int64_t block) {
    const std::int64_t index = block / ranges;
    const std::int64_t first = block % ranges * width;
    const std::int64_t end = piece_end(cols, first, width);
    if (index < weights)
      sum_columns(plan.dweight, index, plan.parts, cols, first, end);
    else
      sum_columns(plan.dbias, index - weights, plan.parts, cols, first, end);
  });
}

// Cuts the rows into parts: at most 64, of at least 16 rows. Where groups have sums of their own,
// groups shorter than such a part stay whole, and the others leave one short part each.
inline row_parts cut_rows(const norm_problem& problem) {
  const std::int64_t even = pieces_of(problem.rows, 64);
  const std::int64_t rows = even < 16 ? 16 : even;
  std::int64_t stretch = problem.rows;
  if (problem.dweight.stride != 0 || problem.dbias.stride != 0) {
    const std::int64_t whole_groups = rows / problem.group_rows;
    stretch = problem.group_rows * (whole_groups > 1 ? whole_groups : 1);
  }
  const std::int64_t of_stretch = pieces_of(stretch, rows);
  return {stretch, rows, of_stretch, pieces_of(problem.rows, stretch) * of_stretch};
}

inline row_sums sums_into(per_group<float> result, const norm_problem& problem) {
  return {result, result.stride != 0 ? problem.groups : 1, nullptr};
}

// Whether the rows of a sum lie in several parts.
inline bool has_partials(const row_sums& sums, const row_parts& parts) {
  return sums.result.data && (sums.result.stride != 0 ? parts.of_stretch : parts.count) > 1;
}

// Gives the partial rows their memory; they are this thread's until the kernel returns.
inline status allocate(backward_plan& plan, std::int64_t cols) {
  row_sums* const both[] = {&plan.dweight, &plan.dbias};
  const auto size = static_cast<std::size_t>(plan.parts.count * cols);
  std::size_t arrays = 0;
  for (const row_sums* sums : both) arrays += has_partials(*sums, plan.parts);
  if (arrays == 0) return status::ok;
  auto* memory = static_cast<float*>(workspace::of_this_thread(arrays * size * sizeof(float)));
  if (!memory) return status::out_of_memory;
  for (row_sums* sums : both) {
    if (!has_partials(*sums, plan.parts)) continue;
    sums->partial = memory;
    memory += size;
  }
  return status::ok;
}

template <norm_kind Kind, element T>
void backward(const norm_problem& problem, const backward_plan& plan, const launcher& launch) {
  for_each_block(launch, plan.parts.count,
                 [&](std::int64_t part) { backward_part<Kind, T>(problem, plan, part); });
}

// Sums over no rows.
inline void zero_sums(const norm_problem& problem) {
  for (const per_group<float>& result : {problem.dweight, problem.dbias}) {
    const std::int64_t count = result.stride != 0 ? problem.groups : 1;
    if (result.data) std::memset(result.data, 0, count * problem.cols * sizeof(float));
  }
}

}  // namespace norm

inline status norm_backward_host(const norm_problem& problem, const launcher& launch) {
  if (problem.cols == 0) return status::ok;
  if (problem.rows == 0) {
    norm::zero_sums(problem);
    return status::ok;
  }
  norm::backward_plan plan{norm::cut_rows(problem), norm::sums_into(problem.dweight, problem),
                           norm::sums_into(problem.dbias, problem)};
  if (const status outcome = norm::allocate(plan, problem.cols); outcome != status::ok)
    return outcome;
  visit(problem.type, [&]<element T>(T*) {
    if (problem.kind == norm_kind::layer)
      norm::backward<norm_kind::layer, T>(problem, plan, launch);
    else
      norm::backward<norm_kind::rms, T>(problem, plan, launch);
  });
  norm::sum_partials(plan, problem.cols, launch);
  return status::ok;
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
