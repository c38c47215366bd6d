// Words for schedules: waits, barriers, priorities and fences. Device code only.
#pragma once

#include "hk/arch/cdna/instructions.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// The compiler moves no access of memory across.
HK_INLINE void fence() { asm volatile("" ::: "memory"); }

// The compiler moves no instruction at all across.
HK_INLINE void schedule_fence() { __builtin_amdgcn_sched_barrier(0); }

namespace detail {
// The operand of s_waitcnt; a counter at its largest value is not waited for.
constexpr int wait_operand(int vmcnt, int lgkmcnt) {
  return (vmcnt & 15) | (vmcnt >> 4) << 14 | 7 << 4 | lgkmcnt << 8;
}
}  // namespace detail

// Until at most `outstanding` of this wave's accesses of global memory, among them loads to LDS,
// are unfinished. They finish in order.
template <int outstanding>
HK_INLINE void wait_memory() {
  static_assert(outstanding >= 0 && outstanding < 63, "vmcnt counts to 62");
  fence();
  __builtin_amdgcn_s_waitcnt(detail::wait_operand(outstanding, 15));
  fence();
}

// Until at most `outstanding` of this wave's accesses of LDS are unfinished.
template <int outstanding>
HK_INLINE void wait_local() {
  static_assert(outstanding >= 0 && outstanding < 15, "lgkmcnt counts to 14");
  fence();
  __builtin_amdgcn_s_waitcnt(detail::wait_operand(63, outstanding));
  fence();
}

// Until every wave of the workgroup is here. Waits for no memory: what other waves shall see in LDS
// has to be waited for before.
HK_INLINE void barrier() {
  fence();
  __builtin_amdgcn_s_barrier();
  fence();
}

// While raised, this wave's instructions go before those of its neighbours on the SIMD.
HK_INLINE void raise_priority() { __builtin_amdgcn_s_setprio(1); }
HK_INLINE void lower_priority() { __builtin_amdgcn_s_setprio(0); }

// The ping-pong of 8 waves, two to a SIMD: waves 4 to 7 run one barrier behind, so that of each
// pair one multiplies while the other moves data. Opened before the loop, closed after it.
HK_INLINE void open_ping_pong() {
  if (wave_index() >= 4) barrier();
}
HK_INLINE void close_ping_pong() {
  if (wave_index() < 4) barrier();
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
