// The backward of softmax attention, tile by tile, from the LSE of the forward.
//
//   P  = exp(S * scale - lse)            probabilities, recomputed from scores S = Q K^T
//   dP = dO V^T
//   dS = P o (dP - delta)                delta[r] = sum over d of dO O - dlse[r]
//   dV = P^T dO,  dK = scale * dS^T Q,  dQ = scale * dS K
//
// With dropout, dP is (dO V^T) o keep / (1 - rate), and the P of dV is P o keep / (1 - rate); delta
// is what it was. Where scores are made logits first (scores.h), S * scale is the logit and dS the
// gradient of the bias, and the dS of dK and dQ is that times the derivative of the soft cap.
#pragma once

#include "hk/hk.h"
#include "hk/kernels/attention/online_softmax.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// For each of R rows: P = 2^((S * scale - reference) * log2 e + bias). The reference is the lse, or
// +inf for a row that sees no key, whose probabilities are then 0. The bias is 0, or makes good
// what the reference lost when it was rounded (see needs_bias).
template <int R>
struct row_terms {
  rv<float, R> reference;
  rv<float, R> bias;
  rv<float, R> delta;
};

// Whether the rounding of an lse of this size, to f32, would show in probabilities that are rounded
// to `type`: its error is up to 2^-25 of it, and an absolute error there is a relative one here.
HK_INLINE bool needs_bias(float lse, dtype type) {
  const float largest = type == dtype::f32 ? 32.0f : 1024.0f;
  return __builtin_fabsf(lse) > largest && __builtin_isfinite(lse);
}

HK_INLINE float reference_of(float lse) {
  return lse == -__builtin_inff() ? __builtin_inff() : lse;
}
HK_INLINE bool sees_no_key(float reference) { return reference == __builtin_inff(); }

// s[r][c] = s[r][c] * scale - reference[r]: logits beside the lse, rounded once.
template <register_tile S, register_vector V>
HK_INLINE void subtract_reference(S& s, const V& reference, float scale) {
  map_row(s, s, reference, [=](auto x, auto m) HK_LAMBDA_INLINE {
    return fragment::fma(x, fragment::splat(scale), -m);
  });
}

// The bias that makes row r's probabilities sum to one, from their softmax without it and the
// row's sink beside the same reference, -inf if there is none.
template <int R>
HK_INLINE float bias_of(const running_softmax<R>& state, int r, float sink) {
  if (state.sum[r] == 0) return 0;
  const float highest = sink > state.max[r] ? sink : state.max[r];
  const float sum = state.sum[r] * __builtin_exp2f((state.max[r] - highest) * log2_e) +
                    __builtin_exp2f((sink - highest) * log2_e);
  return -(highest * log2_e + __builtin_log2f(sum));
}

// p = P and ds = dS from scores s and dp = dP, in one pass. p may be s, and ds may be dp.
template <register_tile P, register_tile S, int R>
HK_INLINE void probability_gradients(P& p, P& ds, const S& s, const S& dp,
                                     const row_terms<R>& terms, float scale) {
  s.each([&](auto at) HK_LAMBDA_INLINE {
    const auto below =
        fragment::fma(s.get(at), fragment::splat(scale), -S::row_value(terms.reference, at));
    const auto exponent =
        fragment::fma(below, fragment::splat(log2_e), S::row_value(terms.bias, at));
    const auto probability = fragment::exp2(exponent);
    const auto gradient = probability * (dp.get(at) - S::row_value(terms.delta, at));
    p.set(at, probability);
    ds.set(at, gradient);
  });
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
