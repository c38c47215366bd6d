// Layer and RMS norm with residual and dropout as plain data, for every architecture.
#pragma once

#include <cstdint>

#include "hk/core/dtype.h"

namespace hk {

enum class norm_kind : int32_t { layer, rms };

// Forward and backward share this struct. Rows R are independent, H is the normalised axis. Arrays
// of `type` are [R, H], dense and row-major; a pointer marked optional is null when absent.
//
// Forward:   h = round(residual + dropout(x)), statistics two-pass in f32 over the rounded h,
//            y = round((h - mean) * rstd * weight + bias);
//            rms has mean = 0 and rstd = 1 / sqrt(mean(h^2) + epsilon).
// Dropout:   element i (flat, in [R, H]) is kept when
//            philox4x32-10(counter = (lo(i / 4), hi(i / 4), 0, 0), key = seed)[i % 4]
//              >= floor(dropout_rate * 2^32),
//            and scaled by 1 / (1 - dropout_rate); a rate of 1 drops everything.
// Backward:  g = dh + d y / d h applied to dy, dresidual = round(g), dx = round(dropout'(g));
//            dweight and dbias sum over rows in an order that does not depend on the thread count.
struct norm_problem {
  dtype type;
  norm_kind kind;
  int64_t rows;  // R
  int64_t cols;  // H
  float epsilon;
  float dropout_rate;  // in [0, 1]; 0 is no dropout

  const uint32_t* seed;  // [2], never null
  const float* weight;   // [H], optional: 1
  const float* bias;     // [H], optional: 0 (forward only)

  // Forward reads x and residual, and writes y, h, mean and rstd; backward reads h, mean, rstd.
  const void* x;         // [R, H] (forward only)
  const void* residual;  // [R, H], optional: 0 (forward only)
  void* y;               // [R, H] (forward only)
  void* h;               // [R, H]; null in a forward where h is x (no residual and no dropout)
  float* mean;           // [R]; null for rms
  float* rstd;           // [R]

  // Backward only; null in the forward.
  const void* dy;   // [R, H]
  const void* dh;   // [R, H], optional: 0; the cotangent of h
  void* dx;         // [R, H]
  void* dresidual;  // [R, H], optional: not wanted, as it equals dx without dropout
  float* dweight;   // [H], optional: not wanted
  float* dbias;     // [H], optional: not wanted
};

}  // namespace hk
