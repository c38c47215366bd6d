// Loads and stores on the host. A load into a shared tile also arranges it for the matrix
// instruction (shared_layouts.h), so that products read it in order.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>

#include "hk/arch/host/register_tile.h"
#include "hk/arch/host/register_vector.h"
#include "hk/arch/host/shared_layouts.h"
#include "hk/types/global_layout.h"
#include "hk/types/shared_tile.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace memory {

// How many of `extent` elements from `first` on lie inside `limit`: between 0 and extent.
HK_INLINE int inside(std::int64_t limit, std::int64_t first, int extent) {
  const std::int64_t left = limit - first;
  return left <= 0 ? 0 : left < extent ? static_cast<int>(left) : extent;
}

// `lanes` groups of operand type U from the `count` elements at p, as 32-bit lanes: floats, or
// pairs of bf16 as they are. Elements behind `count` are zero.
template <element U, element T>
HK_INLINE simd::f32 load_groups(const T* p, int count) {
  if constexpr (std::same_as<U, float>) {
    return simd::load_first(p, count);
  } else {
    static_assert(std::same_as<U, T>, "16-bit operands are loaded without conversion");
    simd::f32 groups{};
    constexpr int all = simd::lanes * mma_group<U>;
    std::memcpy(&groups, p, (count < all ? count : all) * sizeof(T));
    return groups;
  }
}

// dst[0 .. count) = src, converted; then zeros up to the end of the last register.
template <element U, element T>
HK_INLINE void copy_row(U* dst, const T* src, int count) {
  constexpr int step = simd::lanes * mma_group<U>;
  int c = 0;
  for (; c < count; c += step) {
    const simd::f32 groups = load_groups<U>(src + c, count - c);
    std::memcpy(dst + c, &groups, sizeof(groups));
  }
}

// dst[c * 2 + {0, 1}] = {even[c], odd[c]} for c < count: a row of groups of two.
template <element U>
HK_INLINE void interleave(U* HK_RESTRICT dst, const U* even, const U* odd, int count) {
  for (int c = 0; c < count; ++c) {
    dst[2 * c] = even[c];
    dst[2 * c + 1] = odd ? odd[c] : U{};
  }
}

// One reduction group of a col_strips tile from the same group in row order: strips of mma_rows
// groups, `stride` elements apart.
template <element U>
HK_INLINE void split_into_strips(U* HK_RESTRICT dst, int stride, const U* HK_RESTRICT src,
                                 int cols) {
  constexpr int width = mma_rows * mma_group<U>;
  for (int c = 0; c < cols; c += mma_rows, dst += stride, src += width)
    std::memcpy(dst, src, width * sizeof(U));
}

// One panel of a row_panels tile: dst[k / group][j][k % group] = src[j][k] for the `rows` rows and
// `cols` columns that exist; rows up to the panel's width are zero. A transposition of 32-bit
// groups in blocks of lanes x lanes.
template <element U, class T>
HK_INLINE void load_row_panel(U* dst, plane<T> src, coord at, int rows, int cols) {
  constexpr int group = mma_group<U>;
  for (int j = 0; j < mma_panel; j += simd::lanes)
    for (int c = 0; c < cols; c += simd::lanes * group) {
      simd::f32 block[simd::lanes];
      for (int i = 0; i < simd::lanes; ++i)
        block[i] = j + i < rows ? load_groups<U>(src.row(at.row + j + i) + at.col + c, cols - c)
                                : simd::f32{};
      simd::transpose(block);
      for (int i = 0; i < simd::lanes && c + i * group < cols; ++i)
        std::memcpy(dst + (c + i * group) * mma_panel + j * group, &block[i], sizeof(block[i]));
    }
}

// One reduction group of a col_panels tile: rows r .. r + group of src, split into panels `stride`
// elements apart; columns up to the end of the last panel are zero.
template <element U, class T>
HK_INLINE void load_group_of_rows(U* dst, int stride, const T* even, const T* odd, int cols) {
  if constexpr (mma_group<U> == 1) {
    for (int c = 0; c < cols; c += mma_panel)
      for (int j = 0; j < mma_panel; j += simd::lanes) {
        const int left = cols - c - j;
        const simd::f32 x = left > 0 ? simd::load_first(even + c + j, left) : simd::f32{};
        simd::store(dst + c / mma_panel * stride + j, x);
      }
  } else {
    for (int c = 0; c < cols; c += mma_panel) {
      U* panel = dst + c / mma_panel * stride;
      const int count = cols - c < mma_panel ? cols - c : mma_panel;
      interleave<U>(panel, even + c, odd ? odd + c : nullptr, count);
      for (int j = 2 * count; j < 2 * mma_panel; ++j) panel[j] = U{};
    }
  }
}

}  // namespace memory

// --- global -> register --------------------------------------------------------------------------

// tile[r][c] = src[at.row + r][at.col + c]; the tile's rows in use become those that exist.
template <int R, int C, class T>
HK_INLINE void load(rt<float, R, C>& tile, plane<T> src, coord at) {
  tile.resize_rows(memory::inside(src.rows, at.row, R));
  const int cols = memory::inside(src.cols, at.col, C);
  for (int r = 0; r < tile.rows(); ++r)
    for (int i = 0; i < rt<float, R, C>::row_fragments; ++i) {
      const int left = cols - i * simd::lanes;
      const auto* p = src.row(at.row + r) + at.col + i * simd::lanes;
      tile.set({r, i}, left > 0 ? simd::load_first(p, left) : simd::f32{});
    }
}

// v[j] = p[j] for j < count, and 0 behind.
template <int N, element T>
HK_INLINE void load(rv<float, N>& v, const T* p, std::int64_t count) {
  const int end = memory::inside(count, 0, N);
  for (int i = 0; i < rv<float, N>::fragments; ++i) {
    const int left = memory::inside(end, i * simd::lanes, simd::lanes);
    v.set(i, left > 0 ? simd::load_first(p + i * simd::lanes, left) : simd::f32{});
  }
}

// --- register -> global --------------------------------------------------------------------------

// dst[at.row + r][at.col + c] = tile[r][c], for the rows in use that exist.
template <element U, int R, int C, element T>
HK_INLINE void store(plane<T> dst, const rt<U, R, C>& tile, coord at) {
  const int rows = memory::inside(dst.rows, at.row, tile.rows());
  const int cols = memory::inside(dst.cols, at.col, C);
  for (int r = 0; r < rows; ++r)
    for (int i = 0; i * simd::lanes < cols; ++i)
      simd::store_first(dst.row(at.row + r) + at.col + i * simd::lanes, tile.get({r, i}),
                        cols - i * simd::lanes);
}

// p[j] = v[j] for j < count.
template <int N, element T>
HK_INLINE void store(T* p, const rv<float, N>& v, std::int64_t count) {
  const int end = memory::inside(count, 0, N);
  for (int i = 0; i < rv<float, N>::fragments; ++i) {
    const int left = memory::inside(end, i * simd::lanes, simd::lanes);
    if (left > 0) simd::store_first(p + i * simd::lanes, v.get(i), left);
  }
}

// --- global -> shared ----------------------------------------------------------------------------

// tile[r][c] = src[at.row + r][at.col + c]. The tile's size in use becomes what exists; what is
// read beyond it, up to a whole panel or group, is zero.
template <element U, int R, int C, class T>
HK_INLINE void load(st<U, R, C, layout::rows>& tile, plane<T> src, coord at) {
  tile.resize(memory::inside(src.rows, at.row, R), memory::inside(src.cols, at.col, C));
  for (int r = 0; r < tile.rows(); ++r)
    memory::copy_row<U>(tile.data + tile.offset(r, 0), src.row(at.row + r) + at.col, tile.cols());
}

template <element U, int R, int C, class T>
HK_INLINE void load(st<U, R, C, layout::grouped_rows>& tile, plane<T> src, coord at) {
  tile.resize(memory::inside(src.rows, at.row, R), memory::inside(src.cols, at.col, C));
  constexpr int group = mma_group<U>;
  for (int r = 0; r < tile.rows(); r += group) {
    const auto* even = src.row(at.row + r) + at.col;
    U* dst = tile.data + tile.offset(r, 0);
    if constexpr (group == 1)
      memory::copy_row<U>(dst, even, tile.cols());
    else
      memory::interleave<U>(dst, even, r + 1 < tile.rows() ? even + src.row_stride : nullptr,
                            tile.cols());
  }
}

template <element U, int R, int C, class T>
HK_INLINE void load(st<U, R, C, layout::row_panels>& tile, plane<T> src, coord at) {
  tile.resize(memory::inside(src.rows, at.row, R), memory::inside(src.cols, at.col, C));
  for (int r = 0; r < tile.rows(); r += mma_panel)
    memory::load_row_panel<U>(tile.data + tile.offset(r, 0), src, {at.row + r, at.col},
                              tile.rows() - r, tile.cols());
}

template <element U, int R, int C, class T>
HK_INLINE void load(st<U, R, C, layout::col_panels>& tile, plane<T> src, coord at) {
  tile.resize(memory::inside(src.rows, at.row, R), memory::inside(src.cols, at.col, C));
  constexpr int group = mma_group<U>;
  for (int r = 0; r < tile.rows(); r += group) {
    const auto* even = src.row(at.row + r) + at.col;
    const auto* odd = group > 1 && r + 1 < tile.rows() ? even + src.row_stride : nullptr;
    memory::load_group_of_rows<U>(tile.data + tile.offset(r, 0),
                                  layout::col_panels::stride<U>(R, C), even, odd, tile.cols());
  }
}

template <element U, int R, int C, class T>
HK_INLINE void load(st<U, R, C, layout::col_strips>& tile, plane<T> src, coord at) {
  tile.resize(memory::inside(src.rows, at.row, R), memory::inside(src.cols, at.col, C));
  constexpr int group = mma_group<U>;
  constexpr int stride = layout::col_strips::stride<U>(R, C);
  alignas(64) U groups[layout::round_up(C, mma_rows * simd::lanes) * group];
  for (int r = 0; r < tile.rows(); r += group) {
    const auto* even = src.row(at.row + r) + at.col;
    if constexpr (group == 1)
      memory::copy_row<U>(groups, even, tile.cols());
    else
      memory::interleave<U>(groups, even, r + 1 < tile.rows() ? even + src.row_stride : nullptr,
                            tile.cols());
    memory::split_into_strips<U>(tile.data + tile.offset(r, 0), stride, groups, tile.cols());
  }
}

// --- register -> shared --------------------------------------------------------------------------

// tile[r][c] = src[r][c], for the rows in use.
template <element U, int R, int C>
HK_INLINE void store(st<U, R, C, layout::rows>& tile, const rt<float, R, C>& src) {
  tile.resize(src.rows(), C);
  for (int r = 0; r < src.rows(); ++r)
    for (int i = 0; i < rt<float, R, C>::row_fragments; ++i)
      simd::store(tile.data + tile.offset(r, i * simd::lanes), src.get({r, i}));
}

template <element U, int R, int C>
HK_INLINE void store(st<U, R, C, layout::grouped_rows>& tile, const rt<U, R, C>& src) {
  tile.resize(src.rows(), C);
  constexpr int group = mma_group<U>;
  for (int r = 0; r < src.rows(); r += group) {
    U* dst = tile.data + tile.offset(r, 0);
    if constexpr (group == 1)
      memory::copy_row<U>(dst, src.row(r), C);
    else
      memory::interleave<U>(dst, src.row(r), r + 1 < src.rows() ? src.row(r + 1) : nullptr, C);
  }
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
