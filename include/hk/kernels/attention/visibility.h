// Which keys a query may see, as arithmetic on tiles: what to skip, what to mask, what to leave.
//
// Every mask that attention_problem describes (causal, window, lengths) is a band: query t sees
// key s when t + lowest <= s <= t + highest, t < queries and s < keys.
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

struct visibility {
  static constexpr std::int64_t unbounded = INT64_MAX / 4;

  std::int64_t queries;  // lengths of one batch entry
  std::int64_t keys;
  std::int64_t lowest;
  std::int64_t highest;

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

// The mask of batch entry b.
inline visibility visibility_of(const attention_problem& p, std::int64_t b) {
  const std::int64_t queries = std::clamp<std::int64_t>(p.q_lengths[b], 0, p.queries);
  const std::int64_t keys = std::clamp<std::int64_t>(p.kv_lengths[b], 0, p.keys);
  const std::int64_t shift = p.causal == causal_mask::bottom_right ? keys - queries : 0;
  std::int64_t left = p.window_left < 0 ? visibility::unbounded : p.window_left;
  std::int64_t right = p.window_right < 0 ? visibility::unbounded : p.window_right;
  if (p.causal != causal_mask::none) right = 0;
  return {queries, keys, shift - left, shift + right};
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
