// The host's schedule of scores.h: what a strip of query rows and a tile of keys bring with them is
// gathered once for each, and applied to their tile of scores while that is in the first-level
// cache. Attention with nothing of the kind calls none of it.
#pragma once

#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/problem.h"
#include "hk/kernels/attention/scores.h"
#include "hk/kernels/attention/visibility.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// Whether scores are made logits before the softmax, instead of being scaled in its exponent.
HK_INLINE bool makes_logits(const attention_problem& p) {
  return p.soft_cap != 0 || p.slopes || p.bias.data || p.sinks;
}

// Whether a tile of scores needs more than the mask of the band of indices.
HK_INLINE bool has_extras(const attention_problem& p) {
  return makes_logits(p) || p.mask.data || has_ids(p);
}

// What scores are multiplied by in the exponent.
HK_INLINE float exponent_factor(const kv_head& h) {
  return makes_logits(h.problem) ? 1.0f : h.scale.factor;
}

// Entry (b, n) of a [B, N] or [1, N] array.
HK_INLINE float per_head(const float* array, std::int64_t batches, const attention_problem& p,
                         std::int64_t b, std::int64_t n) {
  return array[(batches == 1 ? 0 : b) * p.heads + n];
}

// The sink of row r, -inf without sinks.
HK_INLINE float sink_of(const kv_head& h, std::int64_t r) {
  const attention_problem& p = h.problem;
  if (!p.sinks) return -__builtin_inff();
  return per_head(p.sinks, p.sinks_batch, p, h.batch, h.query_head(r));
}

// What R query rows bring.
template <int R>
struct query_terms {
  tile_ids ids;
  iv<R> segment;
  iv<R> lowest;  // positions that the row sees
  iv<R> highest;
  position_vector<R> position;  // t'
  rv<float, R> slope;
};

// What C keys bring.
template <int C>
struct key_terms {
  tile_ids ids;
  iv<C> segment;
  position_vector<C> position;
};

// Gathers the terms of rows [row, row + rows).
template <int R>
HK_NOINLINE void gather_queries(query_terms<R>& terms, const kv_head& h, std::int64_t row,
                                int rows) {
  const attention_problem& p = h.problem;
  terms.ids = query_ids(p, h.visibility, h.batch, h.queries_of_rows({row, row + rows}));
  for (int r = 0; r < rows; ++r) {
    const std::int64_t t = (row + r) / h.group;
    const std::int64_t position = query_position(p, h.batch, t);
    const id_range seen = seen_from(position, h.visibility.positions);
    terms.lowest[r] = seen.low;
    terms.highest[r] = seen.high;
    terms.position.set(r, position + h.visibility.shift);
    if (p.q_segments) terms.segment[r] = p.q_segments[h.batch * p.queries + t];
    if (p.slopes)
      terms.slope[r] = per_head(p.slopes, p.slopes_batch, p, h.batch, h.query_head(row + r));
  }
}

// Gathers the terms of keys [keys.begin, keys.end), at most C; those behind are hidden anyway.
template <int C>
HK_NOINLINE void gather_keys(key_terms<C>& terms, const kv_head& h, span keys) {
  const attention_problem& p = h.problem;
  terms.ids = key_ids(p, h.batch, keys);
  for (int c = 0; c < C; ++c) {
    const std::int64_t s = std::min(keys.begin + c, keys.end - 1);
    terms.position.set(c, key_position(p, h.batch, s));
    if (p.kv_segments) terms.segment[c] = p.kv_segments[h.batch * p.keys + s];
  }
}

// The keys of a tile of `size` that starts at `key`, cut at the key length.
HK_INLINE span keys_in_use(const kv_head& h, std::int64_t key, int size) {
  return {key, std::min(key + size, h.visibility.keys)};
}

HK_INLINE float widened(std::uint8_t x) { return x; }
HK_INLINE float widened(auto x) { return to_float(x); }

// s = f(s, array), for an array over the scores with elements of type T; `loaded` is overwritten.
template <class T, class F, int R, int C>
HK_INLINE void map_score_array(rt<float, R, C>& s, rt<float, R, C>& loaded, F f, const kv_head& h,
                               const T* data, const auto& array, coord at) {
  const plane<const T> from = h.score_plane(data, array);
  if (!array.repeats(3)) {
    load(loaded, from, at);
    return map(s, f, s, loaded);
  }
  rv<float, R> rows;
  for (int r = 0; r < s.rows(); ++r) rows[r] = widened(*from.row(at.row + r));
  map_row(s, s, rows, f);
}

// f(T) for bias's element type.
template <class F>
HK_INLINE void visit_bias(const attention_problem& p, F f) {
  visit(p.bias_is_f32 ? dtype::f32 : p.type, f);
}

// A tile of scores and what is applied to it.
template <int R, int C>
struct score_place {
  const kv_head& head;
  const query_terms<R>& queries;
  const key_terms<C>& keys;
  coord at;                     // row of the key head's query rows, key
  rt<float, R, C>& loaded;      // overwritten
  rt<float, R, C>* derivative;  // of the cap, where it is wanted
};

// From dot products, with the sign of the scale in them, to logits.
template <int R, int C>
HK_NOINLINE void make_logits(rt<float, R, C>& s, const score_place<R, C>& in) {
  const attention_problem& p = in.head.problem;
  scale(s, s, in.head.scale.factor);
  if (p.soft_cap != 0) {
    cap_scores(s, p.soft_cap);
    if (in.derivative) {
      in.derivative->resize_rows(s.rows());
      cap_derivative(*in.derivative, s, p.soft_cap);
    }
  }
  if (p.slopes) subtract_distances(s, in.queries.slope, in.queries.position, in.keys.position);
  if (p.bias.data)
    visit_bias(p, [&]<class T>(T*) {
      map_score_array(s, in.loaded, add_bias, in.head, static_cast<const T*>(p.bias.data), p.bias,
                      in.at);
    });
}

template <int R, int C>
HK_NOINLINE void hide_keys(rt<float, R, C>& s, const score_place<R, C>& in) {
  const attention_problem& p = in.head.problem;
  if (p.mask.data) map_score_array(s, in.loaded, hide_unless, in.head, p.mask.data, p.mask, in.at);
  if (p.q_segments) hide_other_segments(s, in.queries.segment, in.keys.segment);
  if (p.q_positions)
    hide_other_positions(s, in.queries.lowest, in.queries.highest, in.keys.position.low_bits);
}

template <int R, int C>
HK_NOINLINE void apply_extras(rt<float, R, C>& s, const score_place<R, C>& in) {
  if (makes_logits(in.head.problem)) make_logits(s, in);
  hide_keys(s, in);
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
