// Rows in order, with the group that each belongs to.
#pragma once

#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/norm/problem.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace norm {

// Calls body(row, group) for the rows [begin, end). Rows of one group follow each other in a loop
// of their own, so that finding a group's arrays costs nothing for each row.
template <class Body>
HK_INLINE void for_each_row(const norm_problem& problem, std::int64_t begin, std::int64_t end,
                            Body body) {
  while (begin < end) {
    const std::int64_t group = begin / problem.group_rows;
    const std::int64_t last = piece_end(end, begin, (group + 1) * problem.group_rows - begin);
    for (; begin < last; ++begin) body(begin, group);
  }
}

}  // namespace norm
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
