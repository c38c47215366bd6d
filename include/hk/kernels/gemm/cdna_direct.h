// Products whose operands go from memory to LDS directly, 16 bytes a lane: gfx950, rows of
// multiples of 16 aligned bytes.
//
// A tile of C is BM x BN, a step of K 64 terms, and LDS a ring of S steps. One barrier a step: what
// it separates is the reading of step t - 1 from the overwriting of its place by step t + S - 1,
// and the arrival of step t from its reading.
//
//   S = 2   load 0 | load 1  | load 2  | load 3  |
//                  | multiply 0 | multiply 1 | multiply 2       two workgroups share a compute unit
//
// K need not be a multiple of 64: the first step is the one that is cut short, in front, so that
// all later ones use the same offsets. Lanes whose term or row does not exist read from nowhere,
// zeros.
#pragma once

#include <type_traits>
#include <utility>

#include "hk/kernels/gemm/cdna_epilogue.h"

#if defined(__gfx950__)

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

// Which rows of an operand a tile of LDS holds: row x of the tile is row rows_of_half(x) of the
// operand. The operand's rows alternate between two halves, W by W.
template <int W>
struct alternating {
  int half;
  HK_INLINE int32_t operator()(int32_t x) const { return x / W * (2 * W) + half * W + x % W; }
};
struct all_rows {
  HK_INLINE int32_t operator()(int32_t x) const { return x; }
};

template <bool terms_adjacent, int R>
using tile_order =
    std::conditional_t<terms_adjacent, cdna::term_major, cdna::row_major<terms_adjacent ? 64 : R>>;

// The offsets of the loads that fill a tile of R rows in LDS, by `waves` waves: load q of wave w
// fills 1024 bytes from 1024 (q waves + w) on.
template <class Order, int R, int waves>
struct tile_offsets {
  static constexpr int loads = R * cdna::depth * 2 / (1024 * waves);
  static_assert(loads % 2 == 0, "loads come in pairs");
  uint32_t at[loads];

  // Terms before `pad` do not exist.
  template <class Rows>
  HK_INLINE void set(const operand_view& view, Rows rows, int32_t pad) {
#pragma unroll
    for (int q = 0; q < loads; ++q) {
      const cdna::place place =
          Order::at(static_cast<int>(thread_index() * 16 + q * (waves * 1024)));
      const int32_t row = rows(place.row), term = place.col;
      const uint32_t stride = static_cast<uint32_t>(view.stride);
      const uint32_t offset = Order::terms_adjacent
                                  ? static_cast<uint32_t>(row) * stride + 2 * term
                                  : static_cast<uint32_t>(term) * stride + 2 * row;
      at[q] = row < view.rows && term >= pad ? offset : nowhere;
    }
  }

  // Loads to LDS at base + constant, where base has the wave's 1024 w in it.
  template <int constant>
  HK_INLINE void load(u32x4 descriptor, uint32_t base) const {
    load_each<constant>(descriptor, base, std::make_integer_sequence<int, loads / 2>{});
  }

 private:
  template <int constant, int... q>
  HK_INLINE void load_each(u32x4 descriptor, uint32_t base,
                           std::integer_sequence<int, q...>) const {
    constexpr int apart = waves * 1024;
    (load_to_local<constant + q * 2 * apart, apart>(descriptor, at[2 * q], at[2 * q + 1], base),
     ...);
  }
};

// An operand's way through K, one step of 64 terms at a time. Steps that do not exist have a window
// of no bytes: the number of loads in flight stays the same, and they cost no memory traffic.
class step_window {
 public:
  // The first step starts `pad` terms before the first one.
  HK_INLINE step_window(const operand_view& view, bool terms_adjacent, int32_t pad) {
    const int64_t term = terms_adjacent ? 2 : view.stride;
    const uint64_t base = view.base - static_cast<uint64_t>(pad * term);
    words_ = descriptor_words(uniform_window(base, longest_window));
    step_ = uniform(static_cast<uint64_t>(cdna::depth * term));
  }

  HK_INLINE u32x4 words() const { return words_; }

  // Goes to the next step; one that does not exist has a window of no bytes, as have all behind it.
  HK_INLINE void advance(bool exists) {
    const uint64_t low = words_.x, high = words_.y;
    const uint64_t base = (high << 32 | low) + step_;
    words_.x = static_cast<uint32_t>(base);
    words_.y = static_cast<uint32_t>(base >> 32);
    words_.z = exists ? longest_window : 0;
  }

  // Goes to a step without terms; the next advance goes to the one behind the present.
  HK_INLINE void pause() { words_.z = 0; }

 private:
  u32x4 words_;
  uint64_t step_;
};

template <bool trans_a, bool trans_b, int BM, int BN, int WM, int WN, int S>
struct direct_shape {
  static constexpr int waves = WM * WN;
  static constexpr int wave_rows = BM / WM;
  static constexpr int a_bytes = BM * cdna::depth * 2;
  static constexpr int step_bytes = (BM + BN) * cdna::depth * 2;
  static constexpr int lds_bytes = S * step_bytes;
  static constexpr int strip_rows = lds_bytes / waves / cdna::result_strip::row_bytes;
  static constexpr int epilogue_rows = strip_rows < wave_rows ? strip_rows : wave_rows;
  using a_order = tile_order<!trans_a, BM>;
  using b_order = tile_order<trans_b, BN>;
  static_assert(BN == strip_cols * WN, "a wave has 64 columns");
};

template <element T, bool trans_a, bool trans_b, int BM, int BN, int WM, int WN, int S>
HK_INLINE void multiply_direct(const gemm_arguments& p, uint32_t lds) {
  using shape = direct_shape<trans_a, trans_b, BM, BN, WM, WN, S>;
  using a_order = typename shape::a_order;
  using b_order = typename shape::b_order;
  const uint32_t number = group_number(p.grid_width);
  if (number >= blocks_of(p)) return;
  const block at = block_at(p, number, BM, BN);
  const operand_view view_of_a = view_a<trans_a>(p, at), view_of_b = view_b<trans_b>(p, at);
  const int32_t steps = (at.terms + cdna::depth - 1) / cdna::depth;
  const int32_t pad = steps * cdna::depth - at.terms;

  const uint32_t wave = wave_index();
  const uint32_t wave_row = wave / WN * shape::wave_rows, wave_col = wave % WN * strip_cols;
  const uint32_t fill = lds + wave * 1024;
  step_window from_a(view_of_a, !trans_a, pad), from_b(view_of_b, trans_b, pad);
  tile_offsets<a_order, BM, shape::waves> a_offsets;
  tile_offsets<b_order, BN, shape::waves> b_offsets;
  constexpr int loads = a_offsets.loads + b_offsets.loads;

  int32_t loaded = 0;  // steps
  const auto load_step = [&](uint32_t stage) HK_LAMBDA_INLINE {
    a_offsets.template load<0>(from_a.words(), fill + stage);
    b_offsets.template load<shape::a_bytes>(from_b.words(), fill + stage);
    ++loaded;
    from_a.advance(loaded < steps);
    from_b.advance(loaded < steps);
  };
  a_offsets.set(view_of_a, all_rows{}, pad);
  b_offsets.set(view_of_b, all_rows{}, pad);
  load_step(0);
  a_offsets.set(view_of_a, all_rows{}, 0);
  b_offsets.set(view_of_b, all_rows{}, 0);
#pragma unroll
  for (int s = 1; s < S - 1; ++s) load_step(s * shape::step_bytes);

  const shared_rows<a_order> read_a(lds, wave_row);
  const shared_rows<b_order> read_b(lds + shape::a_bytes, wave_col);
  rt<float, shape::wave_rows, strip_cols> d;
  zero(d);
  uint32_t stage = 0, next_stage = (S - 1) * shape::step_bytes;
  const auto follow = [](uint32_t s) HK_LAMBDA_INLINE {
    return s == (S - 1) * shape::step_bytes ? 0 : s + shape::step_bytes;
  };
#pragma clang loop unroll(disable)
  for (int32_t step = 0; step < steps; ++step) {
    wait_memory<(S - 2) * loads>();
    wait_local<0>();
    barrier();
    load_step(next_stage);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rt<T, shape::wave_rows, 32> a;
      rt<T, strip_cols, 32> b;
      load(b, read_b, stage, half);
      load(a, read_a, stage, half);
      mma_ABt(d, a, b);
    }
    schedule_fence();
    stage = follow(stage);
    next_stage = follow(next_stage);
  }
  wait_memory<0>();
  wait_local<0>();
  barrier();
  const uint32_t strip = lds + wave * (shape::strip_rows * cdna::result_strip::row_bytes);
  store_accumulators<shape::epilogue_rows>(p, at, d, at.row + static_cast<int32_t>(wave_row),
                                           at.col + static_cast<int32_t>(wave_col), strip);
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk

#endif
