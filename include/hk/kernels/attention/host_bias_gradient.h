// The gradient of attention's bias on the host: of dS, summed over the axes along which the bias is
// repeated.
//
// A block owns a tile of dbias: queries and keys, of one head and one batch entry, where the bias
// has those axes. It goes through whatever is summed into the tile (entries, heads, tiles of
// queries and of keys, in that order), recomputes P and dS, and adds dS to a tile of sums; where
// the bias has no axis of queries or keys, the tile of sums is itself summed at the end. So the
// order is fixed, and nothing larger than dbias is ever stored.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/gradients.h"
#include "hk/kernels/attention/host_backward_rows.h"
#include "hk/kernels/attention/host_probabilities.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// Everything a block works on; D is the larger head dimension rounded up to 64, 128 or 256.
template <element U, int D>
struct bias_gradient_tiles {
  static constexpr int rows = strip_rows;
  static constexpr int keys = 64;

  st<U, rows, D, layout::rows> q;
  st<U, rows, D, layout::rows> dout;
  st<U, keys, D, layout::row_panels> k;
  st<U, keys, D, layout::row_panels> v;
  rt<float, rows, keys> s;
  rt<float, rows, keys> dp;
  rt<float, rows, keys> sums;
  row_terms<rows> terms;
  extra_tiles<rows, keys> extra;
  key_terms<keys> key;
};

// Tile i of an axis of `size` is entries [i * piece, (i + 1) * piece) of it; a repeated axis is one
// tile, and the whole axis is summed into it.
struct summed_axis {
  std::int64_t size;
  std::int64_t piece;
  bool repeated;

  std::int64_t tiles() const { return repeated ? 1 : pieces_of(size, piece); }
  span of_tile(std::int64_t i) const {
    if (repeated) return {0, size};
    return {i * piece, std::min((i + 1) * piece, size)};
  }
};

template <element U, int D>
struct bias_gradient_block {
  using tiles_type = bias_gradient_tiles<U, D>;

  const attention_problem& problem;
  const row_term_arrays& terms;
  tiles_type& tiles;

  // The tile of dbias for these spans, of one entry unless the axis is summed.
  void run(span batches, span heads, span queries, span keys) {
    tiles.sums.resize_rows(tiles_type::rows);
    zero(tiles.sums);
    for (std::int64_t b = batches.begin; b < batches.end; ++b)
      for (std::int64_t n = heads.begin; n < heads.end; ++n)
        add_head(kv_head::of_query_head(problem, b, n), queries, keys);
    tiles.sums.resize_rows(tiles_type::rows);
    const auto& array = problem.dbias;
    float* to = array.data + array.at(batches.begin, heads.begin, queries.begin, keys.begin);
    store_sums(to, queries, keys);
  }

 private:
  void add_head(const kv_head& head, span queries, span keys) {
    const std::int64_t end = std::min(queries.end, head.visibility.queries);
    for (std::int64_t t = queries.begin; t < end; t += tiles_type::rows) {
      const span strip{t, std::min<std::int64_t>(t + tiles_type::rows, end)};
      span seen = head.visibility.keys_of(strip);
      seen = {std::max(seen.begin / tiles_type::keys * tiles_type::keys, keys.begin),
              std::min(seen.end, keys.end)};
      if (seen.empty()) continue;
      load_strip(head, t);
      for (std::int64_t key = seen.begin; key < seen.end; key += tiles_type::keys)
        add_tile(head, {t, key});
    }
  }

  HK_NOINLINE void load_strip(const kv_head& head, std::int64_t query) {
    load_queries(tiles.q, head, problem.q, query, problem.head_dim);
    load_queries(tiles.dout, head, problem.dout, query, problem.value_dim);
    apply_sign(tiles.q, head.scale.sign);
    gather_queries(tiles.extra.queries, head, query, tiles.q.rows());
    terms.gather_to(tiles.terms, head, query, tiles.q.rows());
    for (int r = 0; r < tiles.q.rows(); ++r)
      if (sees_no_key(tiles.terms.reference[r])) forget_row(r, tiles.q, tiles.dout);
  }

  HK_NOINLINE void add_tile(const kv_head& head, coord at) {
    gather_keys(tiles.key, head, keys_in_use(head, at.col, tiles_type::keys));
    if (!tiles.extra.queries.ids.meet(tiles.key.ids)) return;
    load_keys(tiles.k, head, problem.k, at.col, problem.head_dim);
    load_keys(tiles.v, head, problem.v, at.col, problem.value_dim);
    tiles.s.resize_rows(tiles.q.rows());
    tiles.dp.resize_rows(tiles.q.rows());
    mm_ABt(tiles.s, tiles.q, tiles.k);
    mm_ABt(tiles.dp, tiles.dout, tiles.v);
    recompute(tiles.s, tiles.dp, tiles.s, tiles.dp, tiles.terms, tiles.extra, tiles.key, head, at);
    right_fill(tiles.dp, tiles.k.rows(), 0.0f);  // products are unspecified there
    tiles.sums.resize_rows(tiles.q.rows());
    add(tiles.sums, tiles.sums, tiles.dp);
  }

  HK_NOINLINE void store_sums(float* to, span queries, span keys) {
    const bool sum_rows = problem.dbias.repeats(3), sum_cols = problem.dbias.repeats(2);
    if (!sum_rows && !sum_cols) {
      const std::int64_t stride = problem.dbias.stride(2);
      return store(plane<float>{to, queries.end - queries.begin, keys.end - keys.begin, stride},
                   tiles.sums, {0, 0});
    }
    if (!sum_rows) {
      rv<float, tiles_type::keys> cols;
      col_sum(cols, tiles.sums);
      return store(to, cols, keys.end - keys.begin);
    }
    rv<float, tiles_type::rows> rows;
    row_sum(rows, tiles.sums);
    if (sum_cols)
      *to = sum(rows);
    else
      store(to, rows, queries.end - queries.begin);
  }
};

// Writes dbias, if it is asked for.
template <element U, int D>
HK_INLINE status bias_gradient(const attention_problem& p, const row_term_arrays& terms,
                               const launcher& launch) {
  using tiles_type = bias_gradient_tiles<U, D>;
  if (!p.dbias.data) return status::ok;
  const auto repeats = [&](int axis) { return p.dbias.repeats(axis); };
  const summed_axis batch{p.batch, 1, repeats(0)}, heads{p.heads, 1, repeats(1)};
  const summed_axis queries{p.queries, tiles_type::rows, repeats(2)};
  const summed_axis keys{p.keys, tiles_type::keys, repeats(3)};
  failure_flag failure;
  const auto block = [&](std::int64_t index) {
    auto* tiles = shared_tiles<tiles_type>();
    if (!tiles) return failure.raise();
    const span s = keys.of_tile(index % keys.tiles());
    const span t = queries.of_tile(index / keys.tiles() % queries.tiles());
    index /= keys.tiles() * queries.tiles();
    bias_gradient_block<U, D>{p, terms, *tiles}.run(batch.of_tile(index / heads.tiles()),
                                                    heads.of_tile(index % heads.tiles()), t, s);
  };
  for_each_block(launch, batch.tiles() * heads.tiles() * queries.tiles() * keys.tiles(), block);
  return failure.raised() ? status::out_of_memory : status::ok;
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
