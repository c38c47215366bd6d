// Attention forward on the host.
//
//   out = softmax(scale * Q K^T + mask) V,   lse = log sum exp of the same logits
//
// A block owns up to `strips` strips of query rows of one key head (rows of all G query heads,
// folded) and walks over the key tiles that any of them sees:
//
//              D                          keys
//        +-----------+               +------------+
//   rows | Q strip 0 |  x K^T        | S, then P  |  x  V   ->  O strip 0
//        | Q strip 1 |  (row panels) |            |  (col     O strip 1
//        |    ...    |               +------------+  panels)    ...
//        +-----------+
//
// A key tile is loaded, which also lays it out for the matrix instruction, once per block; S is one
// tile that stays in the first-level cache. All arithmetic of a row depends on the row and the key
// tiles alone, so results are the same however rows are split into blocks.
#pragma once

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/online_softmax.h"
#include "hk/kernels/attention/problem.h"
#include "hk/kernels/attention/visibility.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// Scores in f32 and probabilities as a matrix operand; in one place if they have the same type.
template <element U, int R, int C>
struct score_tiles {
  rt<float, R, C> s;
  rt<U, R, C> operand;
  HK_INLINE rt<U, R, C>& p() { return operand; }
};
template <int R, int C>
struct score_tiles<float, R, C> {
  rt<float, R, C> s;
  HK_INLINE rt<float, R, C>& p() { return s; }
};

// Everything a block works on; D is the head dimension rounded up to 64, 128 or 256.
template <element U, int D>
struct forward_tiles {
  static constexpr int rows = 8 * mma_rows;
  static constexpr int keys = 64;
  static constexpr int strips = D > 128 ? 2 : 5;

  struct strip {
    std::int64_t row;
    st<U, rows, D, layout::rows> q;
    rt<float, rows, D> o;
    running_softmax<rows> softmax;

    // Rows of the key head's query-like matrices that are in use.
    HK_INLINE span in_use() const { return {row, row + q.rows()}; }
  };

  st<U, keys, D, layout::row_panels> k;
  st<U, keys, D, layout::col_panels> v;
  score_tiles<U, rows, keys> scores;
  rv<float, rows> rescale;
  strip strips_of_rows[strips];
};

// What all blocks of one call share.
struct forward_call {
  const attention_problem& problem;
  signed_scale scale;
  std::int64_t block_rows;  // a multiple of the strip's rows
  std::int64_t row_blocks;  // per key head
  failure_flag failure;
};

template <element U, int D>
struct forward_block {
  using tiles_type = forward_tiles<U, D>;

  const forward_call& call;
  const kv_head& head;
  tiles_type& tiles;
  int strips = 0;

  // Rows [all.begin, all.end), of which those past the query length are only zeroed.
  HK_INLINE void run(span all) {
    const span seen{all.begin, std::min(all.end, head.rows())};
    if (!seen.empty()) {
      begin(seen);
      const span keys = head.visibility.keys_of(head.queries_of_rows(seen));
      const std::int64_t first = keys.begin / tiles_type::keys * tiles_type::keys;
      for (std::int64_t key = first; key < keys.end; key += tiles_type::keys) step(key);
      for (int i = 0; i < strips; ++i) finish(tiles.strips_of_rows[i]);
    }
    finish_unseen({std::max(all.begin, head.rows()), all.end});
  }

 private:
  void begin(span seen) {
    for (std::int64_t row = seen.begin; row < seen.end; row += tiles_type::rows) {
      auto& strip = tiles.strips_of_rows[strips++];
      strip.row = row;
      load_queries(strip.q, head, head.problem.q, row);
      apply_sign(strip.q, call.scale.sign);
      strip.o.resize_rows(strip.q.rows());
      zero(strip.o);
      strip.softmax.reset();
    }
  }

  // Attends to the keys of one tile.
  void step(std::int64_t key) {
    load_keys(tiles.k, head, head.problem.k, key);
    load_keys(tiles.v, head, head.problem.v, key);
    for (int i = 0; i < strips; ++i) {
      prefetch_share(key + tiles_type::keys, i);
      attend(tiles.strips_of_rows[i], key);
    }
  }

  // While strip i computes, its share of the next key tile arrives.
  void prefetch_share(std::int64_t key, int i) const {
    const int rows = (tiles_type::keys + strips - 1) / strips;
    prefetch_keys(head, head.problem.k, key + i * rows, rows);
    prefetch_keys(head, head.problem.v, key + i * rows, rows);
  }

  HK_NOINLINE void attend(typename tiles_type::strip& strip, std::int64_t key) {
    const span keys{key, key + tiles_type::keys};
    const span queries = head.queries_of_rows(strip.in_use());
    const span seen = head.visibility.keys_of(queries);
    if (keys.end <= seen.begin || keys.begin >= seen.end) return;

    auto& s = tiles.scores.s;
    s.resize_rows(strip.q.rows());
    mm_ABt(s, strip.q, tiles.k);
    if (!head.visibility.all(queries, keys))
      mask_invisible(s, head.visibility, strip.row, head.group, key);

    auto& p = tiles.scores.p();
    p.resize_rows(s.rows());
    if (softmax_step(p, s, strip.softmax, call.scale.factor * log2_e, tiles.rescale))
      mul_row(strip.o, strip.o, tiles.rescale);
    mma_AB(strip.o, p, tiles.v);
  }

  HK_NOINLINE void finish(typename tiles_type::strip& strip) {
    divisor(tiles.rescale, strip.softmax);
    div_row(strip.o, strip.o, tiles.rescale);
    store_queries(head.problem.out, head, strip.o, strip.row);
    for (int r = 0; r < strip.q.rows(); ++r)
      head.problem.lse[head.row_scalar(strip.row + r)] =
          log_sum_exp(strip.softmax, r, call.scale.factor);
  }

  void finish_unseen(span rows) {
    zero_query_rows(head.problem.out, head, rows);
    for (std::int64_t r = rows.begin; r < rows.end; ++r)
      head.problem.lse[head.row_scalar(r)] = -__builtin_inff();
  }
};

// Block `index`: blocks of later rows come first under a causal mask, as they see more keys and the
// last blocks to run should be light; key heads alternate fastest.
template <element U, int D>
HK_INLINE void run_forward_block(forward_call& call, std::int64_t index) {
  auto* tiles = shared_tiles<forward_tiles<U, D>>();
  if (!tiles) return call.failure.raise();
  const attention_problem& p = call.problem;
  const std::int64_t heads = p.batch * p.kv_heads;
  std::int64_t block = index / heads;
  if (p.causal != causal_mask::none) block = call.row_blocks - 1 - block;
  const kv_head head(p, index % heads);
  const std::int64_t first = block * call.block_rows;
  forward_block<U, D>{call, head, *tiles}.run(
      {first, std::min(first + call.block_rows, head.all_rows())});
}

// Fewer strips to a block where blocks would be too few to keep the threads evenly busy.
template <element U, int D>
HK_INLINE status attention_forward(const attention_problem& p, const launcher& launch) {
  using tiles = forward_tiles<U, D>;
  const std::int64_t heads = p.batch * p.kv_heads;
  if (heads == 0 || p.heads == 0) return status::ok;
  const std::int64_t rows = p.queries * (p.heads / p.kv_heads);
  const auto blocks = [&](std::int64_t block_rows) { return (rows + block_rows - 1) / block_rows; };
  std::int64_t strips = tiles::strips;
  while (strips > 1 && heads * blocks(strips * tiles::rows) < 8 * launch.threads) --strips;
  const std::int64_t block_rows = strips * tiles::rows;

  forward_call call{p, signed_scale(p.scale), block_rows, blocks(block_rows), {}};
  const auto block = [&](std::int64_t index) { run_forward_block<U, D>(call, index); };
  for_each_block(launch, heads * call.row_blocks, block);
  return call.failure.raised() ? status::out_of_memory : status::ok;
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
