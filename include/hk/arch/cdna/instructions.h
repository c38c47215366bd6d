// The instructions that tiles are made of, as thin functions: no lane map is known here. Device
// code only. Compiler built-ins wherever one serves; the compiler then keeps the wait states and
// wait counts. The one piece of assembly says which of these it needs and keeps them itself.
#pragma once

#include <bit>
#include <cstdint>

#include "hk/arch/cdna/this_chip.h"
#include "hk/core/element.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

using f32x2 = float __attribute__((ext_vector_type(2)));
using f32x4 = float __attribute__((ext_vector_type(4)));
using f32x8 = float __attribute__((ext_vector_type(8)));
using bf16x4 = __bf16 __attribute__((ext_vector_type(4)));
using bf16x8 = __bf16 __attribute__((ext_vector_type(8)));
using f16x4 = _Float16 __attribute__((ext_vector_type(4)));
using f16x8 = _Float16 __attribute__((ext_vector_type(8)));
using i16x4 = short __attribute__((ext_vector_type(4)));
using u32x2 = uint32_t __attribute__((ext_vector_type(2)));
using u32x4 = uint32_t __attribute__((ext_vector_type(4)));

// ---- Lanes and workgroups

HK_INLINE uint32_t thread_index() { return __builtin_amdgcn_workitem_id_x(); }
HK_INLINE uint32_t lane_index() { return thread_index() % 64; }
HK_INLINE uint32_t group_x() { return __builtin_amdgcn_workgroup_id_x(); }
HK_INLINE uint32_t group_y() { return __builtin_amdgcn_workgroup_id_y(); }

// x, which is the same in all lanes, in scalar registers.
HK_INLINE uint32_t uniform(uint32_t x) { return __builtin_amdgcn_readfirstlane(x); }
HK_INLINE uint64_t uniform(uint64_t x) {
  const uint64_t high = uniform(static_cast<uint32_t>(x >> 32));
  return high << 32 | uniform(static_cast<uint32_t>(x));
}
HK_INLINE uint32_t wave_index() { return uniform(thread_index() / 64); }

// ---- Global memory

template <class V>
using global = __attribute__((address_space(1))) V;

template <class V>
HK_INLINE V load_global(uint64_t address) {
  return *reinterpret_cast<global<const V>*>(address);
}
template <class V>
HK_INLINE void store_global(uint64_t address, V value) {
  *reinterpret_cast<global<V>*>(address) = value;
}

// A window of memory for buffer instructions: `bytes` from a wave-uniform base. A lane whose offset
// is not below `bytes` reads zero. The words are in scalar registers by construction, so that no
// loop over lanes (a waterfall) is ever needed. Offsets of lanes that shall read zero are
// `nowhere`, which is behind every window.
inline constexpr uint32_t nowhere = 0x80000000u;
inline constexpr uint32_t longest_window = 0x7ffffffcu;

struct window {
  uint64_t base;
  uint32_t bytes;
};

HK_INLINE window uniform_window(uint64_t base, int64_t bytes) {
  const int64_t most = longest_window;
  const int64_t kept = bytes < 0 ? 0 : bytes > most ? most : bytes;
  return {uniform(base), uniform(static_cast<uint32_t>(kept))};
}

// Word 3: 32-bit data, no format conversion, no stride.
inline constexpr uint32_t descriptor_word3 = 0x00027000u;

HK_INLINE __amdgpu_buffer_rsrc_t resource(const window& w) {
  return __builtin_amdgcn_make_buffer_rsrc(reinterpret_cast<void*>(w.base), 0,
                                           static_cast<int>(w.bytes), descriptor_word3);
}

template <int bytes>
HK_INLINE auto load_buffer(const window& w, uint32_t offset) {
  if constexpr (bytes == 2)
    return __builtin_amdgcn_raw_buffer_load_b16(resource(w), static_cast<int>(offset), 0, 0);
  else if constexpr (bytes == 4)
    return __builtin_amdgcn_raw_buffer_load_b32(resource(w), static_cast<int>(offset), 0, 0);
  else if constexpr (bytes == 8)
    return __builtin_bit_cast(
        u32x2, __builtin_amdgcn_raw_buffer_load_b64(resource(w), static_cast<int>(offset), 0, 0));
  else
    return __builtin_bit_cast(
        u32x4, __builtin_amdgcn_raw_buffer_load_b128(resource(w), static_cast<int>(offset), 0, 0));
}

// ---- LDS. Addresses are byte offsets from the start of the workgroup's local memory.

template <class V>
using local = __attribute__((address_space(3))) V;

template <class V>
HK_INLINE V load_local(uint32_t address) {
  return *reinterpret_cast<local<const V>*>(address);
}
template <class V>
HK_INLINE void store_local(uint32_t address, V value) {
  *reinterpret_cast<local<V>*>(address) = value;
}

#if defined(__gfx950__)
// 8 bytes of every lane, transposed within 16 lanes (lane_map.h). All lanes have to be active.
HK_INLINE i16x4 load_local_transposed(uint32_t address) {
  return __builtin_amdgcn_ds_read_tr16_b64_v4i16(reinterpret_cast<local<i16x4>*>(address));
}

// 16 bytes a lane from the window's base + first to LDS at base + constant + 16 lane, zeros for
// lanes outside of the window; and as much from base + second to `apart` bytes behind that. base is
// wave-uniform. In assembly because the compiler, given the built-in, would wait for all of these
// in flight before any read of LDS: it cannot tell the parts of LDS apart. So it counts none of
// them, and the schedule waits by wait_memory and a barrier. A scalar write of m0 needs one wait
// state before the load, which s_nop 0 is.
template <int constant, int apart>
HK_INLINE void load_to_local(u32x4 descriptor, uint32_t first, uint32_t second, uint32_t base) {
  asm volatile(
      "s_add_u32 m0, %0, %4\n\t"
      "s_nop 0\n\t"
      "buffer_load_dwordx4 %1, %3, 0 offen lds\n\t"
      "s_add_u32 m0, %0, %5\n\t"
      "s_nop 0\n\t"
      "buffer_load_dwordx4 %2, %3, 0 offen lds"
      :
      : "s"(base), "v"(first), "v"(second), "s"(descriptor), "i"(constant), "i"(constant + apart)
      : "memory", "m0", "scc");
}
#endif

// A window as the four words that load_to_local takes. readfirstlane writes scalar registers from
// the vector unit, and a buffer instruction may read them five wait states later; the compiler does
// not see into assembly, so they pass here.
HK_INLINE u32x4 descriptor_words(const window& w) {
  u32x4 words = {static_cast<uint32_t>(w.base), static_cast<uint32_t>(w.base >> 32) & 0xffffu,
                 w.bytes, descriptor_word3};
  asm volatile("s_nop 4" : "+s"(words));
  return words;
}

// ---- Bits

// The lower (upper) halves of a and b, a's first.
HK_INLINE uint32_t lower_halves(uint32_t a, uint32_t b) {
  return __builtin_amdgcn_perm(b, a, 0x05040100u);
}
HK_INLINE uint32_t upper_halves(uint32_t a, uint32_t b) {
  return __builtin_amdgcn_perm(b, a, 0x07060302u);
}

// ---- The 16x16 matrix instruction: d[i][j] += sum over 32 terms of x[i][k] y[j][k], on fragments.

#if defined(__gfx950__)
HK_INLINE f32x4 multiply_add(bf16, u32x4 x, u32x4 y, f32x4 d) {
  return __builtin_amdgcn_mfma_f32_16x16x32_bf16(__builtin_bit_cast(bf16x8, x),
                                                 __builtin_bit_cast(bf16x8, y), d, 0, 0, 0);
}
HK_INLINE f32x4 multiply_add(f16, u32x4 x, u32x4 y, f32x4 d) {
  return __builtin_amdgcn_mfma_f32_16x16x32_f16(__builtin_bit_cast(f16x8, x),
                                                __builtin_bit_cast(f16x8, y), d, 0, 0, 0);
}
#else
template <class V>
HK_INLINE V half_of(u32x4 x, int half) {
  const u32x2 lower = x.xy, upper = x.zw;
  return __builtin_bit_cast(V, half == 0 ? lower : upper);
}
HK_INLINE f32x4 multiply_add(bf16, u32x4 x, u32x4 y, f32x4 d) {
  d = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(half_of<i16x4>(x, 0), half_of<i16x4>(y, 0), d, 0, 0,
                                                0);
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(half_of<i16x4>(x, 1), half_of<i16x4>(y, 1), d, 0,
                                                   0, 0);
}
HK_INLINE f32x4 multiply_add(f16, u32x4 x, u32x4 y, f32x4 d) {
  d = __builtin_amdgcn_mfma_f32_16x16x16f16(half_of<f16x4>(x, 0), half_of<f16x4>(y, 0), d, 0, 0, 0);
  return __builtin_amdgcn_mfma_f32_16x16x16f16(half_of<f16x4>(x, 1), half_of<f16x4>(y, 1), d, 0, 0,
                                               0);
}
#endif

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
