// Which architecture this translation unit realises tiles for, and the namespace that keeps it
// apart.
//
// Kernels for several instruction sets live in one binary, so everything that is compiled per
// architecture stands in `hk::inline HK_ARCH_NAMESPACE`: no two translation units built with
// different machine flags ever share a symbol that the linker could merge.
//
// A compiler for AMD GPUs chooses CDNA and the chip. On the host, define one of
// HK_HOST_ISA_{AVX512_BF16,AVX512,AVX2,NEON,PLAIN} to choose; otherwise the best one
// that the compiler's own flags allow is taken. HK_EMULATE_SIMD replaces the intrinsics header by
// an emulation on the include path, to run an instruction set that the machine lacks.
#pragma once

// The architecture family, HK_ARCH_HOST or HK_ARCH_CDNA; each types/ header includes that family's
// realisation.
#if defined(__AMDGCN__)
#define HK_ARCH_CDNA 1
#else
#define HK_ARCH_HOST 1
#endif

#if defined(HK_ARCH_CDNA)
#if defined(__gfx950__)
#define HK_ARCH_NAMESPACE device_gfx950
#elif defined(__gfx942__)
#define HK_ARCH_NAMESPACE device_gfx942
#else
#error "expected -mcpu=gfx942 or -mcpu=gfx950: the chips that arch/cdna describes"
#endif
#elif !defined(HK_HOST_ISA_AVX512_BF16) && !defined(HK_HOST_ISA_AVX512) && \
    !defined(HK_HOST_ISA_AVX2) && !defined(HK_HOST_ISA_NEON) && !defined(HK_HOST_ISA_PLAIN)
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512BF16__)
#define HK_HOST_ISA_AVX512_BF16 1
#elif defined(__AVX512F__) && defined(__AVX512BW__)
#define HK_HOST_ISA_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define HK_HOST_ISA_AVX2 1
#elif defined(__aarch64__)
#define HK_HOST_ISA_NEON 1
#else
#define HK_HOST_ISA_PLAIN 1
#endif
#endif

#if defined(HK_ARCH_CDNA)
// Named above.
#elif defined(HK_HOST_ISA_AVX512_BF16)
#define HK_ARCH_NAMESPACE host_avx512_bf16
#elif defined(HK_HOST_ISA_AVX512)
#define HK_ARCH_NAMESPACE host_avx512
#elif defined(HK_HOST_ISA_AVX2)
#define HK_ARCH_NAMESPACE host_avx2
#elif defined(HK_HOST_ISA_NEON)
#define HK_ARCH_NAMESPACE host_neon
#elif defined(HK_HOST_ISA_PLAIN)
#define HK_ARCH_NAMESPACE host_plain
#endif

// Every tile operation must disappear into its caller: a call would spill the registers it works
// on.
#define HK_INLINE inline __attribute__((always_inline))
#define HK_LAMBDA_INLINE __attribute__((always_inline))
#define HK_NOINLINE __attribute__((noinline))
#define HK_RESTRICT __restrict__
