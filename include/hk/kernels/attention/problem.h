// Attention as plain data: what to compute and where the arrays are, for every architecture.
#pragma once

#include <cstdint>

#include "hk/core/dtype.h"

namespace hk {

// Which keys query t of batch entry b may attend to, before windows:
//  none          every s
//  top_left      s <= t
//  bottom_right  s - kv_lengths[b] <= t - q_lengths[b]: the last query sees the last key
enum class causal_mask : int32_t { none, top_left, bottom_right };

// Forward and backward share this struct. B batch entries, T queries, S keys, N query heads, K key
// heads (N a multiple of K; query head n reads key head n / (N / K)), D head dimension. Arrays are
// dense, row-major and hold `type` unless said otherwise.
//
// Let qn = clamp(q_lengths[b], 0, T), kn = clamp(kv_lengths[b], 0, S), and t' = t, or
// t + kv_lengths[b] - q_lengths[b] (as clamped) when causal is bottom_right. Key s is visible to
// query t when t < qn, s < kn, the causal mask allows it, and
// t' - window_left <= s <= t' + window_right (a window of -1 is unbounded on that side).
// A row that sees no key has out = 0, lse = -inf and gives zero gradients.
struct attention_problem {
  dtype type;
  int64_t batch;     // B
  int64_t queries;   // T
  int64_t keys;      // S
  int64_t heads;     // N
  int64_t kv_heads;  // K
  int64_t head_dim;  // D, 1 to 256

  causal_mask causal;
  int64_t window_left;   // in keys, at most T + S; -1 for unbounded
  int64_t window_right;  // likewise
  float scale;           // logit = scale * dot(q, k)

  const void* q;              // [B, T, N, D]
  const void* k;              // [B, S, K, D]
  const void* v;              // [B, S, K, D]
  const int32_t* q_lengths;   // [B], never null
  const int32_t* kv_lengths;  // [B], never null

  void* out;   // [B, T, N, D]; the forward writes it, the backward reads it
  float* lse;  // [B, N, T], natural log of the sum of exp(logit); likewise

  // Backward only; null in the forward.
  const void* dout;   // [B, T, N, D]
  const float* dlse;  // [B, N, T]
  void* dq;           // [B, T, N, D]
  void* dk;           // [B, S, K, D], summed over the N / K query heads in f32
  void* dv;           // [B, S, K, D], likewise
};

}  // namespace hk
