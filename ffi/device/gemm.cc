// The GEMM kernels of a target. A name says schedule, tile of C, operand type and how a and b are
// stored (n: as multiplied, t: transposed); device_plan.h picks them by these names.
#include "hk/kernels/gemm/cdna_direct.h"
#include "hk/kernels/gemm/cdna_ping_pong.h"
#include "hk/kernels/gemm/cdna_reduce.h"
#include "hk/kernels/gemm/cdna_staged.h"

#define HK_KERNEL(threads, waves)                                           \
  extern "C" [[clang::amdgpu_kernel]] [[clang::amdgpu_flat_work_group_size( \
      threads, threads)]] [[clang::amdgpu_waves_per_eu(waves, waves)]]      \
  __attribute__((visibility("protected"))) void

// Local memory of a kernel, whose size the code object then states, and its address, a number.
#define HK_LOCAL_MEMORY(name, bytes)                                              \
  static_assert((bytes) <= hk::chip_traits::lds_bytes, "more than the chip has"); \
  [[clang::loader_uninitialized]] static hk::local<char> name##_memory[bytes]     \
      __attribute__((aligned(1024)));                                             \
  const uint32_t name = (uint32_t)(&name##_memory[0])

#define HK_STAGED(name, type, trans_a, trans_b, BM, BN, WM, WN, waves)                   \
  HK_KERNEL(64 * WM * WN, waves) name(hk::gemm_arguments p) {                            \
    HK_LOCAL_MEMORY(lds, (hk::gemm::staged_shape<hk::type, BM, BN, WM, WN>::lds_bytes)); \
    hk::gemm::multiply_staged<hk::type, trans_a, trans_b, BM, BN, WM, WN>(p, lds);       \
  }

#define HK_DIRECT(name, type, trans_a, trans_b, BM, BN, WM, WN, S)                             \
  HK_KERNEL(64 * WM * WN, 2) name(hk::gemm_arguments p) {                                      \
    HK_LOCAL_MEMORY(lds,                                                                       \
                    (hk::gemm::direct_shape<trans_a, trans_b, BM, BN, WM, WN, S>::lds_bytes)); \
    hk::gemm::multiply_direct<hk::type, trans_a, trans_b, BM, BN, WM, WN, S>(p, lds);          \
  }

#define HK_PING_PONG(name, type, trans_a, trans_b)                                      \
  HK_KERNEL(512, 2) name(hk::gemm_arguments p) {                                        \
    HK_LOCAL_MEMORY(lds, (hk::gemm::ping_pong<hk::type, trans_a, trans_b>::lds_bytes)); \
    hk::gemm::multiply_ping_pong<hk::type, trans_a, trans_b>(p, lds);                   \
  }

// One kernel for each layout: define(name, type, trans_a, trans_b, ...).
#define HK_LAYOUTS(define, name, type, ...)                                   \
  define(gemm_##name##_##type##_nn, type, false, false, ##__VA_ARGS__)        \
      define(gemm_##name##_##type##_nt, type, false, true, ##__VA_ARGS__)     \
          define(gemm_##name##_##type##_tn, type, true, false, ##__VA_ARGS__) \
              define(gemm_##name##_##type##_tt, type, true, true, ##__VA_ARGS__)
#define HK_GEMM(define, name, ...)              \
  HK_LAYOUTS(define, name, bf16, ##__VA_ARGS__) \
  HK_LAYOUTS(define, name, f16, ##__VA_ARGS__)

#if defined(__gfx950__)
HK_GEMM(HK_PING_PONG, pingpong_256x256)
HK_GEMM(HK_DIRECT, direct_128x128, 128, 128, 2, 2, 2)
HK_GEMM(HK_DIRECT, direct_64x64, 64, 64, 4, 1, 4)
#else
HK_GEMM(HK_STAGED, staged_256x256, 256, 256, 2, 4, 2)
#endif
HK_GEMM(HK_STAGED, staged_128x128, 128, 128, 2, 2, 2)
HK_GEMM(HK_STAGED, staged_64x64, 64, 64, 4, 1, 4)

HK_KERNEL(256, 4) gemm_reduce(hk::gemm_reduction_arguments p) { hk::gemm::reduce(p); }
