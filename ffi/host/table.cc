#include "ffi/host/table.h"

#include "ffi/host/entries.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

constinit const host_kernels kernels{
    .attention_forward = attention_forward_entry,
    .attention_backward = attention_backward_entry,
    .gemm = gemm_entry,
    .norm_forward = norm_forward_entry,
    .norm_backward = norm_backward_entry,
    .rotary = rotary_entry,
};

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
