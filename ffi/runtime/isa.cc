#include "ffi/runtime/isa.h"

#include <cstdlib>
#include <stdexcept>

// The tables that ffi/host/table.cc defines, one per instruction set that the build is asked for
// (HK_HAVE_*, from HK_HOST_ISAS in cmake/host_isas.cmake).
namespace hk {
namespace host_avx512_bf16 {
extern const host_kernels kernels;
}
namespace host_avx512 {
extern const host_kernels kernels;
}
namespace host_avx2 {
extern const host_kernels kernels;
}
namespace host_neon {
extern const host_kernels kernels;
}
namespace host_plain {
extern const host_kernels kernels;
}
}  // namespace hk

namespace jax_hipkittens {
namespace {

constexpr char kVariable[] = "JAX_HIPKITTENS_HOST_ISA";

#if defined(__x86_64__)
[[maybe_unused]] bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

[[maybe_unused]] bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

[[maybe_unused]] bool has_avx512_bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512bf16");
}
#endif

std::string join_names(const std::vector<host_isa>& isas) {
  std::string names;
  for (const host_isa& isa : isas) {
    if (!names.empty()) names += ", ";
    names += isa.name;
  }
  return names;
}

}  // namespace

std::vector<host_isa> supported_host_isas() {
  std::vector<host_isa> isas;
#if defined(HK_HAVE_AVX512_BF16)
  if (has_avx512_bf16()) isas.push_back({"avx512_bf16", &hk::host_avx512_bf16::kernels});
#endif
#if defined(HK_HAVE_AVX512)
  if (has_avx512()) isas.push_back({"avx512", &hk::host_avx512::kernels});
#endif
#if defined(HK_HAVE_AVX2)
  if (has_avx2()) isas.push_back({"avx2", &hk::host_avx2::kernels});
#endif
#if defined(HK_HAVE_NEON)
  isas.push_back({"neon", &hk::host_neon::kernels});
#endif
  isas.push_back({"plain", &hk::host_plain::kernels});
  return isas;
}

host_isa choose_host_isa() {
  const std::vector<host_isa> isas = supported_host_isas();
  const char* wanted = std::getenv(kVariable);
  if (wanted == nullptr || *wanted == '\0') return isas.front();
  for (const host_isa& isa : isas) {
    if (isa.name == wanted) return isa;
  }
  throw std::invalid_argument(std::string(kVariable) + ": expected one of " + join_names(isas) +
                              " on this CPU, received '" + wanted + "'");
}

}  // namespace jax_hipkittens
