// Register tiles and shared tiles of matrix products on CDNA, and the products. Device code only.
//
//   acc<M, N>       an accumulator: M x N floats of C over the lanes of a wave
//   rows_of<T, R>   an operand in registers: R rows x 32 terms
//   term_major, row_major<R>   orders of a shared tile in LDS (swizzle.h), of 64 terms
#pragma once

#include "hk/arch/cdna/instructions.h"
#include "hk/arch/cdna/lane_map.h"
#include "hk/arch/cdna/swizzle.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// Element (16 i + accumulator_place.row, 16 j + accumulator_place.col) is part[i][j][register].
template <int M, int N>
struct acc {
  static_assert(M % 16 == 0 && N % 16 == 0, "an accumulator is made of 16 x 16 fragments");
  static constexpr int row_fragments = M / 16;
  static constexpr int col_fragments = N / 16;
  f32x4 part[row_fragments][col_fragments];
};

template <int M, int N>
HK_INLINE void zero(acc<M, N>& d) {
#pragma unroll
  for (int i = 0; i < d.row_fragments; ++i)
#pragma unroll
    for (int j = 0; j < d.col_fragments; ++j) d.part[i][j] = f32x4{0, 0, 0, 0};
}

// The compiler moves no work on fragments (i, j) to (i + rows, j + cols) of d across. Products
// touch no memory, so neither barriers nor fences of memory hold them in their place.
template <int i, int j, int rows, int cols, int M, int N>
HK_INLINE void pin(acc<M, N>& d) {
#pragma unroll
  for (int r = 0; r < rows; ++r)
#pragma unroll
    for (int c = 0; c < cols; ++c) asm volatile("" : "+v"(d.part[i + r][j + c]));
}

template <element T, int R>
struct rows_of {
  static_assert(R % 16 == 0, "an operand is made of fragments of 16 rows");
  static constexpr int fragments = R / 16;
  u32x4 part[fragments];
};

// d += a b^T over 32 terms, where a and b are the rows and columns of d from 16 i0 and 16 j0 on.
template <int i0 = 0, int j0 = 0, element T, int M, int N, int RA, int RB>
HK_INLINE void mma_ABt(acc<M, N>& d, const rows_of<T, RA>& a, const rows_of<T, RB>& b) {
  static_assert(16 * i0 + RA <= M && 16 * j0 + RB <= N, "the product lies inside of d");
#pragma unroll
  for (int i = 0; i < a.fragments; ++i)
#pragma unroll
    for (int j = 0; j < b.fragments; ++j) {
      f32x4& part = d.part[i0 + i][j0 + j];
      part = multiply_add(T{}, b.part[j], a.part[i], part);
    }
}

// Reads operands of 16 R rows, from row `first` of a tile on, terms 32 half to 32 half + 31. A
// reader holds what a lane's addresses have in common, so that each read is an address register
// and a constant.
template <class Order>
struct reader;

template <>
struct reader<cdna::term_major> {
  uint32_t even;  // address of fragment 0, first half; fragment i is 16 rows on, where f differs
                  // in bit 2 if i is odd, as the second half's chunks differ in bit 2

  HK_INLINE reader(uint32_t tile, uint32_t first) {
    const uint32_t lane = lane_index(), row = first + lane % 16;
    even = tile + cdna::term_major::offset(static_cast<int>(row), static_cast<int>(lane / 16));
  }

  template <element T, int R>
  HK_INLINE void read(rows_of<T, R>& a, int half, uint32_t offset) const {
#pragma unroll
    for (int i = 0; i < a.fragments; ++i) {
      const uint32_t from = (i & 1) == half ? even : even ^ 64u;
      a.part[i] = load_local<u32x4>(from + offset + i * 16 * cdna::term_major::row_bytes);
    }
  }
};

#if defined(__gfx950__)
template <int Rows>
struct reader<cdna::row_major<Rows>> {
  using order = cdna::row_major<Rows>;
  static constexpr int pairs = Rows / 16;
  uint32_t term;   // address of the lane's term, 8 (lane / 16) + its place's, in pair 0
  uint32_t flips;  // 32 f(term)
  uint32_t first;  // 32 times the first pair

  HK_INLINE reader(uint32_t tile, uint32_t first_row) {
    const uint32_t lane = lane_index();
    const cdna::place at = cdna::transposing_read_place(static_cast<int>(lane));
    const uint32_t k = 8 * (lane / 16) + static_cast<uint32_t>(at.row);
    term = tile + k * order::term_bytes + 2 * static_cast<uint32_t>(at.col);
    flips = 32 * static_cast<uint32_t>(order::f(static_cast<int>(k)));
    first = first_row * 2;
  }

  template <element T, int R>
  HK_INLINE void read(rows_of<T, R>& a, int half, uint32_t offset) const {
#pragma unroll
    for (int i = 0; i < a.fragments; ++i) {
      const uint32_t from = term + ((first + 32 * i) ^ flips);
      const uint32_t at = offset + 32 * half * order::term_bytes;
      const i16x4 lower = load_local_transposed(from + at);
      const i16x4 upper = load_local_transposed(from + at + 4 * order::term_bytes);
      a.part[i] =
          __builtin_bit_cast(u32x4, __builtin_shufflevector(lower, upper, 0, 1, 2, 3, 4, 5, 6, 7));
    }
  }
};
#endif

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
