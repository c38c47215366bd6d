// Products by way of registers: global memory -> registers -> LDS, for any alignment, on any CDNA
// chip. On gfx942, whose direct loads to LDS take 4 bytes a lane, all products go this way; on
// gfx950 those whose rows direct loads cannot serve.
//
// A tile of C is BM x BN, a step of K 64 terms. LDS holds one step of A and B, both with terms
// adjacent; an operand stored with its rows adjacent is transposed on the way, in registers.
//
//        64 terms                      time ->
//   BM [ A | row r: 128 B, swizzled ]  load t+1 ------------------> registers
//   BN [ B |                        ]  barrier, store t, barrier, multiply t ; barrier, store t+1
//   ...
//
// Waves stand in a grid of WM x WN, each with (BM / WM) x 64 of C: BN = 64 WN.
#pragma once

#include "hk/kernels/gemm/cdna_epilogue.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

// An operand of R rows on its way, for T threads. `words` says whether rows are made of whole
// words of 4 bytes; else elements are loaded one by one.
template <int R, int T, bool terms_adjacent>
struct staged;

// Terms adjacent: a thread carries chunks of 8 terms, 8 threads a row.
template <int R, int T>
struct staged<R, T, true> {
  static constexpr int chunks = R * 8 / T;
  u32x4 part[chunks];
  operand_view view;
  int32_t terms;  // that are left, from the next step on
  bool words;

  HK_INLINE uint32_t row(int i) const { return thread_index() / 8 + i * (T / 8); }
  HK_INLINE uint32_t chunk() const { return thread_index() % 8; }

  HK_INLINE window next_window() const {
    return uniform_window(view.base, static_cast<int64_t>(view.end - view.base));
  }

  // Rows that do not exist are nowhere, whatever their offset would be.
  HK_INLINE uint32_t offset(int i) const {
    const uint32_t at = row(i) * static_cast<uint32_t>(view.stride) + chunk() * 16;
    return static_cast<int32_t>(row(i)) < view.rows ? at : nowhere;
  }

  HK_INLINE void load_words(const window& from) {
#pragma unroll
    for (int i = 0; i < chunks; ++i) part[i] = load_buffer<16>(from, offset(i));
    if (terms >= cdna::depth) return;
    // The last step: what lies behind a row's end is the next row.
#pragma unroll
    for (int i = 0; i < chunks; ++i)
#pragma unroll
      for (int word = 0; word < 4; ++word)
        if (static_cast<int32_t>(chunk()) * 8 + 2 * word >= terms) part[i][word] = 0;
  }

  HK_INLINE void load_elements(const window& from) {
#pragma unroll
    for (int i = 0; i < chunks; ++i)
#pragma unroll
      for (int word = 0; word < 4; ++word) {
        uint32_t element[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const bool exists = static_cast<int32_t>(chunk()) * 8 + 2 * word + e < terms;
          element[e] = load_buffer<2>(from, exists ? offset(i) + 4 * word + 2 * e : nowhere);
        }
        part[i][word] = element[0] | element[1] << 16;
      }
  }

  HK_INLINE void load() {
    const window from = next_window();
    if (words)
      load_words(from);
    else
      load_elements(from);
    view.base += cdna::depth * 2;
    terms -= cdna::depth;
  }

  HK_INLINE void store(uint32_t tile) const {
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
      const int at = cdna::term_major::offset(static_cast<int>(row(i)), static_cast<int>(chunk()));
      store_local(tile + static_cast<uint32_t>(at), part[i]);
    }
  }
};

// Rows adjacent: a thread carries 4 terms of W rows, which it transposes. Four neighbours share a
// term's cache line; 16 of a write's phase hold 4 x 4 of (rows, terms).
template <int R, int T>
struct staged<R, T, false> {
  static constexpr int W = R * 16 / T;
  static_assert(W == 8 || W == 4, "expected 4 or 8 rows a thread");
  uint32_t part[4][W / 2];
  operand_view view;
  int32_t terms;
  bool words;

  HK_INLINE uint32_t first_row() const {
    return (thread_index() % 4 + thread_index() / 64 * 4) * W;
  }
  HK_INLINE uint32_t first_term() const { return thread_index() / 4 % 16 * 4; }

  HK_INLINE uint32_t offset(int term) const {
    return (first_term() + static_cast<uint32_t>(term)) * static_cast<uint32_t>(view.stride) +
           first_row() * 2;
  }

  HK_INLINE void load_words(const window& from) {
#pragma unroll
    for (int term = 0; term < 4; ++term) {
      const auto loaded = load_buffer<W * 2>(from, offset(term));
#pragma unroll
      for (int word = 0; word < W / 2; ++word) part[term][word] = loaded[word];
    }
  }

  HK_INLINE void load_elements(const window& from) {
#pragma unroll
    for (int term = 0; term < 4; ++term)
#pragma unroll
      for (int word = 0; word < W / 2; ++word) {
        const uint32_t at = offset(term) + 4 * word;
        const uint32_t low = load_buffer<2>(from, at), high = load_buffer<2>(from, at + 2);
        part[term][word] = low | high << 16;
      }
  }

  // Terms that do not exist are behind the matrix; what lies behind a row's end belongs to rows
  // that do not exist.
  HK_INLINE void load() {
    const window from = uniform_window(view.base, static_cast<int64_t>(view.end - view.base));
    if (words)
      load_words(from);
    else
      load_elements(from);
    view.base += static_cast<uint64_t>(cdna::depth * view.stride);
  }

  HK_INLINE void store(uint32_t tile) const {
#pragma unroll
    for (int r = 0; r < W; ++r) {
      const int word = r / 2;
      u32x2 column;
      if (r % 2 == 0)
        column = {lower_halves(part[0][word], part[1][word]),
                  lower_halves(part[2][word], part[3][word])};
      else
        column = {upper_halves(part[0][word], part[1][word]),
                  upper_halves(part[2][word], part[3][word])};
      const uint32_t k = first_term();
      const int at =
          cdna::term_major::offset(static_cast<int>(first_row()) + r, static_cast<int>(k / 8));
      store_local(tile + static_cast<uint32_t>(at) + k % 8 * 2, column);
    }
  }
};

template <class T, int BM, int BN, int WM, int WN>
struct staged_shape {
  static constexpr int threads = 64 * WM * WN;
  static constexpr int wave_rows = BM / WM;
  static constexpr int a_bytes = BM * cdna::term_major::row_bytes;
  static constexpr int lds_bytes = (BM + BN) * cdna::term_major::row_bytes;
  static constexpr int strip_rows = lds_bytes / (WM * WN) / cdna::result_strip::row_bytes;
  static_assert(BN == strip_cols * WN, "a wave has 64 columns");
};

template <element T, bool trans_a, bool trans_b, int BM, int BN, int WM, int WN>
HK_INLINE void multiply_staged(const gemm_arguments& p, uint32_t lds) {
  using shape = staged_shape<T, BM, BN, WM, WN>;
  const uint32_t number = group_number(p.grid_width);
  if (number >= blocks_of(p)) return;
  const block at = block_at(p, number, BM, BN);

  staged<BM, shape::threads, !trans_a> next_a{{}, view_a<trans_a>(p, at), at.terms, p.a_words != 0};
  staged<BN, shape::threads, trans_b> next_b{{}, view_b<trans_b>(p, at), at.terms, p.b_words != 0};
  const uint32_t tile_a = lds, tile_b = lds + shape::a_bytes;
  const uint32_t wave = wave_index(), wave_row = wave / WN * shape::wave_rows,
                 wave_col = wave % WN * strip_cols;
  const shared_rows<cdna::term_major> read_a(tile_a, wave_row), read_b(tile_b, wave_col);

  rt<float, shape::wave_rows, strip_cols> d;
  zero(d);
  next_a.load();
  next_b.load();
#pragma clang loop unroll(disable)
  for (int32_t k = 0; k < at.terms; k += cdna::depth) {
    barrier();
    next_a.store(tile_a);
    next_b.store(tile_b);
    next_a.load();  // Behind the last step there is nothing: all lanes read zero.
    next_b.load();
    wait_local<0>();
    barrier();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rt<T, shape::wave_rows, 32> a;
      rt<T, strip_cols, 32> b;
      load(a, read_a, 0, half);
      load(b, read_b, 0, half);
      mma_ABt(d, a, b);
    }
  }
  barrier();
  const uint32_t strip = lds + wave * (shape::strip_rows * cdna::result_strip::row_bytes);
  constexpr int R = shape::strip_rows < shape::wave_rows ? shape::strip_rows : shape::wave_rows;
  store_accumulators<R>(p, at, d, at.row + static_cast<int32_t>(wave_row),
                        at.col + static_cast<int32_t>(wave_col), strip);
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
