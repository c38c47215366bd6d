#include "ffi/host/entries.h"
#include "hk/kernels/norm/host.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

status norm_forward_entry(const norm_problem& problem, const launcher& launch) {
  return norm_forward_host(problem, launch);
}

status norm_backward_entry(const norm_problem& problem, const launcher& launch) {
  return norm_backward_host(problem, launch);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
