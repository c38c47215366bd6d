// What each file of this folder defines for its instruction set, and table.cc collects.
#pragma once

#include "ffi/host/table.h"
#include "hk/core/config.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

status attention_forward_entry(const attention_problem&, const launcher&);
status attention_backward_entry(const attention_problem&, const launcher&);
status gemm_entry(const gemm_problem&, const launcher&);
status norm_forward_entry(const norm_problem&, const launcher&);
status norm_backward_entry(const norm_problem&, const launcher&);
status rotary_entry(const rotary_problem&, const launcher&);

extern const host_kernels kernels;

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
