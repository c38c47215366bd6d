#include "ffi/host/entries.h"
#include "hk/kernels/gemm/host.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

status gemm_entry(const gemm_problem& problem, const launcher& launch) {
  return gemm_host(problem, launch);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
