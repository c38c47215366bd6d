// Layer and RMS norm with residual and dropout as plain data, for every architecture.
#pragma once

#include <cstdint>

#include "hk/core/dtype.h"

namespace hk {

enum class norm_kind : int32_t { layer, rms };

// An array of which each group of rows has a part of its own, or all groups share the only one.
template <class T>
struct per_group {
  T* data;         // null when absent
  int64_t stride;  // elements from one group's part to the next one's; 0 where all share one

  T* of(int64_t group) const { return data ? data + group * stride : nullptr; }
};

// Forward and backward share this struct. Rows R are independent, H is the normalised axis. Arrays
// of `type` are [R, H], dense and row-major; a pointer marked optional is null when absent.
//
// The rows are G groups of R / G each: row r is row r % (R / G) of group r / (R / G). A group has
// what a call of its own would have: weight, bias, seed and origin. An array [1 or G, ...] has a
// part for each group, or one that all share; each array for itself.
//
// Forward:   h = round(residual + dropout(x)), statistics two-pass in f32 over the rounded h,
//            y = round((h - mean) * rstd * weight + bias);
//            rms has mean = 0 and rstd = 1 / sqrt(mean(h^2) + epsilon).
// Dropout:   element i is kept when
//            philox4x32-10(counter = (lo(i / 4), hi(i / 4), 0, 0), key = seed)[i % 4]
//              >= floor(dropout_rate * 2^32),
//            and scaled by 1 / (1 - dropout_rate); a rate of 1 drops everything. Column j of row r
//            of a group is element i = (origin + r) * H + j, modulo 2^64.
// Origin:    the index of the group's first row in the caller's whole array, of which a device may
//            hold only some rows: so the mask is the same however the array is cut.
// Backward:  g = dh + d y / d h applied to dy, dresidual = round(g), dx = round(dropout'(g));
//            dweight and dbias sum over the rows of a group, or of all groups where there is one
//            sum for all, in an order that depends on R and G but not on the thread count.
struct norm_problem {
  dtype type;
  norm_kind kind;
  int64_t rows;        // R
  int64_t cols;        // H
  int64_t groups;      // G, at least 1
  int64_t group_rows;  // R / G
  float epsilon;
  float dropout_rate;  // in [0, 1]; 0 is no dropout

  per_group<const uint32_t> seed;    // [1 or G, 2], never null
  per_group<const uint32_t> origin;  // [1 or G, 2]: the low and the high word, never null
  per_group<const float> weight;     // [1 or G, H], optional: 1
  per_group<const float> bias;       // [1 or G, H], optional: 0 (forward only)

  // Forward reads x and residual, and writes y, h, mean and rstd; backward reads h, mean, rstd.
  const void* x;         // [R, H] (forward only)
  const void* residual;  // [R, H], optional: 0 (forward only)
  void* y;               // [R, H] (forward only)
  void* h;               // [R, H]; null in a forward where h is x (no residual and no dropout)
  float* mean;           // [R]; null for rms
  float* rstd;           // [R]

  // Backward only; null in the forward.
  const void* dy;            // [R, H]
  const void* dh;            // [R, H], optional: 0; the cotangent of h
  void* dx;                  // [R, H]
  void* dresidual;           // [R, H], optional: not wanted, as it equals dx without dropout
  per_group<float> dweight;  // [1 or G, H], optional: not wanted
  per_group<float> dbias;    // [1 or G, H], optional: not wanted
};

}  // namespace hk
