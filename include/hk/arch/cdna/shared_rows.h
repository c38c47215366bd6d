// Shared tiles on CDNA: 16-bit operands in LDS, R rows x 64 terms, in the orders of swizzle.h, and
// their loads to registers. A shared tile is an LDS address; its size and order are in the types
// that fill and read it. Device code only.
#pragma once

#include "hk/arch/cdna/swizzle.h"
#include "hk/types/register_tile.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// Where a wave reads its rows of a shared tile, from row `first` on: what a lane's addresses have
// in common, so that each read is an address register and a constant.
template <class Order>
struct shared_rows;

template <>
struct shared_rows<cdna::term_major> {
  uint32_t even;  // address of fragment 0, first half; fragment i is 16 rows on, where f differs
                  // in bit 2 if i is odd, as the second half's chunks differ in bit 2

  HK_INLINE shared_rows(uint32_t tile, uint32_t first) {
    const uint32_t lane = lane_index(), row = first + lane % 16;
    even = tile + cdna::term_major::offset(static_cast<int>(row), static_cast<int>(lane / 16));
  }

  // Fragment i of 16 rows, terms 32 half to 32 half + 31.
  HK_INLINE u32x4 read(int i, int half, uint32_t offset) const {
    const uint32_t from = (i & 1) == half ? even : even ^ 64u;
    return load_local<u32x4>(from + offset + i * 16 * cdna::term_major::row_bytes);
  }
};

#if defined(__gfx950__)
template <int Rows>
struct shared_rows<cdna::row_major<Rows>> {
  using order = cdna::row_major<Rows>;
  static constexpr int pairs = Rows / 16;
  uint32_t term;   // address of the lane's term, 8 (lane / 16) + its place's, in pair 0
  uint32_t flips;  // 32 f(term)
  uint32_t first;  // 32 times the first pair

  HK_INLINE shared_rows(uint32_t tile, uint32_t first_row) {
    const uint32_t lane = lane_index();
    const cdna::place at = cdna::transposing_read_place(static_cast<int>(lane));
    const uint32_t k = 8 * (lane / 16) + static_cast<uint32_t>(at.row);
    term = tile + k * order::term_bytes + 2 * static_cast<uint32_t>(at.col);
    flips = 32 * static_cast<uint32_t>(order::f(static_cast<int>(k)));
    first = first_row * 2;
  }

  HK_INLINE u32x4 read(int i, int half, uint32_t offset) const {
    const uint32_t from = term + ((first + 32 * i) ^ flips) + offset;
    const i16x4 lower = load_local_transposed(from + 32 * half * order::term_bytes);
    const i16x4 upper = load_local_transposed(from + (32 * half + 4) * order::term_bytes);
    return __builtin_bit_cast(u32x4, __builtin_shufflevector(lower, upper, 0, 1, 2, 3, 4, 5, 6, 7));
  }
};
#endif

// a = the rows of `from`, in the tile `offset` bytes on; terms 32 half to 32 half + K - 1.
template <element T, int R, int K, class Order>
HK_INLINE void load(rt<T, R, K>& a, const shared_rows<Order>& from, uint32_t offset, int half = 0) {
#pragma unroll
  for (int k = 0; k < K / 32; ++k)
#pragma unroll
    for (int i = 0; i < R / 16; ++i) a.part[i][k] = from.read(i, half + k, offset);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
