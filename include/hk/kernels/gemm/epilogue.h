// What happens to a tile of a product before it leaves: bias, activation, and the stores.
#pragma once

#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/gemm/problem.h"

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

template <register_tile D>
void activate(D& tile, activation act) {
  if (act == activation::gelu) map(tile, gelu{}, tile);
  if (act == activation::gelu_exact) map(tile, gelu_exact{}, tile);
  if (act == activation::silu) map(tile, silu{}, tile);
}

// tile[r][c] += bias[c], for the columns that exist.
template <register_tile D>
HK_NOINLINE void add_bias(D& tile, const gemm_problem& problem, int64_t first_col) {
  visit(problem.bias_type, [&]<element T>(T*) {
    rv<float, D::cols> bias;
    load(bias, static_cast<const T*>(problem.bias) + first_col, problem.n - first_col);
    add_col(tile, tile, bias);
  });
}

// The same where entries have a bias each, whose rows may be folded into those of one matrix.
template <register_tile D>
HK_NOINLINE void add_bias_of_entries(D& tile, const gemm_problem& p, int64_t batch, coord at) {
  visit(p.bias_type, [&]<element T>(T*) {
    const plane<const T> bias{
        static_cast<const T*>(p.bias), p.batch * p.m, p.n, 0, p.bias_rows, p.n};
    accumulate(tile, bias, {batch * p.m + at.row, at.col});
  });
}

// matrices[batch][at.row + r][at.col + c] = tile[r][c] for columns before `end`, where `matrices`
// is [B, M, N] of out_type.
template <register_tile D>
HK_NOINLINE void store_result(void* matrices, const D& tile, const gemm_problem& problem,
                              int64_t batch, coord at, int64_t end) {
  visit(problem.out_type, [&]<element T>(T*) {
    T* const matrix = static_cast<T*>(matrices) + batch * problem.m * problem.n;
    store(plane<T>{matrix, problem.m, end, problem.n}, tile, at);
  });
}

// From the finished sums of products of a tile that stands at `at` of batch entry `batch` and
// computed the columns before `end`: z = tile + bias, c = activation(z).
template <register_tile D>
HK_INLINE void epilogue(D& tile, const gemm_problem& problem, int64_t batch, coord at,
                        int64_t end) {
  if (problem.bias && problem.bias_rows == 0) add_bias(tile, problem, at.col);
  if (problem.bias && problem.bias_rows != 0) add_bias_of_entries(tile, problem, batch, at);
  if (problem.z) store_result(problem.z, tile, problem, batch, at, end);
  activate(tile, problem.act);
  store_result(problem.c, tile, problem, batch, at, end);
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
