// Register vectors: one value for each row, or each column, of a register tile, or a piece of a row
// that an elementwise kernel works on.
//
// Every architecture's rv<T, N> has `T`, `length` (elements), `fragments`, get(i) and set(i, x) for
// fragment i, index_of(i) for the numbers of its elements, and v[j] for single elements. A fragment
// is what one instruction works on: a SIMD register on the host, a lane's registers on a GPU. iv<N>
// has the same for 32-bit integers, which are only moved and compared.
#pragma once

#include <concepts>

#include "hk/core/config.h"
#if HK_ARCH_HOST
#include "hk/arch/host/register_vector.h"
#endif

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

template <class V>
concept register_vector = requires(V v, const V c) {
  { V::length } -> std::convertible_to<int>;
  { V::fragments } -> std::convertible_to<int>;
  v.set(0, c.get(0));
};

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
