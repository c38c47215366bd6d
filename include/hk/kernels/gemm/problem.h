// Matrix product as plain data: what to compute and where the arrays are, for every architecture.
#pragma once

#include <cstdint>

#include "hk/core/dtype.h"

namespace hk {

// gelu is the tanh approximation, gelu_exact uses erf, silu is z * sigmoid(z).
enum class activation : int32_t { none, gelu, silu, gelu_exact };

// z[i] = a[i] @ b[i] + bias[i], c = activation(z), for i in [0, B): [M, K] times [K, N],
// accumulated in f32 and rounded once into c (and once into z). Arrays are dense and row-major.
// K = 0 gives the bias alone.
struct gemm_problem {
  dtype in_type;   // of a and b
  dtype out_type;  // of c and z
  int64_t batch;   // B
  int64_t m;       // M
  int64_t n;       // N
  int64_t k;       // K

  bool trans_a;      // a is stored [K, M] rather than [M, K]
  bool trans_b;      // b is stored [N, K] rather than [K, N]
  bool broadcast_a;  // one matrix serves every batch entry
  bool broadcast_b;  // likewise for b
  activation act;

  const void* a;      // [B or 1, M, K] or [B or 1, K, M]
  const void* b;      // [B or 1, K, N] or [B or 1, N, K]
  const void* bias;   // [B or 1, N] or null: row r of entry i adds row (i M + r) / bias_rows of it
  int64_t bias_rows;  // M where each entry has a row of its own, and 0 where one serves all
  dtype bias_type;    // meaningful where bias is not null
  void* c;            // [B, M, N]
  void* z;            // [B, M, N], the pre-activation, or null when nobody wants it
};

}  // namespace hk
