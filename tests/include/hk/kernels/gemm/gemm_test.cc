#include <cmath>
#include <vector>

#include "hk/kernels/gemm/host.h"
#include "tests/unit.h"

namespace {

using hk::activation;
using hk::dtype;

// One product: sizes, layouts, and what is fused into it.
struct test_case {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool trans_a = false, trans_b = false;
  bool broadcast_a = false, broadcast_b = false;
  activation act = activation::none;
  bool bias = false;
  bool preactivation = false;
  bool bias_of_entries = false;  // a row for each batch entry rather than one for all
};

double activate(double z, activation act) {
  switch (act) {
    case activation::silu:
      return z / (1 + std::exp(-z));
    case activation::gelu:
      return z / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
    case activation::gelu_exact:
      return z / 2 * std::erfc(-z / std::sqrt(2.0));
    default:
      return z;
  }
}

// Operands, the results asked for, and the same computed in float64.
template <class T, class To, class Tb>
struct run {
  explicit run(const test_case& c) : c(c) {
    const int64_t batch_a = c.broadcast_a ? 1 : c.batch, batch_b = c.broadcast_b ? 1 : c.batch;
    a = unit::random_array<T>(batch_a * c.m * c.k, 1);
    b = unit::random_array<T>(batch_b * c.k * c.n, 2, 1.0f / std::sqrt(float(c.k + 1)));
    bias = unit::random_array<Tb>(c.bias_of_entries ? c.batch * c.n : c.n, 3);
    out.assign(c.batch * c.m * c.n, hk::from_float<To>(-7.0f));
    z = out;
  }

  hk::status compute(const hk::launcher& launch) {
    hk::gemm_problem p{};
    p.in_type = hk::element_traits<T>::type;
    p.out_type = hk::element_traits<To>::type;
    p.batch = c.batch, p.m = c.m, p.n = c.n, p.k = c.k;
    p.trans_a = c.trans_a, p.trans_b = c.trans_b;
    p.broadcast_a = c.broadcast_a, p.broadcast_b = c.broadcast_b;
    p.act = c.act;
    p.a = a.data(), p.b = b.data();
    p.bias = c.bias ? bias.data() : nullptr;
    p.bias_rows = c.bias_of_entries ? c.m : 0;
    p.bias_type = hk::element_traits<Tb>::type;
    p.c = out.data();
    p.z = c.preactivation ? z.data() : nullptr;
    return hk::gemm_host(p, launch);
  }

  void expect() {
    const auto wide_a = unit::to_double(a), wide_b = unit::to_double(b);
    const auto wide_bias = unit::to_double(bias);
    for (int64_t i = 0; i < c.batch; ++i) {
      const double* a_i = wide_a.data() + (c.broadcast_a ? 0 : i * c.m * c.k);
      const double* b_i = wide_b.data() + (c.broadcast_b ? 0 : i * c.k * c.n);
      for (int64_t r = 0; r < c.m; ++r)
        for (int64_t j = 0; j < c.n; ++j) {
          double sum = c.bias ? wide_bias[(c.bias_of_entries ? i * c.n : 0) + j] : 0;
          for (int64_t k = 0; k < c.k; ++k)
            sum += a_i[c.trans_a ? k * c.m + r : r * c.k + k] *
                   b_i[c.trans_b ? j * c.k + k : k * c.n + j];
          expected_z.push_back(sum);
          expected.push_back(activate(sum, c.act));
        }
    }
  }

  test_case c;
  std::vector<T> a, b;
  std::vector<Tb> bias;
  std::vector<To> out, z;
  std::vector<double> expected, expected_z;
};

// The rounding of a result of type T, and of f32 sums of k terms of order 1 / sqrt(k): the errors
// of k additions grow like a random walk, one 2^-24 a step at most twice over.
template <class T>
double tolerance(int64_t k) {
  if (std::is_same_v<T, hk::bf16>) return 1.0 / 256;
  if (std::is_same_v<T, hk::f16>) return 1.0 / 2048;
  return 5e-7 + std::sqrt(static_cast<double>(k)) * 0x1p-23;
}

template <class T = float, class To = T, class Tb = float>
void check(const test_case& c, int threads = 2) {
  run<T, To, Tb> r(c);
  unit::thread_pool pool(threads);
  CHECK_EQ(r.compute(pool.get()), hk::status::ok);
  r.expect();
  CHECK_ALL_CLOSE(r.out, r.expected, tolerance<To>(c.k));
  if (c.preactivation) CHECK_ALL_CLOSE(r.z, r.expected_z, tolerance<To>(c.k));
}

template <class F>
void for_each_layout(F f) {
  for (bool trans_a : {false, true})
    for (bool trans_b : {false, true}) f(trans_a, trans_b);
}

}  // namespace

HK_TEST(every_layout_and_ragged_sizes) {
  for_each_layout([](bool trans_a, bool trans_b) {
    for (int64_t m : {1, 2, 5, 6, 7, 13, 48})
      for (int64_t n : {1, 15, 16, 17, 65})
        for (int64_t k : {1, 2, 3, 8, 31})
          check({.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b});
  });
}

HK_TEST(every_element_type) {
  for_each_layout([](bool trans_a, bool trans_b) {
    const test_case c{
        .m = 37, .n = 70, .k = 45, .trans_a = trans_a, .trans_b = trans_b, .bias = true};
    check<float, hk::bf16>(c);
    check<hk::bf16>(c);
    check<hk::bf16, float, hk::bf16>(c);
    check<hk::bf16, hk::f16>(c);
    check<hk::f16>(c);
    check<hk::f16, float, hk::f16>(c);
    check<hk::f16, hk::bf16>(c);
  });
}

HK_TEST(several_blocks_of_every_dimension) {
  for_each_layout([](bool trans_a, bool trans_b) {
    check({.m = 300, .n = 530, .k = 300, .trans_a = trans_a, .trans_b = trans_b});
    check<hk::bf16, float>({.m = 300, .n = 70, .k = 530, .trans_a = trans_a, .trans_b = trans_b});
  });
}

HK_TEST(few_rows_of_several_blocks) {
  for_each_layout([](bool trans_a, bool trans_b) {
    for (int64_t m : {1, 3, 8}) {
      const test_case c{.m = m, .n = 1099, .k = 523, .trans_a = trans_a, .trans_b = trans_b};
      check(c);
      check<hk::bf16, float>(c);
    }
    check({.m = 2, .n = 70, .k = 4500, .trans_a = trans_a, .trans_b = trans_b});
  });
}

HK_TEST(a_matrix_times_a_vector) {
  for_each_layout([](bool trans_a, bool trans_b) {
    for (bool bias : {false, true})
      check({.batch = 2,
             .m = 700,
             .n = 1,
             .k = 300,
             .trans_a = trans_a,
             .trans_b = trans_b,
             .broadcast_b = true,
             .bias = bias});
  });
}

HK_TEST(batches_and_broadcasting) {
  for_each_layout([](bool trans_a, bool trans_b) {
    for (bool broadcast_a : {false, true})
      for (bool broadcast_b : {false, true})
        check({.batch = 3,
               .m = 9,
               .n = 18,
               .k = 20,
               .trans_a = trans_a,
               .trans_b = trans_b,
               .broadcast_a = broadcast_a,
               .broadcast_b = broadcast_b,
               .bias = true});
  });
}

// Few rows and many, of which entries share B or not: with one B, all their rows are one matrix.
HK_TEST(a_bias_for_each_entry) {
  for_each_layout([](bool trans_a, bool trans_b) {
    for (bool broadcast_b : {false, true})
      for (int64_t m : {1, 3, 9, 50})
        for (int64_t n : {1, 18, 140}) {
          const test_case c{.batch = 5,
                            .m = m,
                            .n = n,
                            .k = 20,
                            .trans_a = trans_a,
                            .trans_b = trans_b,
                            .broadcast_b = broadcast_b,
                            .act = activation::silu,
                            .bias = true,
                            .preactivation = true,
                            .bias_of_entries = true};
          check(c);
          check<hk::bf16, float, hk::f16>(c);
        }
  });
  check({.batch = 3,
         .m = 2,
         .n = 5,
         .k = 4,
         .broadcast_a = true,
         .broadcast_b = true,
         .bias = true,
         .bias_of_entries = true});
}

// One row of bias, and the same row for each entry, are the same to the bit.
HK_TEST(a_bias_for_each_entry_adds_as_one_for_all_does) {
  const test_case shared{.batch = 4, .m = 7, .n = 70, .k = 33, .broadcast_b = true, .bias = true};
  test_case own = shared;
  own.bias_of_entries = true;
  run<float, float, float> one(shared), four(own);
  for (std::size_t i = 0; i < four.bias.size(); ++i) four.bias[i] = one.bias[i % 70];
  one.compute(unit::thread_pool(2).get());
  four.compute(unit::thread_pool(3).get());
  CHECK(one.out == four.out);
}

HK_TEST(activations_and_preactivation) {
  for (activation act :
       {activation::none, activation::gelu, activation::silu, activation::gelu_exact})
    for (bool bias : {false, true}) {
      const test_case c{.m = 20, .n = 33, .k = 50, .act = act, .bias = bias, .preactivation = true};
      check(c);
      check<hk::bf16>(c);
    }
}

// Far from zero and at the ends of the range, against float64: relative error, but where the result
// is too small for f32.
HK_TEST(activations_are_accurate_everywhere) {
  std::vector<float> points;
  for (float x = -14; x <= 14; x += 1.0f / 64) points.push_back(x);
  for (float x : {0.0f, 1e-30f, -1e-30f, 100.0f, -100.0f, 1e4f, -1e4f, 1e30f, -1e30f})
    points.push_back(x);
  const float one = 1;
  for (activation act : {activation::gelu, activation::silu, activation::gelu_exact}) {
    std::vector<float> result(points.size());
    hk::gemm_problem p{};
    p.in_type = p.out_type = dtype::f32;
    p.batch = 1, p.m = 1, p.n = static_cast<int64_t>(points.size()), p.k = 1;
    p.act = act, p.a = &one, p.b = points.data(), p.c = result.data();
    CHECK_EQ(hk::gemm_host(p, unit::thread_pool(1).get()), hk::status::ok);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double expected = activate(points[i], act);
      const double error = std::abs(result[i] - expected);
      // tanh cancels in gelu's own formula, so its float64 value is only good to 1e-16.
      if (error > 2e-6 * std::abs(expected) + 1e-13) CHECK_CLOSE(result[i], expected, 0);
    }
  }
}

HK_TEST(activations_keep_infinity_and_nan) {
  const float one = 1, points[] = {INFINITY, NAN};
  for (activation act : {activation::gelu, activation::silu, activation::gelu_exact}) {
    float result[2] = {};
    hk::gemm_problem p{};
    p.in_type = p.out_type = dtype::f32;
    p.batch = 1, p.m = 1, p.n = 2, p.k = 1;
    p.act = act, p.a = &one, p.b = points, p.c = result;
    CHECK_EQ(hk::gemm_host(p, unit::thread_pool(1).get()), hk::status::ok);
    CHECK_EQ(result[0], INFINITY);
    CHECK(std::isnan(result[1]));
  }
}

HK_TEST(nothing_to_sum_gives_the_bias) {
  for_each_layout([](bool trans_a, bool trans_b) {
    check({.m = 3, .n = 20, .k = 0, .trans_a = trans_a, .trans_b = trans_b});
    check({.m = 3,
           .n = 20,
           .k = 0,
           .trans_a = trans_a,
           .trans_b = trans_b,
           .act = activation::silu,
           .bias = true});
  });
}

HK_TEST(nothing_to_compute) {
  check({.batch = 0, .m = 3, .n = 4, .k = 5});
  check({.m = 0, .n = 4, .k = 5});
  check({.m = 3, .n = 0, .k = 5});
}

HK_TEST(threads_do_not_change_a_bit) {
  for_each_layout([](bool trans_a, bool trans_b) {
    for (int64_t m : {1, 5, 200}) {
      const test_case c{.m = m, .n = 1000, .k = 700, .trans_a = trans_a, .trans_b = trans_b};
      run<float, float, float> one(c), three(c);
      one.compute(unit::thread_pool(1).get());
      three.compute(unit::thread_pool(3).get());
      CHECK(one.out == three.out);
    }
  });
}

// Infinity and NaN in one row of A, or one column of B, stay in that row or column.
HK_TEST(non_finite_values_stay_where_they_are) {
  run<float, float, float> r({.m = 20, .n = 40, .k = 30});
  r.a[5 * 30 + 7] = INFINITY;
  r.b[9 * 40 + 3] = NAN;
  CHECK_EQ(r.compute(unit::thread_pool(1).get()), hk::status::ok);
  for (int64_t i = 0; i < 20; ++i)
    for (int64_t j = 0; j < 40; ++j) CHECK_EQ(std::isfinite(r.out[i * 40 + j]), i != 5 && j != 3);
}
