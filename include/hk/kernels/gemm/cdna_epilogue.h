// From accumulators to rows of C: bias, pre-activation, activation, stores.
//
// A wave's accumulators go through LDS, a strip of rows of 64 columns at a time, and come back as
// runs of 8 elements to a lane:
//
//   accumulators: lane = row, 4 columns      strip in LDS            runs
//   R / 16 of [16 rows x 64 columns]   --->  R rows x 256 bytes ---> R / 8 of 8 rows x 64 columns
//
//   along rows      lane l has columns 8 (l % 8) .. + 7 of row l / 8: stores of 16 bytes
//   along columns   lane l has rows 0 .. 7 of column l: for rows of C that are not aligned, or that
//                   16 bytes do not divide; the 64 lanes store adjacent elements
//
// The strip is the wave's own, so no barrier is needed between its parts, only one before the
// first, when other waves may still read operands there.
#pragma once

#include <type_traits>

#include "hk/kernels/gemm/activation.h"
#include "hk/kernels/gemm/cdna_block.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

inline constexpr int strip_cols = 64;
inline constexpr int run = 8;

// Where a lane's run lies in a matrix [B, M, N].
struct run_place {
  int64_t element;  // its first
  int32_t cols;     // N
  int32_t rows;     // that exist, from the first element on
  bool along_row;   // such a run is whole, or does not exist at all
};

template <class T, class V>
HK_INLINE void store_run(uint64_t matrices, const run_place& at, V values) {
  const uint64_t address = matrices + static_cast<uint64_t>(at.element) * sizeof(T);
  if (at.along_row) {
    store_global(address, values);
    return;
  }
  const uint64_t stride = sizeof(T) * static_cast<uint64_t>(at.cols);
#pragma unroll
  for (int e = 0; e < run; ++e) {
    const T value = values[e];
    if (e < at.rows) store_global<T>(address + stride * e, value);
  }
}

HK_INLINE void store_results(uint64_t matrices, dtype type, const run_place& at, f32x8 values) {
  if (type == dtype::f32)
    store_run<float>(matrices, at, values);
  else if (type == dtype::bf16)
    store_run<__bf16>(matrices, at, __builtin_convertvector(values, bf16x8));
  else
    store_run<_Float16>(matrices, at, __builtin_convertvector(values, f16x8));
}

// A run of a bias's row from column `col` on: 8 columns, or one column 8 times.
template <element T>
HK_INLINE f32x8 load_bias_run(uint64_t row, int32_t col, bool along_row) {
  using bits = std::conditional_t<sizeof(T) == 4, float, uint16_t>;
  f32x8 values;
#pragma unroll
  for (int e = 0; e < run; ++e) {
    const int64_t at = along_row ? col + e : col;
    const bits loaded = load_global<bits>(row + sizeof(T) * static_cast<uint64_t>(at));
    values[e] = to_float(__builtin_bit_cast(T, loaded));
  }
  return values;
}

// The bias of a run of entry `entry` that starts in column `col`; zeros without a bias.
template <class Arguments>
HK_INLINE f32x8 load_bias(const Arguments& p, int32_t entry, int32_t col) {
  if (p.bias == 0 || col >= p.n) return f32x8{0, 0, 0, 0, 0, 0, 0, 0};
  const uint64_t row = p.bias + static_cast<uint64_t>(p.bias_entry_stride * entry);
  const dtype type = static_cast<dtype>(p.bias_type);
  if (type == dtype::f32) return load_bias_run<float>(row, col, p.vectors);
  if (type == dtype::bf16) return load_bias_run<bf16>(row, col, p.vectors);
  return load_bias_run<f16>(row, col, p.vectors);
}

template <class F>
HK_INLINE f32x8 apply(F f, f32x8 x) {
#pragma unroll
  for (int e = 0; e < run; ++e) {
    const float value = x[e];
    x[e] = f(value);
  }
  return x;
}

HK_INLINE f32x8 activate(f32x8 x, activation act) {
  if (act == activation::gelu) return apply(gelu{}, x);
  if (act == activation::silu) return apply(silu{}, x);
  if (act == activation::gelu_exact) return apply(gelu_exact{}, x);
  return x;
}

// z = values + bias, c = activation(z).
template <class Arguments>
HK_INLINE void finish_run(const Arguments& p, const run_place& at, f32x8 values, f32x8 bias) {
  values += bias;
  const dtype type = static_cast<dtype>(p.c_type);
  if (p.z) store_results(p.z, type, at, values);
  store_results(p.c, type, at, activate(values, static_cast<activation>(p.act)));
}

// Rows [first, first + R) of a wave's accumulators into its strip.
template <int R, int M>
HK_INLINE void fill_strip(const rt<float, M, strip_cols>& d, int first, uint32_t strip) {
  const uint32_t lane = lane_index(), row = lane % 16;
#pragma unroll
  for (int i = 0; i < R / 16; ++i)
#pragma unroll
    for (int j = 0; j < strip_cols / 16; ++j) {
      const int at =
          cdna::result_strip::offset(static_cast<int>(row), static_cast<int>(4 * j + lane / 16));
      store_local(strip + i * 16 * cdna::result_strip::row_bytes + static_cast<uint32_t>(at),
                  d.part[first / 16 + i][j]);
    }
}

// The lane's run of rows [row, row + 8) of a strip.
HK_INLINE f32x8 read_strip(uint32_t strip, uint32_t row, bool along_row) {
  const uint32_t lane = lane_index();
  if (along_row) {
    const int r = static_cast<int>(row + lane / run), c = static_cast<int>(lane % run * 2);
    const f32x4 low = load_local<f32x4>(strip + cdna::result_strip::offset(r, c));
    const f32x4 high = load_local<f32x4>(strip + cdna::result_strip::offset(r, c + 1));
    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
  }
  f32x8 values;
#pragma unroll
  for (int e = 0; e < run; ++e) {
    const int at =
        cdna::result_strip::offset(static_cast<int>(row) + e, static_cast<int>(lane / 4));
    values[e] = load_local<float>(strip + static_cast<uint32_t>(at) + lane % 4 * 4);
  }
  return values;
}

// Stores a wave's M x 64 accumulators, whose first element is (row, col) of C, through its strip of
// R rows. The code behind fill_strip is long, so it stands in a loop rather than once per strip.
template <int R, int M>
HK_INLINE void store_accumulators(const gemm_arguments& p, const block& b,
                                  const rt<float, M, strip_cols>& d, int32_t row, int32_t col,
                                  uint32_t strip) {
  const int32_t lane = static_cast<int32_t>(lane_index());
  const bool along_row = p.vectors != 0;
  const int32_t lane_row = along_row ? lane / run : 0;
  const int32_t lane_col = col + (along_row ? lane % run * run : lane);
  const f32x8 bias = load_bias(p, b.entry, lane_col);
  const int64_t first_row = (int64_t{b.split} * p.batch + b.entry) * p.m;
#pragma clang loop unroll(disable)
  for (int32_t first = 0; first < M; first += R) {
#pragma unroll
    for (int strips = 0; strips < M / R; ++strips)
      if (first == strips * R) fill_strip<R>(d, strips * R, strip);
#pragma clang loop unroll(disable)
    for (int32_t r = 0; r < R; r += run) {
      const f32x8 values = read_strip(strip, static_cast<uint32_t>(r), along_row);
      const int32_t at = row + first + r + lane_row;
      if (at < p.m && lane_col < p.n)
        finish_run(p, {(first_row + at) * p.n + lane_col, p.n, p.m - at, along_row}, values, bias);
    }
  }
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
