#include "ffi/host/entries.h"
#include "hk/kernels/attention/host.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

status attention_forward_entry(const attention_problem& problem, const launcher& launch) {
  return attention_forward_host(problem, launch);
}

status attention_backward_entry(const attention_problem& problem, const launcher& launch) {
  return attention_backward_host(problem, launch);
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
