// The product for large matrices on gfx950: 256 x 256 tiles of C, 8 waves, two to a SIMD, of which
// one multiplies while the other moves data.
//
// LDS holds two steps of 64 terms, each as four halves of 128 rows, 16 KiB: A0 A1 B0 B1. Wave
// (r, c) of 2 x 4 has 128 x 64 of C, as four quadrants of 64 x 32:
//
//               64 columns                     B0          B1
//          B0: 32    B1: 32                 of all waves' columns, 32 by 32
//   A0 64 [ cluster 0 | cluster 1 ]
//   A1 64 [ cluster 2 | cluster 3 ]         16 matrix instructions a cluster, for 64 terms
//
// A cluster is {read fragments, load one half of a later step} barrier {multiply} barrier. Waves 4
// to 7 run one barrier behind:
//
//   waves 0-3   | mem 0 | mul 0 | mem 1 | mul 1 | mem 2 | mul 2 | ...
//   waves 4-7           | mem 0 | mul 0 | mem 1 | mul 1 | mem 2 | ...
//
//   cluster 4 t + ...   0        1        2          3
//   reads             A0 B0     B1       A1          -
//   loads             B1(t+1)  A1(t+1)  A0(t+2)  B0(t+2)
//   then waits for    B1(t)    A1(t)      -     A0 B0(t+1)    of what it loaded itself
//
// Why this is right, for data read in cluster c. Both groups of waves have their reads done before
// the barrier that follows the later group's multiplication of c; the earlier group's next loads
// behind that barrier are those of cluster c + 2, and no half is overwritten earlier than two
// clusters after it was read. Data arrives in time because every wave waits for its own part in the
// memory phase of cluster c - 1, and a barrier of both groups lies between that and the reading.
//
// Every wait leaves the loads of four clusters, 8, in flight. The loop has no vector arithmetic:
// addresses are constants beside registers, and the ragged end of K is in front: a number of steps
// that is odd is made even by a step 1 with no terms, and step 0 may lack its first terms.
#pragma once

#include "hk/kernels/gemm/cdna_direct.h"

#if defined(__gfx950__)

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace gemm {

template <element T, bool trans_a, bool trans_b>
class ping_pong {
 public:
  static constexpr int tile = 256;
  static constexpr int half_bytes = 128 * cdna::depth * 2;
  static constexpr int step_bytes = 2 * half_bytes;  // of one operand
  static constexpr int operand_bytes = 2 * step_bytes;
  static constexpr int lds_bytes = 2 * operand_bytes;

  HK_INLINE ping_pong(const gemm_arguments& p, const block& at, uint32_t lds)
      : view_a_(view_a<trans_a>(p, at)),
        view_b_(view_b<trans_b>(p, at)),
        pad_((cdna::depth - at.terms % cdna::depth) % cdna::depth),
        pairs_((at.terms + 2 * cdna::depth - 1) / (2 * cdna::depth)),
        skips_((at.terms + pad_) / cdna::depth % 2 != 0),
        fill_(lds + wave_index() * 1024),
        from_a_(view_a_, !trans_a, pad_),
        from_b_(view_b_, trans_b, pad_),
        read_a_(lds, wave_index() / 4 * 64),
        read_b_(lds + operand_bytes, wave_index() % 4 * 32) {}

  // The wave's 128 x 64 of C.
  HK_INLINE void run(rt<float, 128, 64>& d) {
    zero(d);
    prologue();
    open_ping_pong();
#pragma clang loop unroll(disable)
    for (int32_t pair = 1; pair <= pairs_; ++pair) {
      const bool more = pair < pairs_;
      step<0>(d, more);
      step<1>(d, more);
    }
    close_ping_pong();
    wait_memory<0>();
    wait_local<0>();
    barrier();
  }

 private:
  using a_order = tile_order<!trans_a, 128>;
  using b_order = tile_order<trans_b, 128>;
  using offsets_of_a = tile_offsets<a_order, 128, 8>;
  using offsets_of_b = tile_offsets<b_order, 128, 8>;

  template <int stage, int half>
  HK_INLINE void load_a(const offsets_of_a& offsets) const {
    offsets.template load<stage * step_bytes + half * half_bytes>(from_a_.words(), fill_);
  }
  template <int stage, int half>
  HK_INLINE void load_b(const offsets_of_b& offsets) const {
    offsets.template load<operand_bytes + stage * step_bytes + half * half_bytes>(from_b_.words(),
                                                                                  fill_);
  }

  HK_INLINE void set_offsets(int32_t pad) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      a_[half].set(view_a_, alternating<64>{half}, pad);
      b_[half].set(view_b_, alternating<32>{half}, pad);
    }
  }

  // Step 0, and the first halves of step 1.
  HK_INLINE void prologue() {
    set_offsets(pad_);
    load_a<0, 0>(a_[0]);
    load_b<0, 0>(b_[0]);
    load_b<0, 1>(b_[1]);
    load_a<0, 1>(a_[1]);
    set_offsets(0);
    if (skips_) {
      from_a_.pause();
      from_b_.pause();
    } else {
      from_a_.advance(true);
      from_b_.advance(true);
    }
    load_a<1, 0>(a_[0]);
    load_b<1, 0>(b_[0]);
    wait_memory<8>();
    barrier();
  }

  HK_INLINE void before_multiplying() {
    schedule_fence();
    barrier();
    raise_priority();
    schedule_fence();
  }
  HK_INLINE void after_multiplying() {
    schedule_fence();
    lower_priority();
    barrier();
    schedule_fence();
  }

  using rows_of_a = rt<T, 64, 64>;
  using rows_of_b = rt<T, 32, 64>;

  template <int stage, int half>
  HK_INLINE void read_a(rows_of_a& a) const {
    hk::load(a, read_a_, stage * step_bytes + half * half_bytes);
  }
  template <int stage, int half>
  HK_INLINE void read_b(rows_of_b& b) const {
    hk::load(b, read_b_, stage * step_bytes + half * half_bytes);
  }

  template <int half_a, int half_b>
  HK_INLINE void multiply(rt<float, 128, 64>& d, const rows_of_a& a, const rows_of_b& b) {
    before_multiplying();
    pin<4 * half_a, 2 * half_b, 4, 2>(d);
    mma_ABt<4 * half_a, 2 * half_b>(d, a, b);
    pin<4 * half_a, 2 * half_b, 4, 2>(d);
    after_multiplying();
  }

  // Multiplies the step in `stage`; loads the rest of the next step, and the first halves of the
  // one behind that, if there is more to come than the next.
  template <int stage>
  HK_INLINE void step(rt<float, 128, 64>& d, bool more) {
    rows_of_a a;
    rows_of_b b0, b1;
    read_b<stage, 0>(b0);
    read_a<stage, 0>(a);
    load_b<1 - stage, 1>(b_[1]);
    from_b_.advance(more);
    wait_memory<8>();
    multiply<0, 0>(d, a, b0);

    read_b<stage, 1>(b1);
    load_a<1 - stage, 1>(a_[1]);
    from_a_.advance(more);
    wait_memory<8>();
    multiply<0, 1>(d, a, b1);

    read_a<stage, 1>(a);
    load_a<stage, 0>(a_[0]);
    multiply<1, 0>(d, a, b0);

    load_b<stage, 0>(b_[0]);
    wait_memory<8>();
    multiply<1, 1>(d, a, b1);
  }

  operand_view view_a_, view_b_;
  int32_t pad_;    // terms that step 0 lacks
  int32_t pairs_;  // of steps
  bool skips_;     // whether step 1 has no terms
  uint32_t fill_;
  step_window from_a_, from_b_;
  offsets_of_a a_[2];
  offsets_of_b b_[2];
  shared_rows<a_order> read_a_;
  shared_rows<b_order> read_b_;
};

template <element T, bool trans_a, bool trans_b>
HK_INLINE void multiply_ping_pong(const gemm_arguments& p, uint32_t lds) {
  using kernel = ping_pong<T, trans_a, trans_b>;
  const uint32_t number = group_number(p.grid_width);
  if (number >= blocks_of(p)) return;
  const block at = block_at(p, number, kernel::tile, kernel::tile);
  rt<float, 128, 64> d;
  kernel(p, at, lds).run(d);
  const uint32_t wave = wave_index();
  constexpr int strip_rows = kernel::lds_bytes / 8 / cdna::result_strip::row_bytes;
  store_accumulators<strip_rows>(p, at, d, at.row + static_cast<int32_t>(wave / 4 * 128),
                                 at.col + static_cast<int32_t>(wave % 4 * 64),
                                 lds + wave * (strip_rows * cdna::result_strip::row_bytes));
}

}  // namespace gemm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk

#endif
