// Shared-tile layouts of the host: the orders in which the matrix instruction (mma.h) reads.
//
// The instruction multiplies rows of A by panels of B: `panel` consecutive columns of the product.
// Along the reduction it takes `group` elements at a time: one float, or the two bf16 of a dot
// product. Elements of a group are adjacent in every layout.
#pragma once

#include "hk/arch/host/simd.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// Reduction elements per multiply-add.
template <element T>
inline constexpr int mma_group = sizeof(T) == 2 ? 2 : 1;

// Columns of one panel: the accumulator is mma_rows x mma_panel, and with one row of B and one
// broadcast element of A it fills the register file (16 registers on AVX2 and x86-64, else 32).
#if defined(HK_HOST_ISA_AVX512_BF16) || defined(HK_HOST_ISA_AVX512)
inline constexpr int mma_rows = 14;
inline constexpr int mma_panel = 2 * simd::lanes;
#elif defined(HK_HOST_ISA_NEON)
inline constexpr int mma_rows = 6;
inline constexpr int mma_panel = 4 * simd::lanes;
#else
inline constexpr int mma_rows = 6;
inline constexpr int mma_panel = 2 * simd::lanes;
#endif

// The element type that products of T are computed in: bf16 where the hardware has its dot
// product, otherwise f32, to which loads convert without loss.
#if defined(HK_HOST_ISA_AVX512_BF16)
template <element T>
using operand = std::conditional_t<std::same_as<T, bf16>, bf16, float>;
#else
template <element T>
using operand = float;
#endif

namespace layout {

constexpr int round_up(int x, int multiple) { return (x + multiple - 1) / multiple * multiple; }

// Element (r, c) at r * stride + c: A of AB and ABt. The stride is a cache line more than a row, so
// that a column does not fall into one cache set.
struct rows {
  template <class T>
  static constexpr int stride(int, int C) {
    return round_up(C, 64 / sizeof(T)) + 64 / sizeof(T);
  }
  template <class T>
  static constexpr int offset(int r, int c, int R, int C) {
    return r * stride<T>(R, C) + c;
  }
  template <class T>
  static constexpr int size(int R, int C) {
    return R * stride<T>(R, C);
  }
};

// Rows in groups along the reduction, element (r, c) at (r / group, c, r % group): A of AtB. The
// same as `rows` for float.
struct grouped_rows {
  template <class T>
  static constexpr int stride(int, int C) {
    return rows::stride<T>(0, C) * mma_group<T>;
  }
  template <class T>
  static constexpr int offset(int r, int c, int R, int C) {
    constexpr int g = mma_group<T>;
    return r / g * stride<T>(R, C) + c * g + r % g;
  }
  template <class T>
  static constexpr int size(int R, int C) {
    return round_up(R, mma_group<T>) / mma_group<T> * stride<T>(R, C);
  }
};

// Panels of `Width` rows, element (r, c) at (r / width, c / group, r % width, c % group). Groups
// along the reduction run on, so that the instruction reads a panel from front to back.
template <int Width>
struct panels_of_rows {
  // Elements from one panel to the next: a cache line more than a panel, so that the same row of
  // all panels, which a load writes together, does not fall into one cache set.
  template <class T>
  static constexpr int stride(int, int C) {
    return round_up(C, mma_group<T>) * Width + 64 / sizeof(T);
  }
  template <class T>
  static constexpr int offset(int r, int c, int R, int C) {
    constexpr int g = mma_group<T>;
    return r / Width * stride<T>(R, C) + c / g * (Width * g) + r % Width * g + c % g;
  }
  template <class T>
  static constexpr int size(int R, int C) {
    return round_up(R, Width) / Width * stride<T>(R, C);
  }
};

// The same for panels of columns: (c / width, r / group, c % width, r % group).
template <int Width>
struct panels_of_columns {
  template <class T>
  static constexpr int stride(int R, int C) {
    return panels_of_rows<Width>::template stride<T>(C, R);
  }
  template <class T>
  static constexpr int offset(int r, int c, int R, int C) {
    return panels_of_rows<Width>::template offset<T>(c, r, C, R);
  }
  template <class T>
  static constexpr int size(int R, int C) {
    return panels_of_rows<Width>::template size<T>(C, R);
  }
};

// B of ABt and AtBt, which is multiplied transposed.
struct row_panels : panels_of_rows<mma_panel> {};

// B of AB and AtB.
struct col_panels : panels_of_columns<mma_panel> {};

// A of AtB and AtBt, as wide as the instruction has rows.
struct col_strips : panels_of_columns<mma_rows> {};

}  // namespace layout
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
