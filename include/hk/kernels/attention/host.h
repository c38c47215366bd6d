// Attention on the host: the entry points, and the choice of the kernel's template.
#pragma once

#include <algorithm>

#include "hk/kernels/attention/host_backward.h"
#include "hk/kernels/attention/host_forward.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// f(operand type, head dimension) for the problem's type and the smallest tile that holds its D and
// E.
template <class F>
HK_INLINE status choose_tiles(const attention_problem& p, F f) {
  return visit(p.type, [&]<class T>(T*) {
    using U = operand<T>;
    const std::int64_t widest = std::max(p.head_dim, p.value_dim);
    if (widest <= 64) return f.template operator()<U, 64>();
    if (widest <= 128) return f.template operator()<U, 128>();
    return f.template operator()<U, 256>();
  });
}

}  // namespace attention

// Writes out and lse.
inline status attention_forward_host(const attention_problem& p, const launcher& launch) {
  return attention::choose_tiles(
      p, [&]<class U, int D> { return attention::attention_forward<U, D>(p, launch); });
}

// Writes dq, dk, dv and dbias, if it is asked for.
inline status attention_backward_host(const attention_problem& p, const launcher& launch) {
  return attention::choose_tiles(
      p, [&]<class U, int D> { return attention::attention_backward<U, D>(p, launch); });
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
