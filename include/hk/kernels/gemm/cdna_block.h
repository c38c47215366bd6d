// What a workgroup computes of a product: its tile of C, its batch entry, its part of K.
#pragma once

#include "hk/arch/cdna/remap.h"
#include "hk/arch/cdna/schedule.h"
#include "hk/arch/cdna/shared_rows.h"
#include "hk/kernels/gemm/device_arguments.h"
#include "hk/kernels/gemm/problem.h"
#include "hk/ops/maps.h"
#include "hk/ops/mma.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

struct block {
  int32_t row;  // of C, of the tile's first element
  int32_t col;
  int32_t entry;  // of the batch
  int32_t split;  // part of K
  int32_t first_term;
  int32_t terms;
};

// The workgroup's number, or a number behind the last one where the grid is larger than the work.
HK_INLINE uint32_t group_number(int32_t grid_width) {
  return group_x() + group_y() * static_cast<uint32_t>(grid_width);
}

HK_INLINE uint32_t tiles_of(const gemm_arguments& p) {
  return static_cast<uint32_t>(p.row_tiles) * static_cast<uint32_t>(p.col_tiles);
}

HK_INLINE uint32_t blocks_of(const gemm_arguments& p) {
  return tiles_of(p) * static_cast<uint32_t>(p.splits) * static_cast<uint32_t>(p.batch);
}

// Block `number` of a product whose tiles are rows x cols. Tiles vary fastest, then parts of K,
// then batch entries.
HK_INLINE block block_at(const gemm_arguments& p, uint32_t number, int rows, int cols) {
  const uint32_t order =
      cdna::remap_to_chiplet(number, blocks_of(p), static_cast<uint32_t>(p.chunk_log2));
  const uint32_t layer = uniform(order / tiles_of(p));
  const cdna::tile_place tile =
      cdna::grouped_tile(order - layer * tiles_of(p), static_cast<uint32_t>(p.row_tiles),
                         static_cast<uint32_t>(p.col_tiles), static_cast<uint32_t>(p.group));
  block b;
  b.row = static_cast<int32_t>(uniform(tile.row)) * rows;
  b.col = static_cast<int32_t>(uniform(tile.col)) * cols;
  b.entry = static_cast<int32_t>(uniform(layer / static_cast<uint32_t>(p.splits)));
  b.split = static_cast<int32_t>(layer) - b.entry * p.splits;
  b.first_term = b.split * p.split_terms;
  b.terms = p.k - b.first_term < p.split_terms ? p.k - b.first_term : p.split_terms;
  return b;
}

// One operand of a block as rows x terms, however it is stored: A's rows are those of C, B's its
// columns.
struct operand_view {
  uint64_t base;   // of the block's first row and term
  uint64_t end;    // of the batch entry's matrix
  int64_t stride;  // bytes between stored rows: between rows, or, if rows are adjacent, terms
  int32_t rows;    // that exist, from the block's first on
};

template <bool terms_adjacent>
HK_INLINE operand_view view_operand(uint64_t matrices, int64_t entry_stride, int32_t entry,
                                    int32_t rows, int32_t terms, int32_t first_row,
                                    int32_t first_term) {
  const uint64_t matrix = matrices + static_cast<uint64_t>(entry_stride * entry);
  const uint64_t end = matrix + static_cast<uint64_t>(int64_t{rows} * terms * 2);
  const int64_t stride = 2 * int64_t{terms_adjacent ? terms : rows};
  const int64_t from = terms_adjacent ? first_row * stride + 2 * int64_t{first_term}
                                      : first_term * stride + 2 * int64_t{first_row};
  return {matrix + static_cast<uint64_t>(from), end, stride, rows - first_row};
}

template <bool trans_a>
HK_INLINE operand_view view_a(const gemm_arguments& p, const block& b) {
  return view_operand<!trans_a>(p.a, p.a_entry_stride, b.entry, p.m, p.k, b.row, b.first_term);
}
template <bool trans_b>
HK_INLINE operand_view view_b(const gemm_arguments& p, const block& b) {
  return view_operand<trans_b>(p.b, p.b_entry_stride, b.entry, p.n, p.k, b.col, b.first_term);
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
