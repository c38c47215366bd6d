// Attention backward on the host (gradients.h has the formulas).
//
// A block owns one or two tiles of keys of one key head. It walks over the strips of query rows
// (rows of all G query heads, folded) that see any of its keys, and for each of its key tiles:
//
//                  D                          keys
//          +---------------+              +----------+
//     rows | Q, dO (rows)  |  x K^T, V^T  |  S, dP   |  -> P, dS       dQ strip = dS K
//          +---------------+              +----------+
//                  D
//          +---------------+
//     keys |    dV, dK     |  += P^T dO, dS^T Q    stays with the block, rounded once at the end
//          +---------------+
//
// dQ strips are summed over the blocks of a key head in f32, in the order of the keys: a block adds
// its part when all earlier ones that the strip sees have (host_tile_map.h). So results depend on
// neither threads nor timing. Blocks are claimed in increasing order and key heads alternate
// fastest, so nobody waits for one that has not started, and with as many heads as threads hardly
// ever.
#pragma once

#include <sched.h>

#include <cstdlib>

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/gradients.h"
#include "hk/kernels/attention/host_backward_rows.h"
#include "hk/kernels/attention/host_bias_gradient.h"
#include "hk/kernels/attention/host_probabilities.h"
#include "hk/kernels/attention/host_tile_map.h"
#include "hk/kernels/attention/problem.h"
#include "hk/kernels/attention/visibility.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// P and dS as operands of P^T dO, dS^T Q and dS K, beside the f32 tiles they are computed from; in
// their place if the operand is f32. A bf16 operand must be stored in groups to be transposed.
template <element U, int R, int C>
struct gradient_tiles {
  rt<float, R, C> s;
  rt<float, R, C> dp;
  rt<U, R, C> p_operand;
  rt<U, R, C> ds_operand;
  st<U, R, C, layout::grouped_rows> transposed_operand;

  HK_INLINE rt<U, R, C>& p() { return p_operand; }
  HK_INLINE rt<U, R, C>& ds() { return ds_operand; }
  HK_INLINE auto& transposed(const rt<U, R, C>& tile) {
    store(transposed_operand, tile);
    return transposed_operand;
  }
};
template <int R, int C>
struct gradient_tiles<float, R, C> {
  rt<float, R, C> s;
  rt<float, R, C> dp;

  HK_INLINE rt<float, R, C>& p() { return s; }
  HK_INLINE rt<float, R, C>& ds() { return dp; }
  HK_INLINE const auto& transposed(const rt<float, R, C>& tile) { return tile; }
};

// Everything a block works on; D is the larger head dimension rounded up to 64, 128 or 256.
template <element U, int D>
struct backward_tiles {
  static constexpr int rows = strip_rows;
  static constexpr int keys = D > 128 ? 64 : 96;

  // Two tiles to a block halve how often query rows, and the sums of dQ, come from memory.
  static constexpr int most_key_tiles = 2;

  struct key_tile {
    std::int64_t key;
    bool loaded;
    st<U, keys, D, layout::row_panels> k;
    st<U, keys, D, layout::col_panels> k_cols;
    st<U, keys, D, layout::row_panels> v;
    rt<float, keys, D> dk;
    rt<float, keys, D> dv;
    key_terms<keys> terms;  // if there are extras

    // Nothing is loaded before a strip sees it.
    HK_INLINE void begin(std::int64_t first) {
      key = first;
      loaded = false;
    }
  };
  key_tile key_tiles[most_key_tiles];

  st<U, rows, D, layout::rows> q;
  st<U, rows, D, layout::col_panels> q_cols;
  st<U, rows, D, layout::rows> dout;
  st<U, rows, D, layout::col_panels> dout_cols;
  gradient_tiles<U, rows, keys> scores;
  row_terms<rows> terms;
  extra_tiles<rows, keys> extra;
  rt<float, rows, D> dq;
};

// What all blocks of one call share.
struct backward_call {
  const attention_problem& problem;
  const tile_map& map;
  bool extras;
  row_term_arrays terms;
  float* dq;            // sums of dQ strips, [B * K, T * G, D]; null if the array dq itself is f32
  std::int32_t* turns;  // how many blocks have added to a strip, [B * K, strips]
  failure_flag failure;

  HK_INLINE plane<float> dq_sums(const kv_head& head, std::int64_t head_index) const {
    if (!dq)
      return head.query_plane(static_cast<float*>(problem.dq), head.rows(), problem.head_dim);
    float* first = dq + head_index * head.all_rows() * problem.head_dim;
    return {first, head.rows(), problem.head_dim, problem.head_dim};
  }
};

template <element U, int D>
struct backward_block {
  using tiles_type = backward_tiles<U, D>;

  backward_call& call;
  const kv_head& head;
  std::int64_t head_index;
  tiles_type& tiles;
  int key_tiles = 0;

  // Block `block` of the key head, whose keys are `all`; those past the key length get zeros.
  HK_INLINE void run(std::int64_t block, span all) {
    const span seen{all.begin, std::min(all.end, head.visibility.keys)};
    if (!seen.empty()) {
      for (std::int64_t key = seen.begin; key < seen.end; key += tiles_type::keys)
        tiles.key_tiles[key_tiles++].begin(key);
      const span rows = head.rows_of_queries(head.visibility.queries_of(seen));
      const std::int64_t first = rows.begin / tiles_type::rows;
      for (std::int64_t i = first; i * tiles_type::rows < rows.end; ++i) step(i, block);
      for (int i = 0; i < key_tiles; ++i) finish(tiles.key_tiles[i]);
    }
    const span unseen{std::max(all.begin, head.visibility.keys), all.end};
    zero_keys(unseen);
  }

 private:
  using key_tile = typename tiles_type::key_tile;

  HK_NOINLINE void zero_keys(span keys) const {
    const attention_problem& p = head.problem;
    zero_key_rows(p.dk, head, keys, p.head_dim);
    zero_key_rows(p.dv, head, keys, p.value_dim);
  }

  HK_NOINLINE void load_tile(key_tile& tile) const {
    const attention_problem& p = head.problem;
    tile.loaded = true;
    load_keys(tile.k, head, p.k, tile.key, p.head_dim);
    load_keys(tile.k_cols, head, p.k, tile.key, p.head_dim);
    load_keys(tile.v, head, p.v, tile.key, p.value_dim);
    if (call.extras) gather_keys(tile.terms, head, keys_in_use(head, tile.key, tiles_type::keys));
    tile.dk.resize_rows(tile.k.rows());
    tile.dv.resize_rows(tile.k.rows());
    zero(tile.dk);
    zero(tile.dv);
  }

  HK_NOINLINE void finish(key_tile& tile) const {
    const attention_problem& p = head.problem;
    if (!tile.loaded) return zero_keys(keys_in_use(head, tile.key, tiles_type::keys));
    scale(tile.dk, tile.dk, head.scale.factor);
    if (p.dropout_rate > 0) scale(tile.dv, tile.dv, dropout_scale(p));
    store_keys(p.dk, head, tile.dk, tile.key, p.head_dim);
    store_keys(p.dv, head, tile.dv, tile.key, p.value_dim);
  }

  // One strip of query rows.
  void step(std::int64_t strip, std::int64_t block) {
    const span blocks = call.map.blocks_seen(head, strip);
    if (block < blocks.begin || block >= blocks.end) return;
    if (!call.map.sees_block(head, strip, block)) return;
    const std::int64_t row = strip * tiles_type::rows;
    load_strip(row);
    prefetch_strip(row + tiles_type::rows);
    bool first = true;
    for (int i = 0; i < key_tiles; ++i) {
      key_tile& tile = tiles.key_tiles[i];
      if (!call.map.sees_tile(head, strip, tile.key)) continue;
      if (!tile.loaded) load_tile(tile);
      probabilities(tile, row);
      accumulate_products(tile, first);
      first = false;
    }
    const std::int64_t earlier = call.map.count(head, strip, {blocks.begin, block});
    add_dq(strip, earlier, call.map.count(head, strip, {block + 1, blocks.end}) == 0);
  }

  HK_NOINLINE void load_strip(std::int64_t row) {
    const attention_problem& p = head.problem;
    load_queries(tiles.q, head, p.q, row, p.head_dim);
    load_queries(tiles.q_cols, head, p.q, row, p.head_dim);
    load_queries(tiles.dout, head, p.dout, row, p.value_dim);
    load_queries(tiles.dout_cols, head, p.dout, row, p.value_dim);
    apply_sign(tiles.q, head.scale.sign);
    apply_sign(tiles.q_cols, head.scale.sign);
    if (call.extras) gather_queries(tiles.extra.queries, head, row, tiles.q.rows());
    call.terms.load_to(tiles.terms, head_index, row);
    for (int r = 0; r < tiles.q.rows(); ++r)
      if (sees_no_key(tiles.terms.reference[r]))
        forget_row(r, tiles.q, tiles.q_cols, tiles.dout, tiles.dout_cols);
  }

  // While one strip computes, the next one arrives.
  HK_NOINLINE void prefetch_strip(std::int64_t row) const {
    const attention_problem& p = head.problem;
    prefetch_queries(head, p.q, row, tiles_type::rows, p.head_dim);
    prefetch_queries(head, p.dout, row, tiles_type::rows, p.value_dim);
    prefetch(call.dq_sums(head, head_index), {row, 0}, tiles_type::rows);
  }

  // P and dS.
  HK_NOINLINE void probabilities(const key_tile& tile, std::int64_t row) {
    auto& scores = tiles.scores;
    scores.s.resize_rows(tiles.q.rows());
    scores.dp.resize_rows(tiles.q.rows());
    mm_ABt(scores.s, tiles.q, tile.k);
    mm_ABt(scores.dp, tiles.dout, tile.v);
    recompute(scores.p(), scores.ds(), scores.s, scores.dp, tiles.terms, tiles.extra, tile.terms,
              head, {row, tile.key});
    to_products(scores.p(), scores.ds(), tiles.extra, head.problem);
  }

  HK_NOINLINE void accumulate_products(key_tile& tile, bool first) {
    auto& scores = tiles.scores;
    mma_AtB(tile.dv, scores.transposed(scores.p()), tiles.dout_cols);
    mma_AtB(tile.dk, scores.transposed(scores.ds()), tiles.q_cols);
    tiles.dq.resize_rows(tiles.q.rows());
    if (first)
      mm_AB(tiles.dq, scores.ds(), tile.k_cols);
    else
      mma_AB(tiles.dq, scores.ds(), tile.k_cols);
  }

  // Adds to the sum of a strip's dQ when the `earlier` blocks that it sees have; the last of them
  // rounds it.
  HK_NOINLINE void add_dq(std::int64_t strip, std::int64_t earlier, bool last) {
    const coord at{strip * tiles_type::rows, 0};
    std::int32_t* turn = call.turns + head_index * call.map.strips() + strip;
    const plane<float> sums = call.dq_sums(head, head_index);
    wait_for(turn, static_cast<std::int32_t>(earlier));
    if (earlier > 0) accumulate(tiles.dq, sums, at);
    if (!last) {
      store(sums, tiles.dq, at);
    } else {
      scale(tiles.dq, tiles.dq, head.scale.value);
      store_queries(head.problem.dq, head, tiles.dq, at.row, head.problem.head_dim);
    }
    __atomic_fetch_add(turn, 1, __ATOMIC_RELEASE);
  }

  // A block that found no memory never takes its turn, so a failure ends all waiting.
  void wait_for(const std::int32_t* turn, std::int32_t mine) const {
    while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != mine && !call.failure.raised()) sched_yield();
  }
};

// Block `index`: key heads alternate fastest.
template <element U, int D>
HK_INLINE void run_backward_block(backward_call& call, std::int64_t index) {
  using tiles_type = backward_tiles<U, D>;
  auto* tiles = shared_tiles<tiles_type>();
  if (!tiles) return call.failure.raise();
  const attention_problem& p = call.problem;
  const std::int64_t heads = p.batch * p.kv_heads;
  const kv_head head(p, index % heads);
  const std::int64_t block = index / heads;
  const std::int64_t key = block * call.map.block_keys();
  backward_block<U, D>{call, head, index % heads, *tiles}.run(
      block, {key, std::min(key + call.map.block_keys(), p.keys)});
}

// The call's scratch: all row terms, the sums of dQ, the turns and the ids of the tile map, in one
// piece of memory.
class backward_scratch {
 public:
  backward_scratch(const attention_problem& p, tile_map& map) {
    const std::int64_t all_rows = p.batch * p.heads * p.queries;
    const std::int64_t sums = p.type == dtype::f32 ? 0 : all_rows * p.head_dim;
    const std::int64_t turns = p.batch * p.kv_heads * map.strips();
    memory_ = static_cast<float*>(std::malloc((3 * all_rows + sums + turns) * sizeof(float) +
                                              map.ids() * sizeof(tile_ids) + 1));
    if (!memory_) return;
    terms = {memory_, memory_ + all_rows, memory_ + 2 * all_rows,
             p.queries * (p.heads / p.kv_heads)};
    if (sums > 0) dq = memory_ + 3 * all_rows;
    this->turns = reinterpret_cast<std::int32_t*>(memory_ + 3 * all_rows + sums);
    std::memset(this->turns, 0, turns * sizeof(std::int32_t));
    map.fill(reinterpret_cast<tile_ids*>(this->turns + turns));
  }
  backward_scratch(const backward_scratch&) = delete;
  backward_scratch& operator=(const backward_scratch&) = delete;
  ~backward_scratch() { std::free(memory_); }

  bool allocated() const { return memory_ != nullptr; }

  row_term_arrays terms{};
  float* dq = nullptr;
  std::int32_t* turns = nullptr;

 private:
  float* memory_;
};

// Without query heads there are no rows, and nothing to fold.
inline void zero_key_gradients(const attention_problem& p) {
  const std::int64_t bytes = p.batch * p.keys * p.kv_heads * size_in_bytes(p.type);
  if (bytes == 0) return;
  std::memset(p.dk, 0, bytes * p.head_dim);
  std::memset(p.dv, 0, bytes * p.value_dim);
}

// As many key tiles to a block as leave enough blocks to share out. This depends on the shape
// alone, as it decides the order in which dQ is summed.
template <class Tiles>
HK_INLINE std::int64_t choose_block_keys(std::int64_t keys, std::int64_t heads) {
  constexpr std::int64_t enough = 16;
  const std::int64_t widest = Tiles::most_key_tiles * Tiles::keys;
  return heads * ((keys + widest - 1) / widest) >= enough ? widest : Tiles::keys;
}

template <element U, int D>
HK_INLINE status attention_backward(const attention_problem& p, const launcher& launch) {
  using tiles_type = backward_tiles<U, D>;
  if (p.heads == 0 || p.kv_heads == 0) {
    zero_key_gradients(p);
    return bias_gradient<U, D>(p, {}, launch);
  }
  const std::int64_t heads = p.batch * p.kv_heads;
  tile_map map(p,
               {tiles_type::rows, tiles_type::keys, choose_block_keys<tiles_type>(p.keys, heads)});
  const backward_scratch scratch(p, map);
  if (!scratch.allocated()) return status::out_of_memory;
  const status found = find_row_terms<U, D>(p, scratch.terms, map, launch);
  if (found != status::ok) return found;

  backward_call call{p, map, has_extras(p), scratch.terms, scratch.dq, scratch.turns, {}};
  const auto block = [&](std::int64_t index) { run_backward_block<U, D>(call, index); };
  for_each_block(launch, heads * pieces_of(p.keys, map.block_keys()), block);
  if (call.failure.raised()) return status::out_of_memory;
  return bias_gradient<U, D>(p, scratch.terms, launch);
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
