// Which keys a query may see, as arithmetic on tiles: what to skip, what to mask, what to leave.
//
// Causal masks, windows and lengths are a band: query t sees key s when t + lowest <= s <= t +
// highest, t < queries and s < keys. Where positions are given the band is one of positions, and
// cuts rows of a tile each in its own place; segments and positions have ranges per tile, by which
// tiles are skipped whose queries and keys cannot meet.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hk/kernels/attention/problem.h"
#include "hk/ops/masks.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// The indices [begin, end).
struct span {
  std::int64_t begin;
  std::int64_t end;

  HK_INLINE bool empty() const { return begin >= end; }
};

// What is seen at distances from lowest to highest; every distance, unless said otherwise.
struct band {
  static constexpr std::int64_t unbounded = INT64_MAX / 4;

  std::int64_t lowest = -unbounded;
  std::int64_t highest = unbounded;
};

// The 32-bit numbers from low to high; none at first.
struct id_range {
  std::int32_t low = INT32_MAX;
  std::int32_t high = INT32_MIN;

  static HK_INLINE id_range all() { return {INT32_MIN, INT32_MAX}; }
  HK_INLINE void include(id_range other) {
    low = std::min(low, other.low);
    high = std::max(high, other.high);
  }
  HK_INLINE bool meets(id_range other) const { return low <= other.high && other.low <= high; }
};

// The 32-bit numbers at the band's distances from `position`.
HK_INLINE id_range seen_from(std::int64_t position, band distances) {
  const std::int64_t low = position + distances.lowest;
  const std::int64_t high = position + distances.highest;
  if (low > INT32_MAX || high < INT32_MIN || low > high) return {};
  return {static_cast<std::int32_t>(std::max<std::int64_t>(low, INT32_MIN)),
          static_cast<std::int32_t>(std::min<std::int64_t>(high, INT32_MAX))};
}

// The segments and positions of a tile's keys, or those that its queries see.
struct tile_ids {
  id_range segments;
  id_range positions;

  HK_INLINE bool meet(const tile_ids& other) const {
    return segments.meets(other.segments) && positions.meets(other.positions);
  }
};

struct visibility {
  std::int64_t queries;  // lengths of one batch entry
  std::int64_t keys;
  std::int64_t lowest;  // the band of indices
  std::int64_t highest;
  band positions;      // the band of positions, where they are given
  std::int64_t shift;  // what is added to a query's position

  // The keys that at least one query of t sees; t is not empty.
  HK_INLINE span keys_of(span t) const {
    return {std::max<std::int64_t>(0, t.begin + lowest), std::min(keys, t.end + highest)};
  }

  // The queries that see at least one key of s; s is not empty.
  HK_INLINE span queries_of(span s) const {
    return {std::max<std::int64_t>(0, s.begin - highest), std::min(queries, s.end - lowest)};
  }

  // Whether every query of t sees every key of s.
  HK_INLINE bool all(span t, span s) const {
    return s.end <= keys && t.end - 1 + lowest <= s.begin && s.end - 1 <= t.begin + highest;
  }
};

// What the lengths, the causal mask and the window of batch entry b let be seen. Indices lie
// (query origin - key origin) from positions. Nothing overflows, whatever 32-bit numbers the arrays
// hold: shifts and windows stay far below the bound.
inline visibility visibility_of(const attention_problem& p, std::int64_t b) {
  const std::int64_t queries = std::clamp<std::int64_t>(p.q_lengths[b], 0, p.queries);
  const std::int64_t keys = std::clamp<std::int64_t>(p.kv_lengths[b], 0, p.keys);
  const std::int64_t shift = p.causal == causal_mask::bottom_right ? keys - queries : 0;
  std::int64_t left = p.window_left < 0 ? band::unbounded : p.window_left;
  std::int64_t right = p.window_right < 0 ? band::unbounded : p.window_right;
  if (p.causal != causal_mask::none) right = 0;
  const band seen{shift - left, shift + right};
  if (p.q_positions) return {queries, keys, -band::unbounded, band::unbounded, seen, shift};
  const std::int32_t* origin = p.origin + 4 * b;
  const std::int64_t apart = std::int64_t{origin[2]} - origin[3];
  return {queries, keys, seen.lowest + apart, seen.highest + apart, band{}, shift};
}

// Position of query t and of key s of batch entry b; t' is the former plus the shift.
HK_INLINE std::int64_t query_position(const attention_problem& p, std::int64_t b, std::int64_t t) {
  return p.q_positions ? p.q_positions[b * p.queries + t] : t + p.origin[4 * b + 2];
}
HK_INLINE std::int64_t key_position(const attention_problem& p, std::int64_t b, std::int64_t s) {
  return p.kv_positions ? p.kv_positions[b * p.keys + s] : s + p.origin[4 * b + 3];
}

// Whether tiles have ids by which they may be skipped.
HK_INLINE bool has_ids(const attention_problem& p) { return p.q_segments || p.q_positions; }

// The ids of queries t, and of keys s, of batch entry b; absent ids are all numbers.
HK_INLINE tile_ids query_ids(const attention_problem& p, const visibility& v, std::int64_t b,
                             span t) {
  tile_ids ids;
  if (!p.q_segments) ids.segments = id_range::all();
  if (!p.q_positions) ids.positions = id_range::all();
  for (std::int64_t i = b * p.queries + t.begin; i < b * p.queries + t.end; ++i) {
    if (p.q_segments) ids.segments.include({p.q_segments[i], p.q_segments[i]});
    if (p.q_positions) ids.positions.include(seen_from(p.q_positions[i], v.positions));
  }
  return ids;
}
HK_INLINE tile_ids key_ids(const attention_problem& p, std::int64_t b, span s) {
  tile_ids ids;
  if (!p.kv_segments) ids.segments = id_range::all();
  if (!p.kv_positions) ids.positions = id_range::all();
  for (std::int64_t i = b * p.keys + s.begin; i < b * p.keys + s.end; ++i) {
    if (p.kv_segments) ids.segments.include({p.kv_segments[i], p.kv_segments[i]});
    if (p.kv_positions) ids.positions.include({p.kv_positions[i], p.kv_positions[i]});
  }
  return ids;
}

// tile[r][c] = -inf where query (row + r) / group does not see key `key` + c: rows are the queries
// of `group` heads, folded. Offsets are clamped far outside any tile, so that 32 bits hold them.
template <register_tile S>
HK_INLINE void mask_invisible(S& tile, const visibility& v, std::int64_t row, std::int64_t group,
                              std::int64_t key) {
  constexpr std::int64_t far = 1 << 28;
  const auto relative = [&](std::int64_t s) {
    return static_cast<int>(std::clamp(s - key, -far, far));
  };
  const int fold = static_cast<int>(group);
  const int phase = static_cast<int>(row % group);
  const int low = relative(row / group + v.lowest);
  const int high = relative(row / group + v.highest);
  const int end = relative(v.keys);
  mask(
      tile,
      [=](auto r, auto c) HK_LAMBDA_INLINE {
        const auto from_diagonal = c - (r + phase) / fold;
        return (from_diagonal >= low) & (from_diagonal <= high) & (c < end);
      },
      -__builtin_inff());
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
