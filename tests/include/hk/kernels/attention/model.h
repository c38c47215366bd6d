// Attention in float64, as its definition reads: the oracle of the kernels' tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "hk/kernels/attention/problem.h"

namespace model {

using array = std::vector<double>;

struct inputs {
  array q, k, v, dout, dlse;  // dout and dlse may be empty for the forward alone
  array bias;
};

struct results {
  array out, lse, dq, dk, dv, dbias;
};

// Word i % 4 of Philox 4x32-10 for counter (i / 4, t, n, b), as the authors' paper defines it.
inline uint32_t draw(uint32_t i, uint32_t t, uint32_t n, uint32_t b, const uint32_t* seed) {
  uint32_t c[4] = {i / 4, t, n, b};
  uint32_t k[2] = {seed[0], seed[1]};
  for (int round = 0; round < 10; ++round) {
    const uint64_t x = uint64_t{0xd2511f53} * c[0], y = uint64_t{0xcd9e8d57} * c[2];
    const uint32_t next[4] = {
        static_cast<uint32_t>(y >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(y),
        static_cast<uint32_t>(x >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(x)};
    std::copy_n(next, 4, c);
    k[0] += 0x9e3779b9;
    k[1] += 0xbb67ae85;
  }
  return c[i % 4];
}

inline double dot(const double* x, const double* y, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

// y += factor * x
inline void add(double* y, const double* x, double factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += factor * x[i];
}

// One row (b, t, n) of the problem.
struct row {
  const hk::attention_problem& p;
  int64_t b, t, n;

  // Where the row of a query-like and of a key-like array starts.
  int64_t place(int64_t length, int64_t heads, int64_t at, int64_t head, int64_t width) const {
    const bool heads_last = p.layout == hk::attention_layout::btnh;
    const int64_t in_entry = heads_last ? at * heads + head : head * length + at;
    return (b * length * heads + in_entry) * width;
  }
  int64_t query(int64_t width) const { return place(p.queries, p.heads, t, n, width); }
  int64_t key(int64_t s, int64_t width) const {
    return place(p.keys, p.kv_heads, s, n / (p.heads / p.kv_heads), width);
  }
  int64_t scalar() const { return (b * p.heads + n) * p.queries + t; }

  int64_t queries() const { return std::clamp<int64_t>(p.q_lengths[b], 0, p.queries); }
  int64_t keys() const { return std::clamp<int64_t>(p.kv_lengths[b], 0, p.keys); }

  int64_t query_position() const {
    const int64_t own = p.q_positions ? p.q_positions[b * p.queries + t] : t + p.origin[4 * b + 2];
    return p.causal == hk::causal_mask::bottom_right ? own + keys() - queries() : own;
  }
  int64_t key_position(int64_t s) const {
    return p.kv_positions ? p.kv_positions[b * p.keys + s] : s + p.origin[4 * b + 3];
  }

  bool sees(int64_t s) const {
    if (t >= queries() || s >= keys()) return false;
    const int64_t from = query_position(), to = key_position(s);
    if (p.causal != hk::causal_mask::none && to > from) return false;
    if (p.window_left >= 0 && to < from - p.window_left) return false;
    if (p.window_right >= 0 && to > from + p.window_right) return false;
    if (p.q_segments && p.q_segments[b * p.queries + t] != p.kv_segments[b * p.keys + s])
      return false;
    return !p.mask.data || p.mask.data[p.mask.at(b, n, t, s)] != 0;
  }

  double per_head(const float* values, int64_t batches) const {
    return values[(batches == 1 ? 0 : b) * p.heads + n];
  }

  // The capped score; the derivative of the cap is 1 - (score / cap)^2.
  double score(const inputs& in, int64_t s) const {
    const double x =
        p.scale[b] * dot(&in.q[query(p.head_dim)], &in.k[key(s, p.head_dim)], p.head_dim);
    return p.soft_cap != 0 ? p.soft_cap * std::tanh(x / p.soft_cap) : x;
  }
  double cap_derivative(double score) const {
    return p.soft_cap != 0 ? 1 - score / p.soft_cap * (score / p.soft_cap) : 1;
  }

  double logit(const inputs& in, int64_t s) const {
    double x = score(in, s);
    if (p.slopes)
      x -= per_head(p.slopes, p.slopes_batch) *
           static_cast<double>(std::abs(query_position() - key_position(s)));
    if (p.bias.data) x += in.bias[p.bias.at(b, n, t, s)];
    return x;
  }

  // keep / (1 - rate)
  double kept(int64_t s) const {
    if (p.dropout_rate == 0) return 1;
    if (p.dropout_rate >= 1) return 0;
    const int32_t* o = p.origin + 4 * b;
    const uint32_t word = draw(static_cast<uint32_t>(o[3] + s), static_cast<uint32_t>(o[2] + t),
                               static_cast<uint32_t>(o[1] + n), static_cast<uint32_t>(o[0]),
                               p.seed + (p.seed_batch == 1 ? 0 : 2 * b));
    return word >= static_cast<uint32_t>(p.dropout_rate * 0x1p32f)
               ? 1 / (1 - double{p.dropout_rate})
               : 0;
  }

  array probabilities(const inputs& in, double& lse) const {
    const double none = -std::numeric_limits<double>::infinity();
    array logits(p.keys, none);
    for (int64_t s = 0; s < p.keys; ++s)
      if (sees(s)) logits[s] = logit(in, s);
    const double sink = p.sinks && t < queries() ? per_head(p.sinks, p.sinks_batch) : none;
    double highest = sink;
    for (double x : logits) highest = std::max(highest, x);
    lse = none;
    if (highest == none) return array(p.keys, 0.0);
    double sum = std::exp(sink - highest);
    for (double& x : logits) sum += x = std::exp(x - highest);
    for (double& x : logits) x /= sum;
    lse = highest + std::log(sum);
    return logits;
  }

  void run(const inputs& in, results& to) const {
    const array probability = probabilities(in, to.lse[scalar()]);
    for (int64_t s = 0; s < p.keys; ++s)
      add(&to.out[query(p.value_dim)], &in.v[key(s, p.value_dim)], probability[s] * kept(s),
          p.value_dim);
    if (!in.dout.empty()) run_backward(in, probability, to);
  }

  void run_backward(const inputs& in, const array& probability, results& to) const {
    const double* dout = &in.dout[query(p.value_dim)];
    const double delta = dot(dout, &to.out[query(p.value_dim)], p.value_dim) - in.dlse[scalar()];
    for (int64_t s = 0; s < p.keys; ++s) {
      if (probability[s] == 0) continue;
      const double dp = kept(s) * dot(dout, &in.v[key(s, p.value_dim)], p.value_dim);
      const double dlogit = probability[s] * (dp - delta);
      if (p.bias.data) to.dbias[p.bias.at(b, n, t, s)] += dlogit;
      const double ds = p.scale[b] * dlogit * cap_derivative(score(in, s));
      add(&to.dq[query(p.head_dim)], &in.k[key(s, p.head_dim)], ds, p.head_dim);
      add(&to.dk[key(s, p.head_dim)], &in.q[query(p.head_dim)], ds, p.head_dim);
      add(&to.dv[key(s, p.value_dim)], dout, probability[s] * kept(s), p.value_dim);
    }
  }
};

inline results attention(const hk::attention_problem& p, const inputs& in) {
  const int64_t query_rows = p.batch * p.heads * p.queries;
  results to{array(query_rows * p.value_dim),
             array(query_rows),
             array(in.q.size()),
             array(in.k.size()),
             array(in.v.size()),
             array(in.bias.size())};
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t t = 0; t < p.queries; ++t)
      for (int64_t n = 0; n < p.heads; ++n) row{p, b, t, n}.run(in, to);
  return to;
}

}  // namespace model
