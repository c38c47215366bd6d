// Which lane holds which element: of the operands and the result of the matrix instructions, and of
// the transposing LDS read. Plain C++; the unit tests multiply by these maps.
//
// A fragment of 16-bit operands is 16 rows x 32 terms, 8 adjacent terms to a lane, for A and B
// alike: A is [i, k], B is [j, k]. On gfx950 one instruction multiplies two fragments. gfx942's
// takes 16 terms, 4 to a lane: its two instructions take the lower and the upper half of each
// lane's 8. The terms that meet are then 8 (lane / 16) + 4 half + e rather than the instruction's
// own order, which is as right, because A and B are permuted alike.
#pragma once

#include "hk/arch/cdna/chip.h"

namespace hk::cdna {

inline constexpr int fragment_rows = 16;
inline constexpr int fragment_terms = 32;
inline constexpr int fragment_elements = 8;  // of a lane

struct place {
  int row;
  int col;
  friend constexpr bool operator==(place, place) = default;
};

// (lane, element) -> (row, term) of an operand fragment.
constexpr place operand_place(int lane, int element) {
  return {lane % 16, 8 * (lane / 16) + element};
}

// (lane, element) -> (row, term) as the instruction of `terms` terms itself counts them.
constexpr place instruction_operand_place(int terms, int lane, int element) {
  return {lane % 16, terms / 4 * (lane / 16) + element};
}

// (lane, register) -> (i, j) of the 16 x 16 result D[i][j] = sum over k of A[i][k] B[j][k].
constexpr place result_place(int lane, int reg) { return {4 * (lane / 16) + reg, lane % 16}; }

// The accumulators hold the transpose: B is given as the instruction's A, so that the four
// registers of a lane are adjacent columns of C. (lane, register) -> (row, column) of C.
constexpr place accumulator_place(int lane, int reg) {
  const place transposed = result_place(lane, reg);
  return {transposed.col, transposed.row};
}

// The transposing read of 16-bit elements: 16 lanes read a matrix of 4 terms x 16 rows, a term's
// rows adjacent in memory, and each gets the four terms of one row. Result element n of a lane
// comes from what lane `lane` of the same 16 has read, element `element`.
struct transposed_source {
  int lane;
  int element;
};
constexpr transposed_source transposing_read_source(int lane, int n) {
  return {lane / 16 * 16 + lane / 4 % 4 + 4 * n, lane % 4};
}

// What a lane has to read for that: (term, first of four rows), within its 4 x 16 matrix.
constexpr place transposing_read_place(int lane) { return {lane % 16 / 4, 4 * (lane % 4)}; }

}  // namespace hk::cdna
