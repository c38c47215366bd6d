// Which elements of a tile of probabilities dropout keeps; problem.h states which draw decides
// which element. Draws are found by rows, four fragments at a time, from the group that the tile's
// first key lies in.
#pragma once

#include <cstdint>
#include <cstring>

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/random/dropout.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

inline constexpr int draws_at_once = 4 * fragment::lanes;

// Draws for keys [key, key + C) of row `row`, from draws[skip] on; returns skip.
template <int C>
HK_INLINE int draw_row(std::uint32_t (&draws)[C + 2 * draws_at_once], const kv_head& h,
                       std::int64_t row, std::int64_t key, philox::key seed) {
  using fragment::splat, fragment::u32;
  const std::int32_t* origin = h.problem.origin + 4 * h.batch;
  const auto word = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  const std::uint32_t first = word(origin[3] + key);
  const int skip = static_cast<int>(first % 4);
  const u32 group = splat(first / 4) + random::group_of_lane();
  for (int at = 0; at < skip + C; at += draws_at_once) {
    u32 words[4] = {(group + static_cast<std::uint32_t>(at / 4)) & 0x3fffffffu,
                    splat(word(origin[2] + row / h.group)),
                    splat(word(origin[1] + h.query_head(row))), splat(word(origin[0]))};
    random::draw(words, seed);
    std::memcpy(draws + at, words, sizeof(words));
  }
  return skip;
}

// kept[r][c] = 1 where element (at.row + r, at.col + c) is kept, else 0, for the rows in use.
template <int R, int C>
HK_NOINLINE void draw_kept(rt<float, R, C>& kept, const kv_head& h, coord at) {
  const attention_problem& p = h.problem;
  const random::dropout_rule rule(p.dropout_rate);
  const std::uint32_t* seed = p.seed + (p.seed_batch == 1 ? 0 : 2 * h.batch);
  alignas(64) std::uint32_t draws[C + 2 * draws_at_once];
  for (int r = 0; r < kept.rows(); ++r) {
    const std::uint32_t* row =
        draws + draw_row<C>(draws, h, at.row + r, at.col, {{seed[0], seed[1]}});
    for (int i = 0; i < C / fragment::lanes; ++i) {
      fragment::u32 draw;
      std::memcpy(&draw, row + i * fragment::lanes, sizeof(draw));
      kept.set({r, i}, fragment::select(rule.keeps(draw), fragment::splat(1.0f), fragment::f32{}));
    }
  }
}

// x where it is kept, else 0, whatever x is.
inline constexpr auto drop = [](auto x, auto kept) HK_LAMBDA_INLINE {
  return fragment::select(kept != 0.0f, x, fragment::splat(0.0f));
};

// 1 / (1 - rate), or 0 where all is dropped.
HK_INLINE float dropout_scale(const attention_problem& p) {
  return random::dropout_rule(p.dropout_rate).scale;
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
