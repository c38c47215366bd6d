// Rotary position embedding as plain data, for every architecture.
#pragma once

#include <cstdint>

#include "hk/core/dtype.h"

namespace hk {

// Rotates pairs of the first R of D elements of each head by the angle of the position
// p = clamp(offsets[b] + t, 0, P - 1); elements from R on are copied. Pair i is
//  half-split   (x[i], x[i + R/2])
//  interleaved  (x[2i], x[2i + 1])
// and (x0, x1) -> (x0 cos - x1 sin, x1 cos + x0 sin), with the sign of sin turned for `inverse`,
// computed in f32 and rounded once.
struct rotary_problem {
  dtype type;
  int64_t batch;       // B
  int64_t length;      // T
  int64_t heads;       // N
  int64_t head_dim;    // D
  int64_t rotary_dim;  // R, even, at most D
  int64_t positions;   // P, at least 1 when x has elements and R > 0

  bool interleaved;
  bool inverse;
  bool broadcast_tables;  // the tables are [1, P, R / 2]

  const void* x;           // [B, T, N, D] of type
  const float* cos;        // [B or 1, P, R / 2]
  const float* sin;        // [B or 1, P, R / 2]
  const int32_t* offsets;  // [B]
  void* y;                 // [B, T, N, D] of type
};

}  // namespace hk
