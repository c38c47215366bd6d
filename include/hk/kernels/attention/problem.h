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

// The order of the axes of q, k, v, out and their gradients: [B, T, N, D] or [B, N, T, D].
enum class attention_layout : int32_t { btnh, bnth };

// An array over the scores [B, N, T, S] that is repeated along the axes where its size is 1; null
// when absent.
template <class T>
struct score_array {
  T* data;
  int64_t sizes[4];

  bool repeats(int axis) const { return sizes[axis] == 1; }

  // From one entry of an axis to the next, in elements.
  int64_t stride(int axis) const {
    if (repeats(axis)) return 0;
    int64_t product = 1;
    for (int i = axis + 1; i < 4; ++i) product *= sizes[i];
    return product;
  }

  // Where entry (b, n, t, s) stands.
  int64_t at(int64_t b, int64_t n, int64_t t, int64_t s) const {
    return b * stride(0) + n * stride(1) + t * stride(2) + s * stride(3);
  }
};

// Forward and backward share this struct. B batch entries, T queries, S keys, N query heads, K key
// heads (N a multiple of K; query head n reads key head n / (N / K)), D head dimension of queries
// and keys, E of values. Arrays are dense, row-major and hold `type` unless said otherwise; those
// marked optional are null when absent. Shapes are those of attention_layout::btnh.
//
// For entry b, head n, query t and key s let qn = clamp(q_lengths[b], 0, T), kn =
// clamp(kv_lengths[b], 0, S), and o = origin[b]. The query's position is t + o[2] or
// q_positions[b][t], the key's position j is s + o[3] or kv_positions[b][s]; t' is the query's,
// plus kn - qn when causal is bottom_right. Key s is visible to query t when t < qn, s < kn, the
// causal mask allows it, t' - window_left <= j <= t' + window_right (a window of -1 is unbounded on
// that side), the mask is true and their segments are equal. Then
//
//   x = scale[b] * dot(q, k)
//   x = soft_cap * tanh(x / soft_cap)    if soft_cap is not 0
//   logit = x - slopes[n] * |t' - j| + bias
//   lse = log(sum over visible keys of exp(logit), plus exp(sinks[n]))
//   P = exp(logit - lse),  out = sum over keys of P keep / (1 - dropout_rate) V
//
// where a bias of -inf hides a key as the mask does. A row that sees no key has out = 0, lse =
// sinks[n], -inf without sinks or for t >= qn, and gives zero gradients.
//
// Dropout keeps an element when word i % 4 of philox4x32-10(counter = (i / 4, o[2] + t, o[1] + n,
// o[0]), key = seed) >= floor(dropout_rate * 2^32), where i = o[3] + s, all modulo 2^32; a rate of
// 1 drops everything. Softmax and lse do not see it.
struct attention_problem {
  dtype type;
  attention_layout layout;
  int64_t batch;      // B
  int64_t queries;    // T
  int64_t keys;       // S
  int64_t heads;      // N
  int64_t kv_heads;   // K
  int64_t head_dim;   // D, 1 to 256
  int64_t value_dim;  // E, 1 to 256

  causal_mask causal;
  int64_t window_left;   // in positions, at most 2^40; -1 for unbounded
  int64_t window_right;  // likewise
  float soft_cap;        // 0 for none
  float dropout_rate;    // in [0, 1]; 0 is no dropout

  const void* q;              // [B, T, N, D]
  const void* k;              // [B, S, K, D]
  const void* v;              // [B, S, K, E]
  const int32_t* q_lengths;   // [B], never null
  const int32_t* kv_lengths;  // [B], never null
  const float* scale;         // [B], never null
  const int32_t* origin;      // [B, 4], never null: (batch id, first head, first query, first key)

  bool bias_is_f32;                 // else `type`
  score_array<const void> bias;     // optional
  score_array<const uint8_t> mask;  // optional; 0 or 1
  const int32_t* q_segments;        // [B, T], optional
  const int32_t* kv_segments;       // [B, S], where q_segments is
  const int32_t* q_positions;       // [B, T], optional
  const int32_t* kv_positions;      // [B, S], where q_positions is
  const float* sinks;               // [B or 1, N], optional
  const float* slopes;              // [B or 1, N], optional
  const uint32_t* seed;             // [B or 1, 2], null without dropout
  int64_t sinks_batch;              // each 1 or B
  int64_t slopes_batch;
  int64_t seed_batch;

  void* out;   // [B, T, N, E]; the forward writes it, the backward reads it
  float* lse;  // [B, N, T], natural log of the sum of exp(logit); likewise

  // Backward only; null in the forward.
  const void* dout;          // [B, T, N, E]
  const float* dlse;         // [B, N, T]
  void* dq;                  // [B, T, N, D]
  void* dk;                  // [B, S, K, D], summed over the N / K query heads in f32
  void* dv;                  // [B, S, K, E], likewise
  score_array<float> dbias;  // of bias's shape, optional
};

}  // namespace hk
