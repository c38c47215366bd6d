// Softmax over keys that arrive tile by tile, and the probabilities recomputed from its LSE.
//
// Scores s are dot products; the logit is s * scale with scale > 0. Maxima are of scores, so that
// s - max is exact where it matters, and the scale enters in f32 in the exponent alone.
#pragma once

#include "hk/hk.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

inline constexpr float log2_e = 1.4426950408889634f;

// How much the running maximum may lag behind the true one, in powers of two: replacing it
// rescales the whole output, which is rarely worth it.
inline constexpr float lag = 8.0f;

// For each of R rows: a maximum of the scores seen (at most `lag` too low), and the sum over them
// of 2^((s - max) * scale * log2 e).
template <int R>
struct running_softmax {
  rv<float, R> max;
  rv<float, R> sum;

  HK_INLINE void reset() {
    neg_infinity(max);
    zero(sum);
  }

  // Takes in, as row r's first score, one that is worth `score` in the exponent.
  HK_INLINE void see(int r, float score) {
    if (score == -__builtin_inff()) return;
    max[r] = score;
    sum[r] = 1.0f;
  }
};

// What is subtracted from scores: the maximum, or 0 where nothing has been seen, as -inf - -inf is
// no number.
template <int R>
HK_INLINE void finite_max(rv<float, R>& dst, const rv<float, R>& max) {
  map(
      dst,
      [](auto m) HK_LAMBDA_INLINE {
        return fragment::select(m == fragment::splat(-__builtin_inff()), fragment::splat(0.0f), m);
      },
      max);
}

// Takes in a tile of scores: p = 2^((s - max) * exponent_scale), with exponent_scale = scale *
// log2 e. Whatever was summed before must be multiplied by `rescale`; returns whether that is more
// than multiplying by one. p may be s.
template <register_tile P, register_tile S, int R>
HK_INLINE bool softmax_step(P& p, const S& s, running_softmax<R>& state, float exponent_scale,
                            rv<float, R>& rescale) {
  rv<float, R> highest;
  row_max(highest, s, state.max);
  map(
      highest,
      [=](auto m, auto old)
          HK_LAMBDA_INLINE { return fragment::select((m - old) * exponent_scale > lag, m, old); },
      highest, state.max);
  rv<float, R> reference;
  finite_max(reference, highest);
  const auto weight = [=](auto x, auto m)
                          HK_LAMBDA_INLINE { return fragment::exp2((x - m) * exponent_scale); };
  map(rescale, weight, state.max, reference);
  mul(state.sum, state.sum, rescale);
  map_row_sum(p, s, reference, weight, state.sum);
  state.max = highest;
  return min(rescale) != 1.0f;
}

// What the output is divided by: the sum, or 1 for a row that saw no key and whose output is 0.
template <int R>
HK_INLINE void divisor(rv<float, R>& dst, const running_softmax<R>& state) {
  map(
      dst,
      [](auto sum)
          HK_LAMBDA_INLINE { return fragment::select(sum == 0.0f, fragment::splat(1.0f), sum); },
      state.sum);
}

// The natural logarithm of the sum over row r's keys of exp(logit); -inf if it saw none.
template <int R>
HK_INLINE float log_sum_exp(const running_softmax<R>& state, int r, float scale) {
  return state.max[r] * scale + __builtin_logf(state.sum[r]);
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
