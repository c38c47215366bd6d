// What happens to a tile of a product before it leaves: bias, activation, and the stores.
#pragma once

#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/gemm/activation.h"
#include "hk/kernels/gemm/problem.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

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
