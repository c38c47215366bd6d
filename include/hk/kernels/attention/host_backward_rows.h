// The first pass of attention's backward on the host: what each query row contributes to all key
// tiles (row_terms), and zeros for the dQ of rows that see no key.
//
// delta is summed in the order in which the matrix instruction sums dP, so that a row that sees one
// key, for which O = V, has dP - delta = 0 exactly, and no gradient.
#pragma once

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/gradients.h"
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
};

template <element U, int D>
struct row_term_block {
  using tiles_type = row_term_tiles<U, D>;

  const row_term_arrays& arrays;
  const signed_scale scale;
  const kv_head& head;
  std::int64_t head_index;
  tiles_type& tiles;

  // Rows [all.begin, all.end), at most a tile of them.
  void run(span all) {
    const attention_problem& p = head.problem;
    const span seen{all.begin, std::min(all.end, head.rows())};
    const bool sees = !seen.empty() && !head.visibility.keys_of(head.queries_of_rows(seen)).empty();
    zero_query_rows(p.dq, head, {sees ? seen.end : all.begin, all.end});
    if (!sees) return;

    load_queries(tiles.dout, head, p.dout, seen.begin);
    load_queries(tiles.out, head, p.out, seen.begin);
    row_dot(tiles.delta, tiles.dout, tiles.out);

    bool biased = false;
    const std::int64_t first = head_index * arrays.rows;
    for (std::int64_t r = seen.begin; r < seen.end; ++r) {
      const std::int64_t scalar = head.row_scalar(r);
      arrays.reference[first + r] = reference_of(p.lse[scalar]);
      arrays.bias[first + r] = 0;
      arrays.delta[first + r] =
          sees_no_key(arrays.reference[first + r])
              ? 0
              : tiles.delta[static_cast<int>(r - seen.begin)] - p.dlse[scalar];
      biased |= needs_bias(p.lse[scalar], p.type);
    }
    if (biased) find_bias(seen);
  }

 private:
  // The softmax of these rows once more, beside the reference instead of the true maximum.
  HK_NOINLINE void find_bias(span rows) {
    const attention_problem& p = head.problem;
    const std::int64_t first = head_index * arrays.rows + rows.begin;
    load_queries(tiles.q, head, p.q, rows.begin);
    apply_sign(tiles.q, scale.sign);
    load(tiles.reference, arrays.reference + first, rows.end - rows.begin);
    tiles.softmax.reset();
    const span keys = head.visibility.keys_of(head.queries_of_rows(rows));
    for (std::int64_t key = keys.begin; key < keys.end; key += tiles_type::keys)
      add_keys(rows.begin, key);
    for (int r = 0; r < tiles.q.rows(); ++r) arrays.bias[first + r] = bias_of(tiles.softmax, r);
  }

  void add_keys(std::int64_t row, std::int64_t key) {
    load_keys(tiles.k, head, head.problem.k, key);
    tiles.s.resize_rows(tiles.q.rows());
    mm_ABt(tiles.s, tiles.q, tiles.k);
    mask_invisible(tiles.s, head.visibility, row, head.group, key);
    subtract_reference(tiles.s, tiles.reference, scale.factor);
    softmax_step(tiles.s, tiles.s, tiles.softmax, log2_e, tiles.rescale);
  }
};

// Fills the arrays for all rows of all heads.
template <element U, int D>
HK_INLINE status find_row_terms(const attention_problem& p, const row_term_arrays& arrays,
                                const launcher& launch) {
  using tiles_type = row_term_tiles<U, D>;
  failure_flag failure;
  const std::int64_t heads = p.batch * p.kv_heads;
  const std::int64_t blocks = (arrays.rows + tiles_type::rows - 1) / tiles_type::rows;
  const auto block = [&](std::int64_t index) {
    auto* tiles = shared_tiles<tiles_type>();
    if (!tiles) return failure.raise();
    const kv_head head(p, index / blocks);
    const std::int64_t row = index % blocks * tiles_type::rows;
    row_term_block<U, D>{arrays, signed_scale(p.scale), head, index / blocks, *tiles}.run(
        {row, std::min(row + tiles_type::rows, head.all_rows())});
  };
  for_each_block(launch, heads * blocks, block);
  return failure.raised() ? status::out_of_memory : status::ok;
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
