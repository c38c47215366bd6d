// The first pass of attention's backward on the host: what each query row contributes to all key
// tiles (row_terms), and zeros for the dQ of rows that see no key.
//
// delta is summed in the order in which the matrix instruction sums dP, so that a row that sees one
// key, for which O = V, has dP - delta = 0 exactly, and no gradient.
#pragma once

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/gradients.h"
#include "hk/kernels/attention/host_scores.h"
#include "hk/kernels/attention/host_tile_map.h"
#include "hk/kernels/attention/online_softmax.h"
#include "hk/kernels/attention/problem.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// The terms of all rows of a call, [B * K, rows] each.
struct row_term_arrays {
  float* reference;
  float* bias;
  float* delta;
  std::int64_t rows;  // of one key head: T * G

  template <int R>
  HK_INLINE void load_to(row_terms<R>& terms, std::int64_t head, std::int64_t row) const {
    const std::int64_t first = head * rows + row;
    load(terms.reference, reference + first, rows - row);
    load(terms.bias, bias + first, rows - row);
    load(terms.delta, delta + first, rows - row);
  }

  // The same for `count` queries from `query` on of one query head, whose rows are G apart.
  template <int R>
  HK_INLINE void gather_to(row_terms<R>& terms, const kv_head& h, std::int64_t query,
                           int count) const {
    const attention_problem& p = h.problem;
    const std::int64_t group = p.heads / p.kv_heads;
    const std::int64_t first = (h.batch * p.kv_heads + h.head) * rows + h.first_query_head % group;
    for (int r = 0; r < count; ++r) {
      const std::int64_t from = first + (query + r) * group;
      terms.reference[r] = reference[from];
      terms.bias[r] = bias[from];
      terms.delta[r] = delta[from];
    }
  }

  // A row that sees no key.
  HK_INLINE void forget(std::int64_t index) const {
    reference[index] = __builtin_inff();
    bias[index] = delta[index] = 0;
  }
};

// Rows of a strip, the same in both passes: the first writes zeros for those strips, and no others,
// that the second skips because they see no key.
inline constexpr int strip_rows = layout::round_up(48, mma_rows);

template <element U, int D>
struct row_term_tiles {
  static constexpr int rows = strip_rows;
  static constexpr int keys = 64;

  st<U, rows, D, layout::row_panels> dout;
  st<U, rows, D, layout::row_panels> out;
  rv<float, rows> delta;

  st<U, rows, D, layout::rows> q;
  st<U, keys, D, layout::row_panels> k;
  rt<float, rows, keys> s;
  rv<float, rows> reference;
  rv<float, rows> rescale;
  running_softmax<rows> softmax;
  query_terms<rows> terms;        // if there are extras
  key_terms<keys> key;            // likewise
  rt<float, rows, keys> scratch;  // likewise
};

template <element U, int D>
struct row_term_block {
  using tiles_type = row_term_tiles<U, D>;

  const row_term_arrays& arrays;
  const tile_map& map;
  const kv_head& head;
  std::int64_t head_index;
  tiles_type& tiles;

  // The rows of a strip, of which those from the query length on get zeros.
  void run(std::int64_t strip) {
    const attention_problem& p = head.problem;
    const std::int64_t begin = strip * tiles_type::rows;
    const std::int64_t end = std::min(begin + tiles_type::rows, head.all_rows());
    const span seen{begin, std::min(end, head.rows())};
    const bool sees = map.sees_any(head, strip);
    zero_query_rows(p.dq, head, {sees ? seen.end : begin, end}, p.head_dim);
    if (!sees) {
      for (std::int64_t r = begin; r < end; ++r) arrays.forget(first() + r);
      return;
    }
    load_queries(tiles.dout, head, p.dout, seen.begin, p.value_dim);
    load_queries(tiles.out, head, p.out, seen.begin, p.value_dim);
    row_dot(tiles.delta, tiles.dout, tiles.out);
    bool inexact = false;
    for (std::int64_t r = seen.begin; r < seen.end; ++r)
      inexact |= find_terms(r, tiles.delta[static_cast<int>(r - seen.begin)]);
    if (inexact) find_bias(seen);
  }

 private:
  std::int64_t first() const { return head_index * arrays.rows; }

  // Returns whether the lse does not tell all: it was rounded too much, or may be a sink alone.
  HK_INLINE bool find_terms(std::int64_t r, float delta) {
    const attention_problem& p = head.problem;
    const std::int64_t scalar = head.row_scalar(r);
    const float lse = p.lse[scalar];
    arrays.reference[first() + r] = reference_of(lse);
    arrays.bias[first() + r] = 0;
    arrays.delta[first() + r] =
        sees_no_key(arrays.reference[first() + r]) ? 0 : delta - p.dlse[scalar];
    return needs_bias(lse, p.type) || (p.sinks && lse == sink_of(head, r));
  }

  // The softmax of these rows once more, beside the reference instead of the true maximum.
  HK_NOINLINE void find_bias(span rows) {
    const attention_problem& p = head.problem;
    load_queries(tiles.q, head, p.q, rows.begin, p.head_dim);
    apply_sign(tiles.q, head.scale.sign);
    load(tiles.reference, arrays.reference + first() + rows.begin, rows.end - rows.begin);
    if (has_extras(p)) gather_queries(tiles.terms, head, rows.begin, tiles.q.rows());
    tiles.softmax.reset();
    const span keys = head.visibility.keys_of(head.queries_of_rows(rows));
    for (std::int64_t key = keys.begin; key < keys.end; key += tiles_type::keys)
      add_keys(rows.begin, key);
    for (int r = 0; r < tiles.q.rows(); ++r) store_bias(rows.begin + r, r);
  }

  HK_INLINE void store_bias(std::int64_t row, int r) const {
    const float reference = tiles.reference[r];
    const float sink = sink_of(head, row);
    if (sink == reference && tiles.softmax.sum[r] == 0) return arrays.forget(first() + row);
    arrays.bias[first() + row] = bias_of(tiles.softmax, r, sink - reference);
  }

  void add_keys(std::int64_t row, std::int64_t key) {
    const bool extras = has_extras(head.problem);
    if (extras) {
      gather_keys(tiles.key, head, keys_in_use(head, key, tiles_type::keys));
      if (!tiles.terms.ids.meet(tiles.key.ids)) return;
    }
    load_keys(tiles.k, head, head.problem.k, key, head.problem.head_dim);
    tiles.s.resize_rows(tiles.q.rows());
    mm_ABt(tiles.s, tiles.q, tiles.k);
    if (extras)
      apply_extras(tiles.s, {head, tiles.terms, tiles.key, {row, key}, tiles.scratch, nullptr});
    mask_invisible(tiles.s, head.visibility, row, head.group, key);
    subtract_reference(tiles.s, tiles.reference, exponent_factor(head));
    softmax_step(tiles.s, tiles.s, tiles.softmax, log2_e, tiles.rescale);
  }
};

// Fills the arrays for all rows of all heads.
template <element U, int D>
HK_INLINE status find_row_terms(const attention_problem& p, const row_term_arrays& arrays,
                                const tile_map& map, const launcher& launch) {
  using tiles_type = row_term_tiles<U, D>;
  failure_flag failure;
  const std::int64_t heads = p.batch * p.kv_heads;
  const auto block = [&](std::int64_t index) {
    auto* tiles = shared_tiles<tiles_type>();
    if (!tiles) return failure.raise();
    const kv_head head(p, index / map.strips());
    row_term_block<U, D>{arrays, map, head, index / map.strips(), *tiles}.run(index % map.strips());
  };
  for_each_block(launch, heads * map.strips(), block);
  return failure.raised() ? status::out_of_memory : status::ok;
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
