// The GEMM kernels of a target. A name says schedule, tile of C, operand type and how a and b are
// stored (n: as multiplied, t: transposed); device_plan.h picks them by these names.
#include "hk/kernels/gemm/cdna_reduce.h"
#include "hk/kernels/gemm/cdna_staged.h"

#define HK_KERNEL(threads, waves)                                           \
  extern "C" [[clang::amdgpu_kernel]] [[clang::amdgpu_flat_work_group_size( \
      threads, threads)]] [[clang::amdgpu_waves_per_eu(waves, waves)]]      \
  __attribute__((visibility("protected"))) void

// Local memory of a kernel, whose size the code object then states, and its address, a number.
#define HK_LOCAL_MEMORY(name, bytes)                                          \
  [[clang::loader_uninitialized]] static hk::local<char> name##_memory[bytes] \
      __attribute__((aligned(1024)));                                         \
  const uint32_t name = (uint32_t)(&name##_memory[0])

#define HK_STAGED(name, type, trans_a, trans_b, BM, BN, WM, WN, waves)                   \
  HK_KERNEL(64 * WM * WN, waves) name(hk::gemm_arguments p) {                            \
    HK_LOCAL_MEMORY(lds, (hk::gemm::staged_shape<hk::type, BM, BN, WM, WN>::lds_bytes)); \
    hk::gemm::multiply_staged<hk::type, trans_a, trans_b, BM, BN, WM, WN>(p, lds);       \
  }

#define HK_STAGED_LAYOUTS(BM, BN, WM, WN, waves, type)                                        \
  HK_STAGED(gemm_staged_##BM##x##BN##_##type##_nn, type, false, false, BM, BN, WM, WN, waves) \
  HK_STAGED(gemm_staged_##BM##x##BN##_##type##_nt, type, false, true, BM, BN, WM, WN, waves)  \
  HK_STAGED(gemm_staged_##BM##x##BN##_##type##_tn, type, true, false, BM, BN, WM, WN, waves)  \
  HK_STAGED(gemm_staged_##BM##x##BN##_##type##_tt, type, true, true, BM, BN, WM, WN, waves)

HK_STAGED_LAYOUTS(64, 64, 4, 1, 4, bf16)
HK_STAGED_LAYOUTS(64, 64, 4, 1, 4, f16)
HK_STAGED_LAYOUTS(128, 128, 2, 2, 2, bf16)
HK_STAGED_LAYOUTS(128, 128, 2, 2, 2, f16)
#if defined(__gfx942__)
HK_STAGED_LAYOUTS(256, 256, 2, 4, 2, bf16)
HK_STAGED_LAYOUTS(256, 256, 2, 4, 2, f16)
#endif

HK_KERNEL(256, 4) gemm_reduce(hk::gemm_reduction_arguments p) { hk::gemm::reduce(p); }
