// Loads and stores on the host. A load into a shared tile also arranges it for the matrix
// instruction (shared_layouts.h), so that products read it in order.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

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

// Covers [0, size) with pieces of `step`: f(first, count). Whole pieces come with a constant count,
// so that f compiles to straight code for them.
template <int step, class F>
HK_INLINE void in_pieces(int size, F f) {
  int first = 0;
  for (; first + step <= size; first += step) f(first, step);
  if (first < size) f(first, size - first);
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

// The rows of one reduction group: `odd` is null where groups are single elements, and where the
// matrix ends before it.
template <class T>
struct group_of_rows {
  const T* even;
  const T* odd;
};

template <element U, class T>
HK_INLINE group_of_rows<std::remove_const_t<T>> rows_from(plane<T> src, coord at, int rows_left) {
  const T* even = src.row(at.row) + at.col;
  const bool pair = mma_group<U> == 2 && rows_left > 1;
  return {even, pair ? src.row(at.row + 1) + at.col : nullptr};
}

// `lanes` groups of operand type U as 32-bit lanes: group l is {even[c + l], odd[c + l]}, or the
// float even[c + l], for l < count; zero behind.
template <element U, element T>
HK_INLINE simd::f32 load_groups(group_of_rows<T> rows, int c, int count) {
  if (count <= 0) return simd::f32{};
  const simd::f32 even = simd::load_first(rows.even + c, count);
  if constexpr (mma_group<U> == 1) {
    return even;
  } else {
    static_assert(std::same_as<U, bf16> && std::same_as<T, bf16>, "pairs are pairs of bf16");
    using u32 = std::uint32_t __attribute__((vector_size(sizeof(simd::f32))));
    const simd::f32 odd = rows.odd ? simd::load_first(rows.odd + c, count) : simd::f32{};
    return (simd::f32)((u32)even >> 16 | (u32)odd);
  }
}

template <element U>
HK_INLINE void store_groups(U* dst, simd::f32 groups) {
  std::memcpy(dst, &groups, sizeof(groups));
}

// dst[0 .. count) = src, converted; then zeros up to the end of the last register.
template <element U, element T>
HK_INLINE void copy_row(U* dst, const T* src, int count) {
  in_pieces<simd::lanes * mma_group<U>>(count, [&](int c, int n) HK_LAMBDA_INLINE {
    store_groups(dst + c, load_groups<U>(src + c, n));
  });
}

// One reduction group of a grouped_rows tile; zeros up to the end of the last register.
template <element U, class T>
HK_INLINE void copy_group_of_rows(U* dst, group_of_rows<T> rows, int cols) {
  in_pieces<simd::lanes>(cols, [&](int c, int n) HK_LAMBDA_INLINE {
    store_groups(dst + c * mma_group<U>, load_groups<U>(rows, c, n));
  });
}

// One block of a row_panels tile: dst[k / group][j][k % group] = src[j][k] for `rows` rows and
// `cols` columns of at most a register of groups; the register's other rows are zero.
template <element U, class T>
HK_INLINE void transpose_block(U* dst, plane<T> src, coord at, int rows, int cols) {
  simd::f32 block[simd::lanes];
  for (int j = 0; j < simd::lanes; ++j)
    block[j] = j < rows ? load_groups<U>(src.row(at.row + j) + at.col, cols) : simd::f32{};
  simd::transpose(block);
  for (int i = 0; i < simd::lanes && i * mma_group<U> < cols; ++i)
    store_groups(dst + i * mma_panel * mma_group<U>, block[i]);
}

// One panel of a row_panels tile, from the `rows` rows and `cols` columns that exist; rows up to
// the panel's width are zero.
template <element U, class T>
HK_INLINE void load_row_panel(U* dst, plane<T> src, coord at, int rows, int cols) {
  constexpr int group = mma_group<U>;
  for (int j = 0; j < mma_panel; j += simd::lanes)
    in_pieces<simd::lanes * group>(cols, [&](int c, int n) HK_LAMBDA_INLINE {
      U* const to = dst + c * mma_panel + j * group;
      const coord from{at.row + j, at.col + c};
      if (rows - j >= simd::lanes)
        transpose_block<U>(to, src, from, simd::lanes, n);
      else
        transpose_block<U>(to, src, from, rows - j, n);
    });
}

// One reduction group of a col_panels tile, split into panels `stride` elements apart; columns up
// to the end of the last panel are zero.
template <element U, class T>
HK_INLINE void load_panel_rows(U* dst, int stride, group_of_rows<T> rows, int cols) {
  in_pieces<mma_panel>(cols, [&](int c, int n) HK_LAMBDA_INLINE {
    for (int j = 0; j < mma_panel; j += simd::lanes)
      store_groups(dst + c / mma_panel * stride + j * mma_group<U>,
                   load_groups<U>(rows, c + j, n - j));
  });
}

// One reduction group of a col_strips tile, split into strips `stride` elements apart. Whole
// registers are stored: what they hold beyond the strip falls on the next group's place, which is
// written later, or into the space between strips.
template <element U, class T>
HK_INLINE void load_strip_rows(U* dst, int stride, group_of_rows<T> rows, int cols) {
  constexpr int width = layout::round_up(mma_rows, simd::lanes);
  const auto load_strip = [&](int c, int n) HK_LAMBDA_INLINE {
    for (int i = 0; i < width; i += simd::lanes)
      store_groups(dst + c / mma_rows * stride + i * mma_group<U>,
                   load_groups<U>(rows, c + i, n - i));
  };
  int c = 0;
  for (; c + width <= cols; c += mma_rows) load_strip(c, width);
  for (; c < cols; c += mma_rows) load_strip(c, cols - c);
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

// The same from bytes, which are converted to the numbers that they are.
template <int R, int C>
HK_INLINE void load(rt<float, R, C>& tile, plane<const std::uint8_t> src, coord at) {
  tile.resize_rows(memory::inside(src.rows, at.row, R));
  const int cols = memory::inside(src.cols, at.col, C);
  for (int r = 0; r < tile.rows(); ++r) {
    const std::uint8_t* from = src.row(at.row + r) + at.col;
    float* to = tile.row(r);
    for (int c = 0; c < cols; ++c) to[c] = from[c];
    for (int c = cols; c < C; ++c) to[c] = 0.0f;
  }
}

// tile[r][c] += src[at.row + r][at.col + c], for the rows in use and the elements that exist.
template <int R, int C, class T>
HK_INLINE void accumulate(rt<float, R, C>& tile, plane<T> src, coord at) {
  const int rows = memory::inside(src.rows, at.row, tile.rows());
  const int cols = memory::inside(src.cols, at.col, C);
  for (int r = 0; r < rows; ++r) {
    const auto* row = src.row(at.row + r) + at.col;
    for (int c = 0; c < cols; c += simd::lanes) {
      const fragment_at to{r, c / simd::lanes};
      tile.set(to, tile.get(to) + simd::load_first(row + c, cols - c));
    }
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

// Asks for rows [at.row, at.row + rows) of src from column at.col on, as far as they exist, to be
// brought near for a load that is to come. Changes nothing that a program can observe.
template <class T>
HK_INLINE void prefetch(plane<T> src, coord at, int rows) {
  constexpr int line = 64 / sizeof(T);
  const int count = memory::inside(src.rows, at.row, rows);
  for (int r = 0; r < count; ++r) {
    const T* row = src.row(at.row + r);
    for (std::int64_t c = at.col; c < src.cols; c += line) __builtin_prefetch(row + c, 0, 2);
  }
}

// The same for the N elements at p, which may lie outside of any array.
template <int N, element T>
HK_INLINE void prefetch(const T* p) {
  constexpr int line = 64 / sizeof(T);
  for (int j = 0; j < N; j += line) __builtin_prefetch(p + j, 0, 3);
}

// --- register -> global --------------------------------------------------------------------------

// dst[at.row + r][at.col + c] = tile[r][c], for the rows in use that exist.
template <element U, int R, int C, element T>
HK_INLINE void store(plane<T> dst, const rt<U, R, C>& tile, coord at) {
  const int rows = memory::inside(dst.rows, at.row, tile.rows());
  const int cols = memory::inside(dst.cols, at.col, C);
  for (int r = 0; r < rows; ++r)
    memory::in_pieces<simd::lanes>(cols, [&](int c, int n) HK_LAMBDA_INLINE {
      simd::store_first(dst.row(at.row + r) + at.col + c, tile.get({r, c / simd::lanes}), n);
    });
}

// p[j] = v[j] for j < count.
template <int N, element T>
HK_INLINE void store(T* p, const rv<float, N>& v, std::int64_t count) {
  constexpr int pairs = rv<float, N>::fragments / 2;
  const int end = memory::inside(count, 0, N);
  const auto store_fragment = [&](int i) HK_LAMBDA_INLINE {
    const int left = memory::inside(end, i * simd::lanes, simd::lanes);
    if (left > 0) simd::store_first(p + i * simd::lanes, v.get(i), left);
  };
  for (int i = 0; i < 2 * pairs; i += 2) {
    if (end >= (i + 2) * simd::lanes) {
      simd::store(p + i * simd::lanes, v.get(i), v.get(i + 1));
    } else {
      store_fragment(i);
      store_fragment(i + 1);
    }
  }
  if constexpr (rv<float, N>::fragments % 2 != 0) store_fragment(2 * pairs);
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
  for (int r = 0; r < tile.rows(); r += mma_group<U>)
    memory::copy_group_of_rows<U>(tile.data + tile.offset(r, 0),
                                  memory::rows_from<U>(src, {at.row + r, at.col}, tile.rows() - r),
                                  tile.cols());
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
  for (int r = 0; r < tile.rows(); r += mma_group<U>)
    memory::load_panel_rows<U>(tile.data + tile.offset(r, 0), layout::col_panels::stride<U>(R, C),
                               memory::rows_from<U>(src, {at.row + r, at.col}, tile.rows() - r),
                               tile.cols());
}

template <element U, int R, int C, class T>
HK_INLINE void load(st<U, R, C, layout::col_strips>& tile, plane<T> src, coord at) {
  tile.resize(memory::inside(src.rows, at.row, R), memory::inside(src.cols, at.col, C));
  for (int r = 0; r < tile.rows(); r += mma_group<U>)
    memory::load_strip_rows<U>(tile.data + tile.offset(r, 0), layout::col_strips::stride<U>(R, C),
                               memory::rows_from<U>(src, {at.row + r, at.col}, tile.rows() - r),
                               tile.cols());
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
  const plane<const U> from{src.data, src.rows(), C, C};
  for (int r = 0; r < src.rows(); r += mma_group<U>)
    memory::copy_group_of_rows<U>(tile.data + tile.offset(r, 0),
                                  memory::rows_from<U>(from, {r, 0}, src.rows() - r), C);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
