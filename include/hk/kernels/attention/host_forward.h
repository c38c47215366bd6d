// Attention forward on the host.
//
//   out = softmax(scale * Q K^T + mask) V,   lse = log sum exp of the same logits
//
// (problem.h has the whole formula; what else there is to a logit is applied to S by host_scores.h,
// and dropout to P by host_dropout.h.)
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
#include "hk/kernels/attention/host_dropout.h"
#include "hk/kernels/attention/host_scores.h"
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

// Everything a block works on; D is the larger head dimension rounded up to 64, 128 or 256.
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
    query_terms<rows> terms;  // if there are extras

    // Rows of the key head's query-like matrices that are in use.
    HK_INLINE span in_use() const { return {row, row + q.rows()}; }
  };

  st<U, keys, D, layout::row_panels> k;
  st<U, keys, D, layout::col_panels> v;
  score_tiles<U, rows, keys> scores;
  rv<float, rows> rescale;
  strip strips_of_rows[strips];
  key_terms<keys> key;            // if there are extras
  rt<float, rows, keys> scratch;  // likewise, or dropout
};

// What all blocks of one call share.
struct forward_call {
  const attention_problem& problem;
  bool extras;
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
      load_queries(strip.q, head, head.problem.q, row, head.problem.head_dim);
      apply_sign(strip.q, head.scale.sign);
      strip.o.resize_rows(strip.q.rows());
      zero(strip.o);
      strip.softmax.reset();
      if (call.extras) begin_extras(strip);
    }
  }

  // A sink is a logit that has been seen before any key, and whose value is zero.
  HK_NOINLINE void begin_extras(typename tiles_type::strip& strip) const {
    gather_queries(strip.terms, head, strip.row, strip.q.rows());
    if (!head.problem.sinks) return;
    for (int r = 0; r < strip.q.rows(); ++r) strip.softmax.see(r, sink_of(head, strip.row + r));
  }

  // Attends to the keys of one tile.
  void step(std::int64_t key) {
    const attention_problem& p = head.problem;
    if (call.extras) {
      gather_keys(tiles.key, head, keys_in_use(head, key, tiles_type::keys));
      if (!any_strip_meets()) return;
    }
    load_keys(tiles.k, head, p.k, key, p.head_dim);
    load_keys(tiles.v, head, p.v, key, p.value_dim);
    for (int i = 0; i < strips; ++i) {
      prefetch_share(key + tiles_type::keys, i);
      attend(tiles.strips_of_rows[i], key);
    }
  }

  bool any_strip_meets() const {
    for (int i = 0; i < strips; ++i)
      if (tiles.strips_of_rows[i].terms.ids.meet(tiles.key.ids)) return true;
    return false;
  }

  // While strip i computes, its share of the next key tile arrives.
  void prefetch_share(std::int64_t key, int i) const {
    const attention_problem& p = head.problem;
    const int rows = (tiles_type::keys + strips - 1) / strips;
    prefetch_keys(head, p.k, key + i * rows, rows, p.head_dim);
    prefetch_keys(head, p.v, key + i * rows, rows, p.value_dim);
  }

  HK_NOINLINE void attend(typename tiles_type::strip& strip, std::int64_t key) {
    const span keys{key, key + tiles_type::keys};
    const span queries = head.queries_of_rows(strip.in_use());
    const span seen = head.visibility.keys_of(queries);
    if (keys.end <= seen.begin || keys.begin >= seen.end) return;
    if (call.extras && !strip.terms.ids.meet(tiles.key.ids)) return;

    auto& s = tiles.scores.s;
    s.resize_rows(strip.q.rows());
    mm_ABt(s, strip.q, tiles.k);
    const coord at{strip.row, key};
    if (call.extras) apply_extras(s, {head, strip.terms, tiles.key, at, tiles.scratch, nullptr});
    if (!head.visibility.all(queries, keys))
      mask_invisible(s, head.visibility, strip.row, head.group, key);

    auto& p = tiles.scores.p();
    p.resize_rows(s.rows());
    if (softmax_step(p, s, strip.softmax, exponent_factor(head) * log2_e, tiles.rescale))
      mul_row(strip.o, strip.o, tiles.rescale);
    if (head.problem.dropout_rate > 0) drop_elements(at);
    mma_AB(strip.o, p, tiles.v);
  }

  // After the sums of the softmax, which dropout leaves alone; finish() scales what is kept.
  HK_NOINLINE void drop_elements(coord at) {
    auto& p = tiles.scores.p();
    tiles.scratch.resize_rows(p.rows());
    draw_kept(tiles.scratch, head, at);
    map(p, drop, p, tiles.scratch);
  }

  HK_NOINLINE void finish(typename tiles_type::strip& strip) {
    const attention_problem& p = head.problem;
    divisor(tiles.rescale, strip.softmax);
    div_row(strip.o, strip.o, tiles.rescale);
    if (p.dropout_rate > 0) scale(strip.o, strip.o, dropout_scale(p));
    store_queries(p.out, head, strip.o, strip.row, p.value_dim);
    for (int r = 0; r < strip.q.rows(); ++r)
      p.lse[head.row_scalar(strip.row + r)] = log_sum_exp(strip.softmax, r, exponent_factor(head));
  }

  void finish_unseen(span rows) {
    zero_query_rows(head.problem.out, head, rows, head.problem.value_dim);
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

  forward_call call{p, has_extras(p), block_rows, blocks(block_rows), {}};
  const auto block = [&](std::int64_t index) { run_forward_block<U, D>(call, index); };
  for_each_block(launch, heads * call.row_blocks, block);
  return call.failure.raised() ? status::out_of_memory : status::ok;
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
