// The activations of a product's epilogue, on fragments: the same code on every architecture.
#pragma once

#include "hk/core/config.h"
#include "hk/kernels/gemm/problem.h"
#if HK_ARCH_HOST
#include "hk/arch/host/simd.h"
#elif HK_ARCH_CDNA
#include "hk/arch/cdna/fragment.h"
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

HK_INLINE auto exp(auto x) { return fragment::exp2(x * 0x1.715476p+0f); }

// z / (1 + exp(-z))
struct silu {
  HK_INLINE auto operator()(auto z) const { return z / (1.0f + exp(-z)); }
};

// z (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (z + 0.044715 z^3), which is z / (1 + exp(-2 u)): a
// form without cancellation where tanh is close to -1.
struct gelu {
  HK_INLINE auto operator()(auto z) const {
    const auto cubic = z * (1.0f + 0.044715f * z * z);
    return z / (1.0f + exp(-1.5957691216f * cubic));
  }
};

// erfc(t) for t >= 0 within a few ulp: exp(-t^2) times a polynomial in s = 1 / (1 + t / 2), fitted
// to exp(t^2) erfc(t) / s. The square is split in two floats, since exp magnifies its rounding.
HK_INLINE auto erfc(auto t) {
  using fragment::splat;
  const auto s = 1.0f / (1.0f + 0.5f * t);
  constexpr float coefficients[] = {
      0x1.9284a0p-7f,  -0x1.f8d9e8p-4f, 0x1.b73902p-2f, -0x1.570d30p-1f, 0x1.af6286p-2f,
      -0x1.92b582p-4f, 0x1.cde8e2p-3f,  0x1.e8bea0p-3f, 0x1.21a546p-2f,  0x1.20d584p-2f};
  auto p = splat(coefficients[0]);
  for (int i = 1; i < int(sizeof(coefficients) / sizeof(float)); ++i)
    p = fragment::fma(p, s, splat(coefficients[i]));
  const auto square = t * t;
  const auto rest = fragment::fma(t, t, -square);
  return s * p * exp(-square) * (1.0f - rest);
}

// z erfc(-z / sqrt(2)) / 2
struct gelu_exact {
  HK_INLINE auto operator()(auto z) const {
    const auto t = fragment::minimum(fragment::maximum(z, -z) * 0x1.6a09e6p-1f,
                                     fragment::splat(12.0f));  // where erfc is 0 in f32
    const auto tail = erfc(t);
    return 0.5f * z * fragment::select(z > 0.0f, 2.0f - tail, tail);
  }
};

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
