// The norms, their gradients and the dropout mask in float64 and one element at a time.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "hk/kernels/norm/problem.h"

namespace norm_oracle {

using array = std::vector<double>;

// The four random words of counter (group, 0, 0), straight from the paper's definition.
inline std::vector<std::uint32_t> philox(std::uint64_t group, const std::uint32_t* seed) {
  std::uint64_t c[4] = {group & 0xffffffffu, group >> 32, 0, 0};
  std::uint64_t k[2] = {seed[0], seed[1]};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t first = 0xd2511f53u * c[0], second = 0xcd9e8d57u * c[2];
    const std::uint64_t next[4] = {(second >> 32) ^ c[1] ^ k[0], second & 0xffffffffu,
                                   (first >> 32) ^ c[3] ^ k[1], first & 0xffffffffu};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k[0] = (k[0] + 0x9e3779b9u) & 0xffffffffu;
    k[1] = (k[1] + 0xbb67ae85u) & 0xffffffffu;
  }
  return {std::uint32_t(c[0]), std::uint32_t(c[1]), std::uint32_t(c[2]), std::uint32_t(c[3])};
}

// 1 / (1 - rate) where element i is kept, and 0 elsewhere.
inline double dropout_factor(std::int64_t i, float rate, const std::uint32_t* seed) {
  const double threshold = std::floor(static_cast<double>(rate) * 4294967296.0);
  if (philox(static_cast<std::uint64_t>(i) / 4, seed)[i % 4] < threshold) return 0.0;
  return 1.0 / (1.0 - static_cast<double>(rate));
}

struct statistics {
  double mean;
  double rstd;
};

inline statistics row_statistics(const double* h, std::int64_t cols, hk::norm_kind kind,
                                 double epsilon) {
  double mean = 0.0, square = 0.0;
  if (kind == hk::norm_kind::layer)
    for (std::int64_t j = 0; j < cols; ++j) mean += h[j] / static_cast<double>(cols);
  for (std::int64_t j = 0; j < cols; ++j)
    square += (h[j] - mean) * (h[j] - mean) / static_cast<double>(cols);
  return {mean, 1.0 / std::sqrt(square + epsilon)};
}

struct gradients {
  array g;  // of h, and so of the residual
  array dweight;
  array dbias;
};

// Gradients from the arrays h, dy, dh [R, H] (dh may be empty) and weight [H] (may be empty).
inline gradients backward(const array& h, const array& dy, const array& dh, const array& weight,
                          std::int64_t rows, std::int64_t cols, hk::norm_kind kind,
                          double epsilon) {
  gradients out{array(h.size()), array(cols), array(cols)};
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t first = r * cols;
    const statistics s = row_statistics(&h[first], cols, kind, epsilon);
    double mean_u = 0.0, mean_un = 0.0;
    const auto n = [&](std::int64_t j) { return (h[first + j] - s.mean) * s.rstd; };
    const auto u = [&](std::int64_t j) {
      return dy[first + j] * (weight.empty() ? 1.0 : weight[j]);
    };
    for (std::int64_t j = 0; j < cols; ++j) {
      if (kind == hk::norm_kind::layer) mean_u += u(j) / static_cast<double>(cols);
      mean_un += u(j) * n(j) / static_cast<double>(cols);
      out.dweight[j] += dy[first + j] * n(j);
      out.dbias[j] += dy[first + j];
    }
    for (std::int64_t j = 0; j < cols; ++j)
      out.g[first + j] =
          s.rstd * (u(j) - mean_u - n(j) * mean_un) + (dh.empty() ? 0.0 : dh[first + j]);
  }
  return out;
}

}  // namespace norm_oracle
