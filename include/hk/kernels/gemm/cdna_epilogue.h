// From accumulators to rows of C: bias, pre-activation, activation, stores of 16 bytes.
//
// A wave's accumulators go through LDS, a strip of rows of 64 columns at a time, so that each lane
// gets 8 adjacent columns of a row: 8 lanes hold a row, 64 lanes 8 rows.
//
//   accumulators: lane = row, 4 columns     strip in LDS          lane = 8 columns of a row
//   [16 rows x 64 columns] x R / 16   --->  R rows x 256 bytes --->  8 rows at a time, R / 8 times
//
// The strip is the wave's own, so no barrier is needed between its parts, only one before the
// first, when other waves may still read operands there.
#pragma once

#include "hk/kernels/gemm/activation.h"
#include "hk/kernels/gemm/cdna_block.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

inline constexpr int strip_cols = 64;
inline constexpr int run = 8;  // adjacent columns of a lane

// Where results go. `count` of the run's columns exist.
template <class V>
HK_INLINE void store_run(uint64_t address, V values, bool vectors, int count) {
  using scalar = decltype(values.x + values.x);
  using T = std::conditional_t<sizeof(V) == 32, float, scalar>;
  if (vectors && count >= run) {
    store_global(address, values);
    return;
  }
#pragma unroll
  for (int e = 0; e < run; ++e) {
    const T value = values[e];
    if (e < count) store_global<T>(address + sizeof(T) * e, value);
  }
}

HK_INLINE void store_results(uint64_t matrices, dtype type, int64_t element, f32x8 values,
                             bool vectors, int count) {
  if (type == dtype::f32) {
    store_run(matrices + static_cast<uint64_t>(4 * element), values, vectors, count);
  } else if (type == dtype::bf16) {
    store_run(matrices + static_cast<uint64_t>(2 * element),
              __builtin_convertvector(values, bf16x8), vectors, count);
  } else {
    store_run(matrices + static_cast<uint64_t>(2 * element), __builtin_convertvector(values, f16x8),
              vectors, count);
  }
}

template <element T>
HK_INLINE f32x8 load_run_of(uint64_t row, int32_t col, int count) {
  f32x8 values = 0.0f;
#pragma unroll
  for (int e = 0; e < run; ++e)
    if (e < count) {
      using bits = std::conditional_t<sizeof(T) == 4, float, uint16_t>;
      const bits loaded = load_global<bits>(row + sizeof(T) * static_cast<uint32_t>(col + e));
      values[e] = to_float(__builtin_bit_cast(T, loaded));
    }
  return values;
}

// The run of a bias that belongs to columns col .. col + count of an entry.
HK_INLINE f32x8 load_bias(uint64_t bias, dtype type, int64_t entry_stride, int32_t entry,
                          int32_t col, int count) {
  if (bias == 0) return f32x8{0, 0, 0, 0, 0, 0, 0, 0};
  const uint64_t row = bias + static_cast<uint64_t>(entry_stride * entry);
  if (type == dtype::f32) return load_run_of<float>(row, col, count);
  if (type == dtype::bf16) return load_run_of<bf16>(row, col, count);
  return load_run_of<f16>(row, col, count);
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

// z = values + bias, c = activation(z), for a run that starts at `element` of [B, M, N].
template <class Arguments>
HK_INLINE void finish_run(const Arguments& p, int64_t element, f32x8 values, f32x8 bias,
                          int count) {
  values += bias;
  if (p.z) store_results(p.z, static_cast<dtype>(p.z_type), element, values, p.z_vectors, count);
  values = activate(values, static_cast<activation>(p.act));
  store_results(p.c, static_cast<dtype>(p.c_type), element, values, p.c_vectors, count);
}

// Rows [first, first + R) of a wave's accumulators into its strip.
template <int R, int M>
HK_INLINE void fill_strip(const acc<M, strip_cols>& d, int first, uint32_t strip) {
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

HK_INLINE f32x8 read_strip(uint32_t strip, uint32_t row, uint32_t chunk) {
  const int r = static_cast<int>(row), c = static_cast<int>(chunk);
  const f32x4 low = load_local<f32x4>(strip + cdna::result_strip::offset(r, c));
  const f32x4 high = load_local<f32x4>(strip + cdna::result_strip::offset(r, c + 1));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}

// Stores a wave's M x 64 accumulators, whose first element is (row, col) of C, through its strip of
// R rows.
template <int R, int M>
HK_INLINE void store_accumulators(const gemm_arguments& p, const block& b,
                                  const acc<M, strip_cols>& d, int32_t row, int32_t col,
                                  uint32_t strip) {
  const uint32_t lane = lane_index();
  const int32_t lane_row = static_cast<int32_t>(lane / run);
  const int32_t lane_col = col + static_cast<int32_t>(lane % run * run);
  const int count = p.n - lane_col;
  const f32x8 bias = load_bias(p.bias, static_cast<dtype>(p.bias_type), p.bias_entry_stride,
                               b.entry, lane_col, count);
  const int64_t entry = int64_t{b.split} * p.batch + b.entry;
#pragma unroll
  for (int first = 0; first < M; first += R) {
    fill_strip<R>(d, first, strip);
#pragma clang loop unroll(disable)
    for (int32_t r = lane_row; r < R; r += run) {
      const f32x8 values = read_strip(strip, static_cast<uint32_t>(r), lane % run * 2);
      const int32_t at = row + first + r;
      if (at < p.m && count > 0)
        finish_run(p, (entry * p.m + at) * p.n + lane_col, values, bias, count);
    }
  }
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
