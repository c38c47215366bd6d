// What may happen to a tile of scores before the softmax: from dot products to logits, the keys
// that are hidden, and the derivative on the way back.
//
//   x = dot * scale;  x = cap tanh(x / cap);  logit = x - slope |distance| + bias
//
// A key is hidden by a logit of -inf. Every function works on the elements of a tile of any
// architecture.
#pragma once

#include <cstdint>

#include "hk/hk.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// tanh to about 3 ulp. Below 0.625 it is the fourth convergent of the continued fraction x / (1 +
// x^2 / (3 + x^2 / (5 + x^2 / 7))), as the other form, 1 - 2 / (exp(2 x) + 1), cancels there.
HK_INLINE auto tanh(auto x) {
  const auto size = fragment::maximum(-x, x);
  const auto square = x * x;
  const auto small = x * (105.0f + 10.0f * square) / (105.0f + square * (45.0f + square));
  const auto large = 1.0f - 2.0f / (1.0f + fragment::exp2(size * 0x1.715476p+1f));
  return fragment::select(size < 0.625f, small, fragment::select(x < 0.0f, -large, large));
}

// s = cap tanh(s / cap)
template <register_tile S>
HK_INLINE void cap_scores(S& s, float cap) {
  const float inverse = 1.0f / cap;
  map(s, [=](auto x) HK_LAMBDA_INLINE { return attention::tanh(x * inverse) * cap; }, s);
}

// d = the derivative of the cap, from its results: 1 - tanh^2. d may not be s.
template <register_tile S>
HK_INLINE void cap_derivative(S& d, const S& s, float cap) {
  const float inverse = 1.0f / cap;
  const auto derivative = [=](auto x) HK_LAMBDA_INLINE {
    const auto t = x * inverse;
    return (1.0f - t) * (1.0f + t);
  };
  map(d, derivative, s);
}

// Positions, one per row or column. Low bits tell near ones apart whatever their size, and the
// rounded value gives the distance of far ones, whose difference 32 bits may not hold.
template <int N>
struct position_vector {
  iv<N> low_bits;
  rv<float, N> rounded;

  HK_INLINE void set(int j, std::int64_t position) {
    low_bits[j] = static_cast<std::int32_t>(static_cast<std::uint32_t>(position));
    rounded[j] = static_cast<float>(position);
  }
};

// s[r][c] -= slope[r] * |query[r] - key[c]|
template <register_tile S, int R, int C>
HK_INLINE void subtract_distances(S& s, const rv<float, R>& slope, const position_vector<R>& query,
                                  const position_vector<C>& key) {
  const auto size = [](auto x) HK_LAMBDA_INLINE { return fragment::maximum(-x, x); };
  s.each([&](auto at) HK_LAMBDA_INLINE {
    using u32 = fragment::u32;
    const auto near = (fragment::i32)((u32)S::row_value(query.low_bits, at) -
                                      (u32)S::col_value(key.low_bits, at));
    const auto far = size(S::row_value(query.rounded, at) - S::col_value(key.rounded, at));
    const auto distance = fragment::select(far < 0x1p30f, size(fragment::to_float(near)), far);
    s.set(at, s.get(at) - S::row_value(slope, at) * distance);
  });
}

// s += bias, where a bias of -inf hides the key whatever its score is.
HK_INLINE auto biased(auto x, auto bias) {
  const auto hidden = fragment::splat(-__builtin_inff());
  return fragment::select(bias == hidden, hidden, x + bias);
}
inline constexpr auto add_bias = [](auto x, auto bias) HK_LAMBDA_INLINE { return biased(x, bias); };

// s where the mask is not 0, else -inf.
inline constexpr auto hide_unless = [](auto x, auto shown) HK_LAMBDA_INLINE {
  return fragment::select(shown != 0.0f, x, fragment::splat(-__builtin_inff()));
};

// Hides the keys of other segments than the row's.
template <register_tile S, int R, int C>
HK_INLINE void hide_other_segments(S& s, const iv<R>& query, const iv<C>& key) {
  s.each([&](auto at) HK_LAMBDA_INLINE {
    const auto same = S::row_value(query, at) == S::col_value(key, at);
    s.set(at, fragment::select(same, s.get(at), fragment::splat(-__builtin_inff())));
  });
}

// Hides the keys whose positions are not from lowest[r] to highest[r].
template <register_tile S, int R, int C>
HK_INLINE void hide_other_positions(S& s, const iv<R>& lowest, const iv<R>& highest,
                                    const iv<C>& key) {
  s.each([&](auto at) HK_LAMBDA_INLINE {
    const auto position = S::col_value(key, at);
    const auto seen =
        (position >= S::row_value(lowest, at)) & (position <= S::row_value(highest, at));
    s.set(at, fragment::select(seen, s.get(at), fragment::splat(-__builtin_inff())));
  });
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
