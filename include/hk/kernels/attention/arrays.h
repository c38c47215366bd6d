// Attention's arrays as the matrices that tiles are loaded from, for one batch entry and one key
// head, and the loads themselves.
//
// The G = N / K query heads that share a key head are folded into the rows: row r of a query-like
// matrix is query r / G of head r % G of the group. So a key tile is loaded once for all of them.
// What the two layouts of the arrays differ in is strides, and only the planes know of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/attention/problem.h"
#include "hk/kernels/attention/visibility.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// The softmax scale as a sign that is multiplied into the queries, which rounds nothing, and a
// positive factor for the exponent: a maximum of dot products is then one of logits, and -inf
// marks a masked one.
struct signed_scale {
  float sign;    // -1, 0 or 1
  float factor;  // |scale|, or 1 if the sign is 0
  float value;

  explicit signed_scale(float scale)
      : sign(scale > 0   ? 1.0f
             : scale < 0 ? -1.0f
                         : scale),
        factor(scale == 0 ? 1.0f : scale),
        value(scale) {
    if (factor < 0) factor = -factor;
  }
};

// One key head of one batch entry, with the query heads that read it, or with one of them.
struct kv_head {
  const attention_problem& problem;
  std::int64_t batch;
  std::int64_t head;
  std::int64_t first_query_head;
  std::int64_t group;  // query heads: G, or 1
  attention::visibility visibility;
  signed_scale scale;

  kv_head(const attention_problem& p, std::int64_t index)
      : kv_head(p, index / p.kv_heads, index % p.kv_heads * (p.heads / p.kv_heads),
                p.heads / p.kv_heads) {}

  static kv_head of_query_head(const attention_problem& p, std::int64_t b, std::int64_t n) {
    return {p, b, n, 1};
  }

  // Rows of query-like matrices: all of them, and those of queries inside the length.
  std::int64_t all_rows() const { return problem.queries * group; }
  std::int64_t rows() const { return visibility.queries * group; }

  // The queries that rows [begin, end) belong to, and the rows that queries have.
  span queries_of_rows(span r) const { return {r.begin / group, (r.end - 1) / group + 1}; }
  span rows_of_queries(span t) const { return {t.begin * group, t.end * group}; }

  // The matrix [rows, width] of a [B, T, N, width] array.
  template <class T>
  plane<T> query_plane(T* array, std::int64_t rows, std::int64_t width) const {
    return rows_of(array, rows, width, problem.queries, problem.heads, first_query_head, group);
  }

  // The matrix [rows, width] of a [B, S, K, width] array.
  template <class T>
  plane<T> key_plane(T* array, std::int64_t rows, std::int64_t width) const {
    return rows_of(array, rows, width, problem.keys, problem.kv_heads, head, 1);
  }

  // The matrix [rows, S] of an array over the scores, whose columns repeat where its last size
  // is 1.
  template <class T>
  plane<T> score_plane(T* data, const auto& array) const {
    T* first = data + array.at(batch, first_query_head, 0, 0);
    return {first, rows(), visibility.keys, array.stride(1), group, array.stride(2)};
  }

  // Where row r of a [B, N, T] array stands.
  std::int64_t row_scalar(std::int64_t r) const {
    return (batch * problem.heads + query_head(r)) * problem.queries + r / group;
  }
  std::int64_t query_head(std::int64_t r) const { return first_query_head + r % group; }

 private:
  kv_head(const attention_problem& p, std::int64_t batch, std::int64_t first_query_head,
          std::int64_t group)
      : problem(p),
        batch(batch),
        head(first_query_head / (p.heads / p.kv_heads)),
        first_query_head(first_query_head),
        group(group),
        visibility(visibility_of(p, batch)),
        scale(p.scale[batch]) {}

  // Rows of `fold` heads from `head` on of a [B, length, heads, width] or [B, heads, length, width]
  // array.
  template <class T>
  plane<T> rows_of(T* array, std::int64_t rows, std::int64_t width, std::int64_t length,
                   std::int64_t heads, std::int64_t head, std::int64_t fold) const {
    const bool heads_last = problem.layout == attention_layout::btnh;
    const std::int64_t from_time = heads_last ? heads * width : width;
    const std::int64_t from_head = heads_last ? width : length * width;
    T* first = array + batch * length * heads * width + head * from_head;
    if (fold == 1) return {first, rows, width, from_time};
    return {first, rows, width, from_head, fold, from_time};
  }
};

// Loads rows [row, row + R) of a [B, T, N, width] array, cut at the query length.
template <element U, int R, int C, class Layout>
HK_NOINLINE void load_queries(st<U, R, C, Layout>& tile, const kv_head& h, const void* array,
                              std::int64_t row, std::int64_t width) {
  visit(h.problem.type, [&]<class T>(T*) {
    if constexpr (std::same_as<operand<T>, U>)
      load(tile, h.query_plane(static_cast<const T*>(array), h.rows(), width), {row, 0});
  });
}

// Loads rows [row, row + R) of a [B, S, K, width] array, cut at the key length.
template <element U, int R, int C, class Layout>
HK_NOINLINE void load_keys(st<U, R, C, Layout>& tile, const kv_head& h, const void* array,
                           std::int64_t row, std::int64_t width) {
  visit(h.problem.type, [&]<class T>(T*) {
    if constexpr (std::same_as<operand<T>, U>)
      load(tile, h.key_plane(static_cast<const T*>(array), h.visibility.keys, width), {row, 0});
  });
}

// Asks for `rows` rows from `row` on of such arrays to be brought near.
inline void prefetch_queries(const kv_head& h, const void* array, std::int64_t row, int rows,
                             std::int64_t width) {
  visit(h.problem.type, [&]<class T>(T*) {
    prefetch(h.query_plane(static_cast<const T*>(array), h.rows(), width), {row, 0}, rows);
  });
}

inline void prefetch_keys(const kv_head& h, const void* array, std::int64_t row, int rows,
                          std::int64_t width) {
  visit(h.problem.type, [&]<class T>(T*) {
    prefetch(h.key_plane(static_cast<const T*>(array), h.visibility.keys, width), {row, 0}, rows);
  });
}

// Stores a tile at row `row` of a [B, T, N, width] array.
template <int R, int C>
HK_NOINLINE void store_queries(void* array, const kv_head& h, const rt<float, R, C>& tile,
                               std::int64_t row, std::int64_t width) {
  visit(h.problem.type, [&]<class T>(T*) {
    store(h.query_plane(static_cast<T*>(array), h.all_rows(), width), tile, {row, 0});
  });
}

// Stores a tile at row `row` of a [B, S, K, width] array.
template <int R, int C>
HK_NOINLINE void store_keys(void* array, const kv_head& h, const rt<float, R, C>& tile,
                            std::int64_t row, std::int64_t width) {
  visit(h.problem.type, [&]<class T>(T*) {
    store(h.key_plane(static_cast<T*>(array), h.problem.keys, width), tile, {row, 0});
  });
}

// Zeros rows [rows.begin, rows.end) of a plane.
template <class T>
HK_INLINE void zero_rows(plane<T> dst, span rows) {
  for (std::int64_t r = rows.begin; r < rows.end; ++r)
    std::memset(dst.row(r), 0, dst.cols * sizeof(T));
}

inline void zero_query_rows(void* array, const kv_head& h, span rows, std::int64_t width) {
  visit(h.problem.type, [&]<class T>(T*) {
    zero_rows(h.query_plane(static_cast<T*>(array), h.all_rows(), width), rows);
  });
}

inline void zero_key_rows(void* array, const kv_head& h, span rows, std::int64_t width) {
  visit(h.problem.type, [&]<class T>(T*) {
    zero_rows(h.key_plane(static_cast<T*>(array), h.problem.keys, width), rows);
  });
}

// Multiplies the elements in use by the sign.
template <element U, int R, int C, class Layout>
HK_INLINE void apply_sign(st<U, R, C, Layout>& tile, float sign) {
  if (sign == 1.0f) return;
  for (int r = 0; r < tile.rows(); ++r)
    for (int c = 0; c < tile.cols(); ++c)
      tile.at(r, c) = from_float<U>(to_float(tile.at(r, c)) * sign);
}

// A status that blocks report to.
struct failure_flag {
  bool value = false;
  void raise() { __atomic_store_n(&value, true, __ATOMIC_RELAXED); }
  bool raised() const { return __atomic_load_n(&value, __ATOMIC_RELAXED); }
};

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
