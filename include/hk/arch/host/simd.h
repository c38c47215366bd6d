// SIMD registers of the host, as GNU vectors: arithmetic and comparisons are the operators, and
// what differs between instruction sets is in simd_<isa>.h under one set of names:
//
//   fma(a, b, c)      a * b + c, rounded once where the hardware can
//   maximum, minimum  of floats; the second operand where one is NaN
//   multiply_even     the 64-bit products of the even lanes
//   widen(p)          the `lanes` bf16 or f16 elements at p, as floats
//   narrow(p, x)      rounds the lanes of x (to nearest, ties to even) and stores them at p
//
// A comparison of two vectors is a vector of integers, all ones where it holds (a `mask32`).
#pragma once

#include <cstdint>
#include <utility>

#include "hk/core/element.h"

#if defined(HK_HOST_ISA_AVX512_BF16) || defined(HK_HOST_ISA_AVX512)
#include "hk/arch/host/simd_avx512.h"
#elif defined(HK_HOST_ISA_AVX2)
#include "hk/arch/host/simd_avx2.h"
#elif defined(HK_HOST_ISA_NEON)
#include "hk/arch/host/simd_neon.h"
#else
#include "hk/arch/host/simd_plain.h"
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace simd {

using mask32 = i32;

HK_INLINE f32 splat(float x) { return x - f32{}; }
HK_INLINE i32 splat(std::int32_t x) { return x - i32{}; }
HK_INLINE u32 splat(std::uint32_t x) { return x - u32{}; }

// The lane numbers 0, 1, ..., lanes - 1.
HK_INLINE i32 iota() {
  return []<int... L>(std::integer_sequence<int, L...>) {
    return i32{L...};
  }(std::make_integer_sequence<int, lanes>{});
}

// Per lane, or for all lanes at once.
HK_INLINE f32 select(mask32 mask, f32 yes, f32 no) { return mask ? yes : no; }
HK_INLINE f32 select(bool all, f32 yes, f32 no) { return all ? yes : no; }

// The lanes of x as floats, rounded to nearest.
HK_INLINE f32 to_float(i32 x) { return __builtin_convertvector(x, f32); }

// Loads and stores of a whole register; pointers need only their element's alignment.
HK_INLINE f32 load(const float* p) {
  f32 x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}
HK_INLINE f32 load(const bf16* p) { return widen(p); }
HK_INLINE f32 load(const f16* p) { return widen(p); }

HK_INLINE void store(float* p, f32 x) { __builtin_memcpy(p, &x, sizeof(x)); }
HK_INLINE void store(bf16* p, f32 x) { narrow(p, x); }
HK_INLINE void store(f16* p, f32 x) { narrow(p, x); }

// Stores x, then y, as 2 * lanes elements: at once where the hardware has a quicker way.
template <element T>
HK_INLINE void store(T* p, f32 x, f32 y) {
  if constexpr (requires { narrow(p, x, y); }) {
    narrow(p, x, y);
  } else {
    store(p, x);
    store(p + lanes, y);
  }
}

// The first `count` (0 to lanes) elements at p; the other lanes are zero and not read.
template <element T>
HK_INLINE f32 load_first(const T* p, int count) {
  if (count >= lanes) return load(p);
  alignas(sizeof(f32)) T padded[lanes] = {};
  for (int i = 0; i < count; ++i) padded[i] = p[i];
  return load(padded);
}

// Stores the first `count` (0 to lanes) lanes of x; what lies behind them is not written.
template <element T>
HK_INLINE void store_first(T* p, f32 x, int count) {
  if (count >= lanes) return store(p, x);
  alignas(sizeof(f32)) T padded[lanes];
  store(padded, x);
  for (int i = 0; i < count; ++i) p[i] = padded[i];
}

namespace detail {

// Lane l of the result is lane l + half of x; the upper lanes repeat.
template <int half, int... L>
HK_INLINE f32 upper_half(f32 x, std::integer_sequence<int, L...>) {
  return __builtin_shufflevector(x, x, ((L + half) % lanes)...);
}

template <int half, class Op>
HK_INLINE f32 reduce_halves(f32 x, Op op) {
  x = op(x, upper_half<half>(x, std::make_integer_sequence<int, lanes>{}));
  if constexpr (half > 1) return reduce_halves<half / 2>(x, op);
  return x;
}

}  // namespace detail

// Reduces the lanes of x with op(f32, f32), as a tree of halves: the same order on every call.
template <class Op>
HK_INLINE float reduce(f32 x, Op op) {
  return detail::reduce_halves<lanes / 2>(x, op)[0];
}

// 2^x up to 127.5, and +inf from there; 0 below -126.5; NaN stays NaN. Relative error under
// 2e-7 for normal results; exactly 1 for 0. Adding 1.5 * 2^23 + 127 rounds x to an integer n and
// leaves n + 127, the exponent field of 2^n, in the low bits of the sum: the fields of 0 and inf at
// the ends that x is clamped to. 2^(x - n) is a minimax polynomial on [-1/2, 1/2], of which odd and
// even powers are summed apart to shorten the chain of dependent operations.
HK_INLINE f32 exp2(f32 x) {
  constexpr float shifter = 0x1.8p23f + 127.0f;
  x = maximum(splat(-127.0f), minimum(splat(128.0f), x));
  const f32 shifted = x + shifter;
  const f32 f = x - (shifted - shifter);
  const f32 f2 = f * f;
  const f32 low = fma(f, splat(0x1.62e430p-1f), splat(1.0f));
  const f32 middle = fma(f, splat(0x1.c6aee8p-5f), splat(0x1.ebfbdcp-3f));
  f32 high = fma(f, splat(0x1.5f3e54p-10f), splat(0x1.3b2d4cp-7f));
  high = fma(f2, splat(0x1.41fbbcp-13f), high);
  const f32 p = fma(fma(high, f2, middle), f2, low);
  return p * std::bit_cast<f32>(std::bit_cast<i32>(shifted) << 23);
}

namespace detail {

// One step of a transposition: exchanges the off-diagonal `half` x `half` blocks of a pair of rows.
template <int half, int... L>
HK_INLINE void exchange(f32& upper, f32& lower, std::integer_sequence<int, L...>) {
  const f32 a = upper, b = lower;
  upper = __builtin_shufflevector(a, b, ((L & half) ? lanes + L - half : L)...);
  lower = __builtin_shufflevector(a, b, ((L & half) ? lanes + L : L + half)...);
}

template <int half>
HK_INLINE void transpose_step(f32 (&x)[lanes]) {
  for (int i = 0; i < lanes; ++i)
    if ((i & half) == 0)
      exchange<half>(x[i], x[i + half], std::make_integer_sequence<int, lanes>{});
  if constexpr (half > 1) transpose_step<half / 2>(x);
}

template <int... L>
HK_INLINE void deinterleave(f32& even, f32& odd, f32 a, f32 b, std::integer_sequence<int, L...>) {
  even = __builtin_shufflevector(a, b, (2 * L)...);
  odd = __builtin_shufflevector(a, b, (2 * L + 1)...);
}

template <int... L>
HK_INLINE void interleave(f32& a, f32& b, f32 even, f32 odd, std::integer_sequence<int, L...>) {
  a = __builtin_shufflevector(even, odd, (L % 2 * lanes + L / 2)...);
  b = __builtin_shufflevector(even, odd, (L % 2 * lanes + (L + lanes) / 2)...);
}

}  // namespace detail

// Splits the lanes of a, then b, into those of even and those of odd number.
HK_INLINE void deinterleave(f32& even, f32& odd, f32 a, f32 b) {
  detail::deinterleave(even, odd, a, b, std::make_integer_sequence<int, lanes>{});
}

// The inverse of deinterleave.
HK_INLINE void interleave(f32& a, f32& b, f32 even, f32 odd) {
  detail::interleave(a, b, even, odd, std::make_integer_sequence<int, lanes>{});
}

// Transposes each 4 x 4 block of four registers: lane 4 b + j of x[i] and lane 4 b + i of x[j]
// trade places. The lanes are any 32-bit values.
HK_INLINE void transpose_blocks(f32 (&x)[4]) {
  constexpr auto all = std::make_integer_sequence<int, lanes>{};
  detail::exchange<2>(x[0], x[2], all);
  detail::exchange<2>(x[1], x[3], all);
  detail::exchange<1>(x[0], x[1], all);
  detail::exchange<1>(x[2], x[3], all);
}

// Transposes a lanes x lanes block held one row to a register. The lanes are any 32-bit values.
HK_INLINE void transpose(f32 (&x)[lanes]) { detail::transpose_step<lanes / 2>(x); }

namespace detail {

// One level of the tree of reduce_each: the first half of x keeps lanes of all registers.
template <int half, class Op>
HK_INLINE f32 reduce_step(f32 (&x)[lanes], Op op) {
  for (int i = 0; i < half; ++i) {
    exchange<half>(x[i], x[i + half], std::make_integer_sequence<int, lanes>{});
    x[i] = op(x[i], x[i + half]);
  }
  if constexpr (half > 1) return reduce_step<half / 2>(x, op);
  return x[0];
}

}  // namespace detail

// Lane i is reduce(x[i], op), bit for bit; x is used up. Cheaper than one by one.
template <class Op>
HK_INLINE f32 reduce_each(f32 (&x)[lanes], Op op) {
  return detail::reduce_step<lanes / 2>(x, op);
}

}  // namespace simd

// A fragment of a tile or vector is one SIMD register here; maps name its operations through this.
namespace fragment = simd;

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
