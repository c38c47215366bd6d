// Where an element of a shared tile lies in LDS. Tiles hold 16-bit operands of matrix instructions,
// `depth` = 64 terms deep, in one of two orders, swizzled by an XOR so that neither the
// instructions that fill a tile nor those that read it meet on a bank. Plain C++; the unit tests
// prove it from the bank and phase tables.
#pragma once

#include "hk/arch/cdna/lane_map.h"

namespace hk::cdna {

inline constexpr int depth = 64;
inline constexpr int chunk_bytes = 16;  // what the XOR moves as a whole: 8 elements

// Terms adjacent: row r is 128 bytes, its 8 chunks permuted by an XOR with f(r).
struct term_major {
  static constexpr bool terms_adjacent = true;
  static constexpr int row_bytes = depth * 2;
  // Rows 0 to 7 permute differently, which serves the reads (16 rows, a chunk each). Bits 3 and 4
  // of the row serve the writes of gfx942, which write one row in 8 for several chunks.
  static constexpr int f(int row) { return (row & 7) ^ ((row >> 3 & 3) << 1); }
  // Byte offset of chunk c of a row.
  static constexpr int offset(int row, int c) {
    return row * row_bytes + ((c ^ f(row)) * chunk_bytes);
  }
  // The inverse: (row, first term) of the chunk at a byte offset.
  static constexpr place at(int byte) {
    const int row = byte / row_bytes, slot = byte % row_bytes / chunk_bytes;
    return {row, 8 * (slot ^ f(row))};
  }
};

// Rows adjacent, for transposing reads: term k is `Rows` elements, whose pairs of chunks (16 rows,
// what 16 lanes read of a term) are permuted by an XOR with f(k). The 32 lanes of a phase read the
// terms {0..3, 8..11} + 4 t of one pair.
template <int Rows>
struct row_major {
  static_assert(Rows == 64 || Rows == 128, "expected a tile of 64 or 128 rows");
  static constexpr bool terms_adjacent = false;
  static constexpr int term_bytes = Rows * 2;
  static constexpr int f(int k) {
    if (Rows == 64) return (k >> 1 & 1) | (k >> 3 & 1) << 1;
    return (k & 3) | (k >> 3 & 1) << 2;
  }
  // Byte offset of chunk c (rows 8 c to 8 c + 7) of a term.
  static constexpr int offset(int k, int c) {
    return k * term_bytes + ((c ^ f(k) << 1) * chunk_bytes);
  }
  // The inverse: (first row, term) of the chunk at a byte offset.
  static constexpr place at(int byte) {
    const int k = byte / term_bytes, slot = byte % term_bytes / chunk_bytes;
    return {8 * (slot ^ f(k) << 1), k};
  }
};

// The strip of an epilogue: rows of 64 floats, 16 chunks each, on their way from accumulators to
// rows of C. Written 16 rows at a time, one chunk each; read 8 lanes to a row, two chunks each, in
// two instructions, so that the upper chunks of a row are swapped pairwise for 32 banks.
struct result_strip {
  static constexpr int row_bytes = 64 * 4;
  static constexpr int offset(int row, int c) {
    return row * row_bytes + ((c ^ (c >> 3) ^ (row & 15)) * chunk_bytes);
  }
};

}  // namespace hk::cdna
