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
// its part when all earlier ones have. So results depend on neither threads nor timing. Blocks are
// claimed in increasing order and key heads alternate fastest, so nobody waits for one that has not
// started, and with as many heads as threads hardly ever.
#pragma once

#include <sched.h>

#include <cstdlib>

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/gradients.h"
#include "hk/kernels/attention/host_backward_rows.h"
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

// Everything a block works on; D is the head dimension rounded up to 64, 128 or 256.
template <element U, int D>
struct backward_tiles {
  static constexpr int rows = strip_rows;
  static constexpr int keys = D > 128 ? 64 : 96;

  // Two tiles to a block halve how often query rows, and the sums of dQ, come from memory.
  static constexpr int most_key_tiles = 2;

  struct key_tile {
    std::int64_t key;
    st<U, keys, D, layout::row_panels> k;
    st<U, keys, D, layout::col_panels> k_cols;
    st<U, keys, D, layout::row_panels> v;
    rt<float, keys, D> dk;
    rt<float, keys, D> dv;

    HK_INLINE span all() const { return {key, key + keys}; }
  };
  key_tile key_tiles[most_key_tiles];

  st<U, rows, D, layout::rows> q;
  st<U, rows, D, layout::col_panels> q_cols;
  st<U, rows, D, layout::rows> dout;
  st<U, rows, D, layout::col_panels> dout_cols;
  gradient_tiles<U, rows, keys> scores;
  row_terms<rows> terms;
  rt<float, rows, D> dq;
};

// What all blocks of one call share.
struct backward_call {
  const attention_problem& problem;
  signed_scale scale;
  row_term_arrays terms;
  float* dq;            // sums of dQ strips, [B * K, T * G, D]; null if the array dq itself is f32
  std::int32_t* turns;  // how many blocks have added to a strip, [B * K, strips]
  std::int64_t strips;  // per key head
  std::int64_t block_keys;  // a multiple of the tile's keys
  failure_flag failure;

  HK_INLINE plane<float> dq_sums(const kv_head& head, std::int64_t head_index) const {
    if (!dq) return head.query_plane(static_cast<float*>(problem.dq), head.rows());
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
    const attention_problem& p = head.problem;
    const span seen{all.begin, std::min(all.end, head.visibility.keys)};
    if (!seen.empty()) {
      for (std::int64_t key = seen.begin; key < seen.end; key += tiles_type::keys)
        begin(tiles.key_tiles[key_tiles++], key);
      const span rows = head.rows_of_queries(head.visibility.queries_of(seen));
      const std::int64_t first = rows.begin / tiles_type::rows;
      for (std::int64_t i = first; i * tiles_type::rows < rows.end; ++i) step(i, block);
      for (int i = 0; i < key_tiles; ++i) finish(tiles.key_tiles[i]);
    }
    const span unseen{std::max(all.begin, head.visibility.keys), all.end};
    zero_key_rows(p.dk, head, unseen);
    zero_key_rows(p.dv, head, unseen);
  }

 private:
  using key_tile = typename tiles_type::key_tile;

  HK_NOINLINE void begin(key_tile& tile, std::int64_t key) const {
    tile.key = key;
    load_keys(tile.k, head, head.problem.k, key);
    load_keys(tile.k_cols, head, head.problem.k, key);
    load_keys(tile.v, head, head.problem.v, key);
    tile.dk.resize_rows(tile.k.rows());
    tile.dv.resize_rows(tile.k.rows());
    zero(tile.dk);
    zero(tile.dv);
  }

  HK_NOINLINE void finish(key_tile& tile) const {
    scale(tile.dk, tile.dk, call.scale.factor);
    store_keys(head.problem.dk, head, tile.dk, tile.key);
    store_keys(head.problem.dv, head, tile.dv, tile.key);
  }

  // One strip of query rows. The key blocks that it sees are consecutive.
  void step(std::int64_t strip, std::int64_t block) {
    const std::int64_t row = strip * tiles_type::rows;
    const span queries = head.queries_of_rows({row, std::min(row + tiles_type::rows, head.rows())});
    const span keys = head.visibility.keys_of(queries);
    if (keys.empty()) return;
    const span blocks{keys.begin / call.block_keys, (keys.end - 1) / call.block_keys + 1};
    if (block < blocks.begin || block >= blocks.end) return;
    load_strip(row);
    prefetch_strip(row + tiles_type::rows);
    bool first = true;
    for (int i = 0; i < key_tiles; ++i) {
      key_tile& tile = tiles.key_tiles[i];
      if (keys.end <= tile.all().begin || keys.begin >= tile.all().end) continue;
      probabilities(tile, queries, row);
      accumulate_products(tile, first);
      first = false;
    }
    add_dq(strip, block, blocks);
  }

  HK_NOINLINE void load_strip(std::int64_t row) {
    const attention_problem& p = head.problem;
    load_queries(tiles.q, head, p.q, row);
    load_queries(tiles.q_cols, head, p.q, row);
    load_queries(tiles.dout, head, p.dout, row);
    load_queries(tiles.dout_cols, head, p.dout, row);
    apply_sign(tiles.q, call.scale.sign);
    apply_sign(tiles.q_cols, call.scale.sign);
    call.terms.load_to(tiles.terms, head_index, row);
    for (int r = 0; r < tiles.q.rows(); ++r)
      if (sees_no_key(tiles.terms.reference[r])) forget_row(r);
  }

  // A row that sees no key has no part in any sum, whatever its query and its cotangent are: their
  // products with probabilities of zero would not be zero if they are infinite or no numbers.
  HK_NOINLINE void forget_row(int r) {
    for (int c = 0; c < tiles.q.cols(); ++c) {
      tiles.q.at(r, c) = tiles.q_cols.at(r, c) = U{};
      tiles.dout.at(r, c) = tiles.dout_cols.at(r, c) = U{};
    }
  }

  // While one strip computes, the next one arrives.
  HK_NOINLINE void prefetch_strip(std::int64_t row) const {
    prefetch_queries(head, head.problem.q, row, tiles_type::rows);
    prefetch_queries(head, head.problem.dout, row, tiles_type::rows);
    prefetch(call.dq_sums(head, head_index), {row, 0}, tiles_type::rows);
  }

  // P and dS.
  HK_NOINLINE void probabilities(const key_tile& tile, span queries, std::int64_t row) {
    auto& scores = tiles.scores;
    const int rows = tiles.q.rows();
    scores.s.resize_rows(rows);
    scores.dp.resize_rows(rows);
    mm_ABt(scores.s, tiles.q, tile.k);
    mm_ABt(scores.dp, tiles.dout, tile.v);
    if (!head.visibility.all(queries, tile.all()))
      mask_invisible(scores.s, head.visibility, row, head.group, tile.key);
    scores.p().resize_rows(rows);
    scores.ds().resize_rows(rows);
    probability_gradients(scores.p(), scores.ds(), scores.s, scores.dp, tiles.terms,
                          call.scale.factor);
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

  // Adds to the sum of a strip's dQ when it is this block's turn; the last of the key blocks that
  // the strip sees rounds it.
  HK_NOINLINE void add_dq(std::int64_t strip, std::int64_t block, span blocks) {
    const coord at{strip * tiles_type::rows, 0};
    std::int32_t* turn = call.turns + head_index * call.strips + strip;
    const plane<float> sums = call.dq_sums(head, head_index);
    wait_for(turn, static_cast<std::int32_t>(block - blocks.begin));
    if (block > blocks.begin) accumulate(tiles.dq, sums, at);
    if (block + 1 < blocks.end) {
      store(sums, tiles.dq, at);
    } else {
      scale(tiles.dq, tiles.dq, head.problem.scale);
      store_queries(head.problem.dq, head, tiles.dq, at.row);
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
  const std::int64_t key = block * call.block_keys;
  backward_block<U, D>{call, head, index % heads, *tiles}.run(
      block, {key, std::min(key + call.block_keys, p.keys)});
}

// The call's scratch: all row terms, the sums of dQ and the turns, in one piece of memory.
class backward_scratch {
 public:
  backward_scratch(const attention_problem& p, std::int64_t strips) {
    const std::int64_t all_rows = p.batch * p.heads * p.queries;
    const std::int64_t sums = p.type == dtype::f32 ? 0 : all_rows * p.head_dim;
    const std::int64_t turns = p.batch * p.kv_heads * strips;
    memory_ = static_cast<float*>(std::malloc((3 * all_rows + sums + turns) * sizeof(float) + 1));
    if (!memory_) return;
    terms = {memory_, memory_ + all_rows, memory_ + 2 * all_rows,
             p.queries * (p.heads / p.kv_heads)};
    if (sums > 0) dq = memory_ + 3 * all_rows;
    this->turns = reinterpret_cast<std::int32_t*>(memory_ + 3 * all_rows + sums);
    std::memset(this->turns, 0, turns * sizeof(std::int32_t));
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
  const std::int64_t bytes = p.batch * p.keys * p.kv_heads * p.head_dim * size_in_bytes(p.type);
  if (bytes == 0) return;
  std::memset(p.dk, 0, bytes);
  std::memset(p.dv, 0, bytes);
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
    return status::ok;
  }
  const std::int64_t rows = p.queries * (p.heads / p.kv_heads);
  const std::int64_t strips = (rows + tiles_type::rows - 1) / tiles_type::rows;
  const backward_scratch scratch(p, strips);
  if (!scratch.allocated()) return status::out_of_memory;
  const status found = find_row_terms<U, D>(p, scratch.terms, launch);
  if (found != status::ok) return found;

  const std::int64_t heads = p.batch * p.kv_heads;
  const std::int64_t block_keys = choose_block_keys<tiles_type>(p.keys, heads);
  backward_call call{
      p, signed_scale(p.scale), scratch.terms, scratch.dq, scratch.turns, strips, block_keys, {}};
  const auto block = [&](std::int64_t index) { run_backward_block<U, D>(call, index); };
  for_each_block(launch, heads * ((p.keys + block_keys - 1) / block_keys), block);
  return call.failure.raised() ? status::out_of_memory : status::ok;
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
