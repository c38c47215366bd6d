#include "ffi/host/entries.h"
#include "hk/kernels/rotary/host.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

status rotary_entry(const rotary_problem& problem, const launcher& launch) {
  return rotary_host(problem, launch);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
