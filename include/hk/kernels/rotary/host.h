// The host's schedule of rotary position embedding: rotary_host.
//
//                 R/2        R/2      D - R
//             +----------+----------+-------+
//   head 0    | x0 piece | x1 piece | copy  |     half-split; interleaved pairs lie side by side
//   head 1    |          |          |       |     in one piece of twice the size
//      ...    +----------+----------+-------+
//   cos, sin  |  piece   |     the same for every head of a (batch, time) step
//             +----------+
//
// Steps are independent; a block takes as many as make up about 128 KiB of x.
#pragma once

#include <cstdint>
#include <cstring>

#include "hk/hk.h"
#include "hk/kernels/rotary/problem.h"
#include "hk/kernels/rotary/rotate.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace rotary {

// Pairs that are rotated at a time.
inline constexpr int piece = 2 * fragment::lanes;
using vec = rv<float, piece>;
using pairs = rv<float, 2 * piece>;

// The rotated pairs of one head: y[...] from x[...], by cos and sin [R/2].
template <bool Interleaved, bool Inverse, element T>
HK_INLINE void rotate_head(T* HK_RESTRICT y, const T* HK_RESTRICT x, const float* HK_RESTRICT cos,
                           const float* HK_RESTRICT sin, std::int64_t half) {
  for_each_piece<piece>(half, [&](std::int64_t at, int count) HK_LAMBDA_INLINE {
    vec x0, x1, c, s;
    load(c, cos + at, count);
    load(s, sin + at, count);
    if (Inverse) neg(s, s);
    if constexpr (Interleaved) {
      pairs x01;
      load(x01, x + 2 * at, 2 * count);
      deinterleave(x0, x1, x01);
      rotate(x0, x1, c, s);
      interleave(x01, x0, x1);
      store(y + 2 * at, x01, 2 * count);
    } else {
      load(x0, x + at, count);
      load(x1, x + half + at, count);
      rotate(x0, x1, c, s);
      store(y + at, x0, count);
      store(y + half + at, x1, count);
    }
  });
}

// All heads of the step (b, t), counted flat.
template <bool Interleaved, bool Inverse, element T>
HK_INLINE void rotate_step(const rotary_problem& problem, std::int64_t step) {
  const std::int64_t b = step / problem.length, t = step % problem.length;
  const std::int64_t half = problem.rotary_dim / 2, dim = problem.head_dim;
  const std::int64_t rest = dim - problem.rotary_dim;
  const std::int64_t table = (problem.broadcast_tables ? 0 : b) * problem.positions +
                             position(problem.offsets[b], t, problem.positions);
  const T* x = static_cast<const T*>(problem.x) + step * problem.heads * dim;
  T* y = static_cast<T*>(problem.y) + step * problem.heads * dim;
  for (std::int64_t n = 0; n < problem.heads; ++n, x += dim, y += dim) {
    rotate_head<Interleaved, Inverse>(y, x, problem.cos + table * half, problem.sin + table * half,
                                      half);
    if (rest > 0) std::memcpy(y + 2 * half, x + 2 * half, rest * sizeof(T));
  }
}

template <bool Interleaved, bool Inverse, element T>
HK_INLINE void run(const rotary_problem& problem, const launcher& launch) {
  constexpr std::int64_t block_elements = 128 * 1024 / sizeof(T);
  const std::int64_t all = problem.batch * problem.length;
  const std::int64_t steps = pieces_of(block_elements, problem.heads * problem.head_dim);
  for_each_block(launch, pieces_of(all, steps), [&](std::int64_t block) {
    const std::int64_t end = piece_end(all, block * steps, steps);
    for (std::int64_t step = block * steps; step < end; ++step)
      rotate_step<Interleaved, Inverse, T>(problem, step);
  });
}

}  // namespace rotary

inline status rotary_host(const rotary_problem& problem, const launcher& launch) {
  if (problem.batch * problem.length * problem.heads * problem.head_dim == 0) return status::ok;
  visit(problem.type, [&]<element T>(T*) {
    if (problem.interleaved && problem.inverse)
      rotary::run<true, true, T>(problem, launch);
    else if (problem.interleaved)
      rotary::run<true, false, T>(problem, launch);
    else if (problem.inverse)
      rotary::run<false, true, T>(problem, launch);
    else
      rotary::run<false, false, T>(problem, launch);
  });
  return status::ok;
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
