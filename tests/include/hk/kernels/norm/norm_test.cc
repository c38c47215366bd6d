// norm_forward_host and norm_backward_host against float64.

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "hk/kernels/norm/host.h"
#include "tests/include/hk/kernels/norm/oracle.h"
#include "tests/unit.h"

namespace {

using hk::norm_kind;
using norm_oracle::array;

struct shape {
  std::int64_t rows;
  std::int64_t cols;
};

// The groups of rows, and of which arrays each group has a part of its own.
struct grouping {
  std::int64_t count = 1;
  bool weight = false;
  bool bias = false;
  bool seed = false;
  bool origin = false;
};

// What takes part in a norm.
struct parts {
  bool residual = false;
  bool weight = true;
  bool bias = true;
  float dropout_rate = 0.0f;
  grouping groups = {};
};

// Half a unit in the last place of T, and what f32 arithmetic loses before.
template <class T>
constexpr double tolerance = std::is_same_v<T, hk::bf16>  ? 0x1p-8 + 2e-6
                             : std::is_same_v<T, hk::f16> ? 0x1p-11 + 2e-6
                                                          : 2e-6;

// The arrays of one problem, forward and backward.
template <class T>
struct norm_case {
  norm_case(norm_kind kind, shape size, parts with, float scale = 1.0f, float offset = 0.0f)
      : kind(kind), size(size), with(with) {
    const std::size_t count = static_cast<std::size_t>(size.rows * size.cols);
    x = unit::random_array<T>(count, 1, scale);
    for (T& value : x) value = hk::from_float<T>(hk::to_float(value) + offset);
    if (with.residual) residual = unit::random_array<T>(count, 2);
    if (with.residual || with.dropout_rate > 0) h.resize(count);
    const grouping& by = with.groups;
    if (with.weight) weight = unit::random_array(size.cols * parts_of(by.weight), 3);
    if (with.bias) bias = unit::random_array(size.cols * parts_of(by.bias), 4);
    for (std::uint32_t g = 0; g < parts_of(by.seed); ++g)
      seed.insert(seed.end(), {0x243f6a88 + g, 0x85a308d3});
    for (std::uint32_t g = 0; g < parts_of(by.origin); ++g)  // A group's rows may pass 2^32.
      origin.insert(origin.end(), {by.origin ? 0xfffffffe - 5 * g : 0, g % 3});
    y.resize(count);
    if (kind == norm_kind::layer) mean.resize(size.rows);
    rstd.resize(size.rows);
  }

  hk::norm_problem common() {
    hk::norm_problem problem{};
    problem.type = hk::element_traits<T>::type;
    problem.kind = kind;
    problem.rows = size.rows;
    problem.cols = size.cols;
    problem.groups = with.groups.count;
    problem.group_rows = group_rows();
    problem.epsilon = epsilon;
    problem.dropout_rate = with.dropout_rate;
    problem.seed = {seed.data(), with.groups.seed ? 2 : 0};
    problem.origin = {origin.data(), with.groups.origin ? 2 : 0};
    problem.weight = {data_or_null(weight), with.groups.weight ? size.cols : 0};
    problem.mean = data_or_null(mean);
    problem.rstd = rstd.data();
    return problem;
  }

  void forward(int threads = 2) {
    hk::norm_problem problem = common();
    problem.bias = {data_or_null(bias), with.groups.bias ? size.cols : 0};
    problem.x = x.data();
    problem.residual = data_or_null(residual);
    problem.y = y.data();
    problem.h = data_or_null(h);
    unit::thread_pool pool(threads);
    CHECK_EQ(hk::norm_forward_host(problem, pool.get()), hk::status::ok);
  }

  void backward(const std::vector<T>& dy, const std::vector<T>& dh, int threads = 2) {
    dx.resize(dy.size());
    if (with.dropout_rate > 0) dresidual.resize(dy.size());
    if (with.weight) dweight.assign(weight.size(), NAN);
    if (with.bias) dbias.assign(bias.size(), NAN);
    hk::norm_problem problem = common();
    problem.h = const_cast<T*>(hidden().data());
    problem.dy = dy.data();
    problem.dh = dh.empty() ? nullptr : dh.data();
    problem.dx = dx.data();
    problem.dresidual = data_or_null(dresidual);
    problem.dweight = {data_or_null(dweight), problem.weight.stride};
    problem.dbias = {data_or_null(dbias), with.groups.bias ? size.cols : 0};
    unit::thread_pool pool(threads);
    CHECK_EQ(hk::norm_backward_host(problem, pool.get()), hk::status::ok);
  }

  const std::vector<T>& hidden() const { return h.empty() ? x : h; }

  std::int64_t group_rows() const { return size.rows / with.groups.count; }
  std::int64_t parts_of(bool own) const { return own ? with.groups.count : 1; }

  // What dropout makes of element i of [R, H].
  double dropout_factor(std::int64_t i) const {
    const std::int64_t row = i / size.cols, group = row / group_rows();
    const std::uint32_t* const first = &origin[with.groups.origin ? 2 * group : 0];
    const std::int64_t whole_row =
        first[0] + (std::int64_t{first[1]} << 32) + row - group * group_rows();
    return norm_oracle::dropout_factor(whole_row * size.cols + i % size.cols, with.dropout_rate,
                                       &seed[with.groups.seed ? 2 * group : 0]);
  }

  // A group's part of an array of which each group has its own, or of one that all share.
  template <class U>
  std::vector<U> part(const std::vector<U>& values, std::int64_t group, bool own = true) const {
    const std::size_t length = values.size() / parts_of(own);
    const auto first = values.begin() + (own ? group * length : 0);
    return {first, first + length};
  }

  template <class U>
  static U* data_or_null(std::vector<U>& values) {
    return values.empty() ? nullptr : values.data();
  }

  norm_kind kind;
  shape size;
  parts with;
  float epsilon = 1e-6f;
  std::vector<T> x, residual, h, y, dx, dresidual;
  std::vector<float> weight, bias, mean, rstd, dweight, dbias;
  std::vector<std::uint32_t> seed, origin;
};

// h as the inputs give it, before rounding.
template <class T>
array expected_hidden(const norm_case<T>& c) {
  array h = unit::to_double(c.x);
  for (std::size_t i = 0; i < h.size(); ++i) {
    if (c.with.dropout_rate > 0) h[i] *= c.dropout_factor(static_cast<std::int64_t>(i));
    if (c.with.residual) h[i] += hk::to_float(c.residual[i]);
  }
  return h;
}

template <class T>
void check_forward(norm_case<T>& c) {
  c.forward();
  if (!c.h.empty()) CHECK_ALL_CLOSE(c.h, expected_hidden(c), tolerance<T>);
  const array h = unit::to_double(c.hidden());
  array y(h.size()), mean, rstd;
  for (std::int64_t r = 0; r < c.size.rows; ++r) {
    const std::int64_t first = r * c.size.cols;
    const auto s = norm_oracle::row_statistics(&h[first], c.size.cols, c.kind, c.epsilon);
    if (c.kind == norm_kind::layer) mean.push_back(s.mean);
    rstd.push_back(s.rstd);
    const auto weight = c.part(c.weight, r / c.group_rows(), c.with.groups.weight);
    const auto bias = c.part(c.bias, r / c.group_rows(), c.with.groups.bias);
    for (std::int64_t j = 0; j < c.size.cols; ++j)
      y[first + j] = (h[first + j] - s.mean) * s.rstd * (c.with.weight ? weight[j] : 1.0f) +
                     (c.with.bias ? bias[j] : 0.0f);
  }
  CHECK_ALL_CLOSE(c.y, y, tolerance<T>);
  CHECK_ALL_CLOSE(c.mean, mean, 1e-6);
  CHECK_ALL_CLOSE(c.rstd, rstd, 1e-6);
}

// The gradients of each group by itself, one group after the other; sums that the groups share are
// added up.
template <class T>
norm_oracle::gradients expected_gradients(const norm_case<T>& c, const std::vector<T>& dy,
                                          const std::vector<T>& dh) {
  norm_oracle::gradients all{{}, array(c.weight.size()), array(c.bias.size())};
  const auto add_to = [&](array& sums, const array& of_group, std::int64_t group, bool own) {
    const std::int64_t first = own ? group * c.size.cols : 0;
    for (std::int64_t j = 0; j < c.size.cols; ++j) sums[first + j] += of_group[j];
  };
  for (std::int64_t g = 0; g < c.with.groups.count; ++g) {
    const auto of_group = norm_oracle::backward(
        unit::to_double(c.part(c.hidden(), g)), unit::to_double(c.part(dy, g)),
        unit::to_double(c.part(dh, g)), unit::to_double(c.part(c.weight, g, c.with.groups.weight)),
        c.group_rows(), c.size.cols, c.kind, c.epsilon);
    all.g.insert(all.g.end(), of_group.g.begin(), of_group.g.end());
    if (c.with.weight) add_to(all.dweight, of_group.dweight, g, c.with.groups.weight);
    if (c.with.bias) add_to(all.dbias, of_group.dbias, g, c.with.groups.bias);
  }
  return all;
}

template <class T>
void check_backward(norm_case<T>& c, bool with_dh) {
  const auto dy = unit::random_array<T>(c.x.size(), 5);
  const auto dh = with_dh ? unit::random_array<T>(c.x.size(), 6) : std::vector<T>{};
  c.backward(dy, dh);
  const auto expected = expected_gradients(c, dy, dh);
  array dx = expected.g;
  if (c.with.dropout_rate > 0) {
    for (std::size_t i = 0; i < dx.size(); ++i)
      dx[i] *= c.dropout_factor(static_cast<std::int64_t>(i));
    CHECK_ALL_CLOSE(c.dresidual, expected.g, tolerance<T>);
  }
  CHECK_ALL_CLOSE(c.dx, dx, tolerance<T>);
  // Sums over rows of terms of size 1.
  const double noise = 1e-6 * std::sqrt(static_cast<double>(c.size.rows)) + 1e-6;
  if (c.with.weight) CHECK_ALL_CLOSE(c.dweight, expected.dweight, noise);
  if (c.with.bias) CHECK_ALL_CLOSE(c.dbias, expected.dbias, noise);
}

template <class T>
void check_case(norm_kind kind, shape size, parts with, bool with_dh) {
  norm_case<T> c(kind, size, with);
  check_forward(c);
  check_backward(c, with_dh);
}

// H around the SIMD widths and the size of a piece; R around a part's 16 rows and 64 parts.
constexpr shape shapes[] = {{1, 2}, {3, 5}, {2, 16}, {5, 31}, {7, 33}, {17, 64}, {2, 130}, {70, 9}};

template <class F>
void for_each_kind_and_type(F f) {
  for (const norm_kind kind : {norm_kind::layer, norm_kind::rms}) {
    f(kind, hk::bf16{});
    f(kind, hk::f16{});
    f(kind, float{});
  }
}

HK_TEST(norm_of_every_type) {
  for_each_kind_and_type([]<class T>(norm_kind kind, T) {
    for (const shape size : shapes) check_case<T>(kind, size, {}, false);
  });
}

HK_TEST(norm_with_residual_and_dropout) {
  for_each_kind_and_type([]<class T>(norm_kind kind, T) {
    for (const shape size : shapes) {
      check_case<T>(kind, size, {.residual = true}, true);
      check_case<T>(kind, size, {.dropout_rate = 0.25f}, true);
      check_case<T>(kind, size, {.residual = true, .dropout_rate = 0.25f}, true);
    }
  });
}

HK_TEST(norm_without_weight_or_bias) {
  for (const norm_kind kind : {norm_kind::layer, norm_kind::rms})
    for (const bool weight : {false, true})
      for (const bool bias : {false, true})
        check_case<float>(kind, {19, 37}, {.weight = weight, .bias = bias}, false);
}

HK_TEST(norm_of_one_element) {
  for_each_kind_and_type([]<class T>(norm_kind kind, T) {
    norm_case<T> c(kind, {3, 1}, {});
    check_forward(c);
  });
}

HK_TEST(norm_of_long_rows) {
  check_case<float>(norm_kind::layer, {2, 32768}, {}, false);
  check_case<hk::bf16>(norm_kind::rms, {2, 40001}, {.residual = true}, true);
}

// More rows than parts, of more than 16 rows each, the last part cut short.
HK_TEST(norm_of_many_rows) {
  check_case<float>(norm_kind::layer, {64 * 17 + 5, 12}, {}, true);
  check_case<hk::bf16>(norm_kind::rms, {64 * 18 - 1, 6}, {}, true);
}

// Groups of one row, shorter than a part, as long as one, and cut into several; with sums for each
// group, for all of them, and one of each kind.
HK_TEST(norm_in_groups) {
  struct grouped_shape {
    std::int64_t groups, group_rows, cols;
  };
  for_each_kind_and_type([]<class T>(norm_kind kind, T) {
    for (const auto [groups, rows, cols] : std::vector<grouped_shape>{
             {40, 1, 33}, {7, 3, 130}, {3, 16, 5}, {2, 37, 31}, {100, 17, 8}, {3, 1, 1000}})
      for (const bool weight : {false, true})
        for (const bool bias : {false, true}) {
          const grouping by{groups, weight, bias, weight, bias};
          const parts with{.residual = true, .dropout_rate = 0.25f, .groups = by};
          check_case<T>(kind, {groups * rows, cols}, with, true);
        }
  });
}

HK_TEST(groups_without_weight_or_bias) {
  const grouping by{5, true, true, true, true};
  for (const bool weight : {false, true})
    for (const bool bias : {false, true})
      check_case<float>(norm_kind::layer, {5 * 19, 37},
                        {.weight = weight, .bias = bias, .groups = by}, false);
}

// Each group draws what it would draw alone, and comes out the same to the bit.
HK_TEST(a_group_is_a_call_of_its_own) {
  const grouping by{4, true, true, true, true};
  norm_case<float> all(norm_kind::layer, {4 * 9, 70}, {.dropout_rate = 0.3f, .groups = by});
  const auto dy = unit::random_array<float>(all.x.size(), 5);
  all.forward();
  all.backward(dy, dy);
  for (std::int64_t g = 0; g < 4; ++g) {
    norm_case<float> one(norm_kind::layer, {9, 70}, {.dropout_rate = 0.3f});
    one.x = all.part(all.x, g);
    one.weight = all.part(all.weight, g);
    one.bias = all.part(all.bias, g);
    one.seed = all.part(all.seed, g);
    one.origin = all.part(all.origin, g);
    one.forward();
    one.backward(all.part(dy, g), all.part(dy, g));
    CHECK(one.y == all.part(all.y, g) && one.h == all.part(all.h, g));
    CHECK(one.mean == all.part(all.mean, g) && one.rstd == all.part(all.rstd, g));
    CHECK(one.dx == all.part(all.dx, g) && one.dresidual == all.part(all.dresidual, g));
    CHECK(one.dweight == all.part(all.dweight, g) && one.dbias == all.part(all.dbias, g));
  }
}

// Rows from the middle of an array on, with their origin, draw what they draw in the whole array.
HK_TEST(a_part_of_an_array_draws_its_part_of_the_mask) {
  const parts with{.dropout_rate = 0.5f};
  norm_case<float> whole(norm_kind::rms, {20, 13}, with), rest(norm_kind::rms, {13, 13}, with);
  rest.x = {whole.x.begin() + 7 * 13, whole.x.end()};
  rest.origin = {7, 0};
  whole.forward();
  rest.forward();
  CHECK(rest.h == std::vector<float>(whole.h.begin() + 7 * 13, whole.h.end()));
}

HK_TEST(norm_of_values_far_from_zero) {
  for (const float scale : {1e-3f, 1.0f, 1e4f}) {
    norm_case<float> layer(norm_kind::layer, {4, 1000}, {}, scale, 10.0f * scale);
    layer.forward();
    const array h = unit::to_double(layer.x);
    for (std::int64_t r = 0; r < 4; ++r) {
      const auto s = norm_oracle::row_statistics(&h[r * 1000], 1000, layer.kind, layer.epsilon);
      CHECK_CLOSE(layer.mean[r] / s.mean, 1.0, 1e-7);
      CHECK_CLOSE(layer.rstd[r] / s.rstd, 1.0, 5e-7);
    }
  }
}

// A row that is constant but for noise of the size of f32's spacing has no variance to speak of.
// 1 / sqrt(epsilon) = 1000 magnifies half a unit in the last place of the mean.
HK_TEST(constant_rows_with_noise) {
  for (const float offset : {0.0f, 1.0f, -3000.0f}) {
    norm_case<float> c(norm_kind::layer, {4, 2048}, {.weight = false, .bias = false}, 1e-6f,
                       offset);
    c.forward();
    const double ulp = std::nextafter(std::abs(offset), 1e9f) - std::abs(offset);
    const array h = unit::to_double(c.x);
    for (std::int64_t r = 0; r < 4; ++r) {
      const std::int64_t first = r * 2048;
      const auto s = norm_oracle::row_statistics(&h[first], 2048, c.kind, c.epsilon);
      for (std::int64_t i = first; i < first + 2048; ++i)
        CHECK_CLOSE(c.y[i], (h[i] - s.mean) * s.rstd, 2e-6 + 500 * ulp);
    }
  }
}

HK_TEST(constant_rows_give_the_bias) {
  for (const float value : {0.0f, 0.1f, -1234.567f, 1e30f}) {
    norm_case<float> c(norm_kind::layer, {2, 1001}, {}, 0.0f, value);
    c.forward();
    for (std::int64_t j = 0; j < 1001; ++j) CHECK_EQ(c.y[j], c.bias[j]);
    for (const float mean : c.mean) CHECK_EQ(mean, value);
  }
}

HK_TEST(zero_cotangents_give_zero_gradients) {
  norm_case<hk::bf16> c(norm_kind::layer, {20, 100}, {.residual = true, .dropout_rate = 0.5f});
  c.forward();
  const std::vector<hk::bf16> zeros(c.x.size());
  c.backward(zeros, zeros);
  for (const hk::bf16 x : c.dx) CHECK_EQ(hk::to_float(x), 0.0f);
  for (const hk::bf16 x : c.dresidual) CHECK_EQ(hk::to_float(x), 0.0f);
  for (const float x : c.dweight) CHECK_EQ(x, 0.0f);
  for (const float x : c.dbias) CHECK_EQ(x, 0.0f);
}

void check_threads(shape size, grouping by) {
  norm_case<float> one(norm_kind::layer, size, {.dropout_rate = 0.1f, .groups = by}), three = one;
  const auto dy = unit::random_array<float>(one.x.size(), 5);
  one.forward(1);
  three.forward(3);
  one.backward(dy, dy, 1);
  three.backward(dy, dy, 3);
  CHECK(one.y == three.y && one.mean == three.mean && one.rstd == three.rstd);
  CHECK(one.dx == three.dx && one.dresidual == three.dresidual);
  CHECK(one.dweight == three.dweight && one.dbias == three.dbias);
}

HK_TEST(threads_do_not_change_a_bit) {
  check_threads({1111, 70}, {});
  check_threads({1000, 70}, {.count = 200, .weight = true});
  check_threads({1000, 70}, {.count = 2, .weight = true, .bias = true, .seed = true});
}

HK_TEST(no_rows_and_no_columns) {
  for (const grouping by : {grouping{}, grouping{3, true, false}}) {
    norm_case<float> no_rows(norm_kind::layer, {0, 8}, {.groups = by});
    no_rows.forward();
    no_rows.backward({}, {});
    for (const float x : no_rows.dweight) CHECK_EQ(x, 0.0f);
    for (const float x : no_rows.dbias) CHECK_EQ(x, 0.0f);
  }
  norm_case<float> no_cols(norm_kind::rms, {8, 0}, {});
  no_cols.forward();
  no_cols.backward({}, {});
}

HK_TEST(not_a_number_stays_in_its_row) {
  norm_case<hk::bf16> c(norm_kind::layer, {3, 40}, {});
  c.x[45] = hk::from_float<hk::bf16>(std::numeric_limits<float>::quiet_NaN());
  c.forward();
  for (std::int64_t i = 0; i < 120; ++i) CHECK_EQ(std::isnan(hk::to_float(c.y[i])), i / 40 == 1);
}

// Its mean and variance are no numbers; it must not pass for a row that is constant.
HK_TEST(a_row_with_an_infinity_is_not_a_number) {
  norm_case<float> c(norm_kind::layer, {3, 40}, {});
  c.x[45] = std::numeric_limits<float>::infinity();
  c.forward();
  for (std::int64_t i = 0; i < 120; ++i) CHECK_EQ(std::isnan(c.y[i]), i / 40 == 1);
}

}  // namespace
