// The rotation itself, on vectors: shared by every architecture.
#pragma once

#include "hk/ops/maps.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace rotary {

// (x0, x1) -> (x0 cos - x1 sin, x1 cos + x0 sin), elementwise and in place.
template <register_vector V>
HK_INLINE void rotate(V& x0, V& x1, const V& cos, const V& sin) {
  V y0, y1;
  mul(y0, x1, sin);
  neg(y0, y0);
  mul_add(y0, x0, cos, y0);
  mul(y1, x0, sin);
  mul_add(x1, x1, cos, y1);
  copy(x0, y0);
}

// The row of the tables for step t of a batch entry: offset + t, kept inside [0, positions).
constexpr HK_INLINE std::int64_t position(std::int32_t offset, std::int64_t t,
                                          std::int64_t positions) {
  const std::int64_t p = offset + t;
  return p < 0 ? 0 : p < positions ? p : positions - 1;
}

}  // namespace rotary
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
