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
};

struct results {
  array out, lse, dq, dk, dv;
};

inline bool sees(const hk::attention_problem& p, int64_t b, int64_t t, int64_t s) {
  const int64_t queries = std::clamp<int64_t>(p.q_lengths[b], 0, p.queries);
  const int64_t keys = std::clamp<int64_t>(p.kv_lengths[b], 0, p.keys);
  if (t >= queries || s >= keys) return false;
  const int64_t at = p.causal == hk::causal_mask::bottom_right ? t + keys - queries : t;
  if (p.causal != hk::causal_mask::none && s > at) return false;
  if (p.window_left >= 0 && s < at - p.window_left) return false;
  return p.window_right < 0 || s <= at + p.window_right;
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

// One row (b, t, n) of the problem: its probabilities over all keys, which sum to one or are all 0.
struct row {
  const hk::attention_problem& p;
  int64_t b, t, n;

  int64_t query() const { return ((b * p.queries + t) * p.heads + n) * p.head_dim; }
  int64_t scalar() const { return (b * p.heads + n) * p.queries + t; }
  int64_t key(int64_t s) const {
    return ((b * p.keys + s) * p.kv_heads + n / (p.heads / p.kv_heads)) * p.head_dim;
  }

  array probabilities(const inputs& in, double& lse) const {
    const double none = -std::numeric_limits<double>::infinity();
    array logits(p.keys, none);
    for (int64_t s = 0; s < p.keys; ++s)
      if (sees(p, b, t, s)) logits[s] = p.scale * dot(&in.q[query()], &in.k[key(s)], p.head_dim);
    const double highest = p.keys ? *std::max_element(logits.begin(), logits.end()) : none;
    lse = none;
    if (highest == none) return array(p.keys, 0.0);
    double sum = 0;
    for (double& x : logits) sum += x = std::exp(x - highest);
    for (double& x : logits) x /= sum;
    lse = highest + std::log(sum);
    return logits;
  }

  void run(const inputs& in, results& to) const {
    const array probability = probabilities(in, to.lse[scalar()]);
    for (int64_t s = 0; s < p.keys; ++s)
      add(&to.out[query()], &in.v[key(s)], probability[s], p.head_dim);
    if (!in.dout.empty()) run_backward(in, probability, to);
  }

  void run_backward(const inputs& in, const array& probability, results& to) const {
    const double* dout = &in.dout[query()];
    const double delta = dot(dout, &to.out[query()], p.head_dim) - in.dlse[scalar()];
    for (int64_t s = 0; s < p.keys; ++s) {
      if (probability[s] == 0) continue;
      const double dp = dot(dout, &in.v[key(s)], p.head_dim);
      const double ds = p.scale * probability[s] * (dp - delta);
      add(&to.dq[query()], &in.k[key(s)], ds, p.head_dim);
      add(&to.dk[key(s)], &in.q[query()], ds, p.head_dim);
      add(&to.dv[key(s)], dout, probability[s], p.head_dim);
    }
  }
};

inline results attention(const hk::attention_problem& p, const inputs& in) {
  results to{array(in.q.size()), array(p.batch * p.heads * p.queries), array(in.q.size()),
             array(in.k.size()), array(in.k.size())};
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t t = 0; t < p.queries; ++t)
      for (int64_t n = 0; n < p.heads; ++n) row{p, b, t, n}.run(in, to);
  return to;
}

}  // namespace model
