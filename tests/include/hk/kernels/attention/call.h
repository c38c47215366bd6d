// One call of attention's kernels, its arrays and its check against the model.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "hk/kernels/attention/host.h"
#include "tests/include/hk/kernels/attention/model.h"
#include "tests/unit.h"

namespace attention_test {

using hk::attention_layout;
using hk::attention_problem;
using hk::causal_mask;

struct shape {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, head_dim = 8;
  int64_t value_dim = 0;  // head_dim, if 0
};

template <hk::element T>
T garbage() {
  return hk::from_float<T>(std::numeric_limits<float>::quiet_NaN());
}

// Arrays of one call and the problem that points to them; extras that are empty are absent. Results
// start as garbage, so that an element that is not written shows.
template <hk::element T>
struct call {
  attention_problem p{};
  std::vector<T> q, k, v, dout, out, dq, dk, dv;
  std::vector<float> dlse, lse, scale;
  std::vector<int32_t> q_lengths, kv_lengths, origin;

  std::vector<T> bias;
  std::vector<float> bias_f32;  // instead of bias, if not empty
  std::vector<float> dbias, sinks, slopes;
  std::vector<uint8_t> mask;
  std::vector<int32_t> q_segments, kv_segments, q_positions, kv_positions;
  std::vector<uint32_t> seed;

  explicit call(shape s)
      : scale(s.batch, 1.0f / std::sqrt(static_cast<float>(s.head_dim))),
        q_lengths(s.batch, s.queries),
        kv_lengths(s.batch, s.keys),
        origin(4 * s.batch, 0) {
    p.type = hk::element_traits<T>::type;
    p.batch = s.batch;
    p.queries = s.queries;
    p.keys = s.keys;
    p.heads = s.heads;
    p.kv_heads = s.kv_heads;
    p.head_dim = s.head_dim;
    p.value_dim = s.value_dim == 0 ? s.head_dim : s.value_dim;
    p.window_left = p.window_right = -1;
    p.sinks_batch = p.slopes_batch = p.seed_batch = 1;
    const size_t rows = s.batch * s.queries * s.heads;
    const size_t key_rows = s.batch * s.keys * s.kv_heads;
    q = unit::random_array<T>(rows * p.head_dim, 1);
    k = unit::random_array<T>(key_rows * p.head_dim, 2);
    v = unit::random_array<T>(key_rows * p.value_dim, 3);
    dout = unit::random_array<T>(rows * p.value_dim, 4);
    dlse = unit::random_array<float>(rows, 5);
    out.assign(dout.size(), garbage<T>());
    dq.assign(q.size(), garbage<T>());
    dk.assign(k.size(), garbage<T>());
    dv.assign(v.size(), garbage<T>());
    lse.assign(rows, garbage<float>());
  }

  // Gives the call a bias, or a mask of which about half is true, of these sizes.
  void add_bias(int64_t b, int64_t n, int64_t t, int64_t s) {
    p.bias = {nullptr, {b, n, t, s}};
    p.dbias = {nullptr, {b, n, t, s}};
    bias = unit::random_array<T>(b * n * t * s, 6);
    dbias.assign(bias.size(), garbage<float>());
  }
  void add_mask(int64_t b, int64_t n, int64_t t, int64_t s) {
    p.mask = {nullptr, {b, n, t, s}};
    for (float x : unit::random_array<float>(b * n * t * s, 7)) mask.push_back(x > 0);
  }
  void add_dropout(float rate) {
    p.dropout_rate = rate;
    seed = {0x12345678, 0x9abcdef0};
  }

  void run(int64_t threads = 2) {
    point_to_operands();
    unit::thread_pool pool(threads);
    p.out = out.data();
    p.lse = lse.data();
    CHECK_EQ(hk::attention_forward_host(p, pool.get()), hk::status::ok);
    p.dout = dout.data();
    p.dlse = dlse.data();
    p.dq = dq.data();
    p.dk = dk.data();
    p.dv = dv.data();
    p.dbias.data = pointer_to(dbias);
    CHECK_EQ(hk::attention_backward_host(p, pool.get()), hk::status::ok);
  }

  model::results expected() const {
    return model::attention(
        p, {unit::to_double(q), unit::to_double(k), unit::to_double(v), unit::to_double(dout),
            unit::to_double(dlse), unit::to_double(bias)});
  }

  // Tolerances are relative to the largest expected element, as rounding of the sums' terms is.
  void check(double tolerance) {
    run();
    const model::results e = expected();
    check_array(out, e.out, tolerance, "out");
    check_array(dq, e.dq, tolerance, "dq");
    check_array(dk, e.dk, tolerance, "dk");
    check_array(dv, e.dv, tolerance, "dv");
    if (!dbias.empty()) check_array(dbias, e.dbias, tolerance, "dbias");
    CHECK_ALL_CLOSE(lse, e.lse, 4e-6);
  }

  template <class A>
  void check_array(const std::vector<A>& actual, const model::array& expected, double tolerance,
                   const char* name) const {
    double largest = 1;
    for (double x : expected) largest = std::max(largest, std::abs(x));
    unit::check_all_close(actual, expected, tolerance * largest, name, __FILE__, __LINE__);
  }

 private:
  template <class A>
  static A* pointer_to(std::vector<A>& values) {
    return values.empty() ? nullptr : values.data();
  }

  void point_to_operands() {
    p.q = q.data();
    p.k = k.data();
    p.v = v.data();
    p.scale = scale.data();
    p.origin = origin.data();
    p.q_lengths = q_lengths.data();
    p.kv_lengths = kv_lengths.data();
    p.bias_is_f32 = !bias_f32.empty();
    p.bias.data = pointer_to(bias);
    if (p.bias_is_f32) p.bias.data = bias_f32.data();
    p.mask.data = pointer_to(mask);
    p.q_segments = pointer_to(q_segments);
    p.kv_segments = pointer_to(kv_segments);
    p.q_positions = pointer_to(q_positions);
    p.kv_positions = pointer_to(kv_positions);
    p.sinks = pointer_to(sinks);
    p.slopes = pointer_to(slopes);
    p.seed = pointer_to(seed);
  }
};

template <class T>
constexpr double tolerance = 4e-6;
template <>
constexpr double tolerance<hk::bf16> = 1.0 / 128;
template <>
constexpr double tolerance<hk::f16> = 1.0 / 1024;

template <class A>
bool all_zero(const std::vector<A>& values) {
  return std::all_of(values.begin(), values.end(), [](A x) { return hk::to_float(x) == 0; });
}

template <class A>
bool same_bits(const std::vector<A>& x, const std::vector<A>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(A)) == 0;
}

// Whether all results of two calls are the same, bit for bit.
template <class C>
bool same_results(const C& x, const C& y) {
  return same_bits(x.out, y.out) && same_bits(x.lse, y.lse) && same_bits(x.dq, y.dq) &&
         same_bits(x.dk, y.dk) && same_bits(x.dv, y.dv) && same_bits(x.dbias, y.dbias);
}

}  // namespace attention_test
