// rotary_host against float64.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "hk/kernels/rotary/host.h"
#include "tests/unit.h"

namespace {

struct sizes {
  std::int64_t batch;
  std::int64_t length;
  std::int64_t heads;
  std::int64_t head_dim;
  std::int64_t rotary_dim;
  std::int64_t positions;
};

// Half a unit in the last place of T, and what f32 arithmetic loses before.
template <class T>
constexpr double tolerance = std::is_same_v<T, hk::bf16>  ? 0x1p-8 + 1e-6
                             : std::is_same_v<T, hk::f16> ? 0x1p-11 + 1e-6
                                                          : 1e-6;

template <class T>
struct rotary_case {
  rotary_case(sizes size, bool interleaved, bool broadcast)
      : size(size), interleaved(interleaved), broadcast(broadcast) {
    x = unit::random_array<T>(size.batch * size.length * size.heads * size.head_dim, 1);
    y.resize(x.size());
    const std::int64_t tables = broadcast ? 1 : size.batch;
    const auto angles = unit::random_array(tables * size.positions * size.rotary_dim / 2, 2, 3.0f);
    for (const float angle : angles) {
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
    offsets.assign(size.batch, 0);
  }

  void run(bool inverse = false, int threads = 2) {
    hk::rotary_problem problem{};
    problem.type = hk::element_traits<T>::type;
    problem.batch = size.batch;
    problem.length = size.length;
    problem.heads = size.heads;
    problem.head_dim = size.head_dim;
    problem.rotary_dim = size.rotary_dim;
    problem.positions = size.positions;
    problem.interleaved = interleaved;
    problem.inverse = inverse;
    problem.broadcast_tables = broadcast;
    problem.x = x.data();
    problem.cos = cos.data();
    problem.sin = sin.data();
    problem.offsets = offsets.data();
    problem.y = y.data();
    unit::thread_pool pool(threads);
    CHECK_EQ(hk::rotary_host(problem, pool.get()), hk::status::ok);
  }

  std::vector<double> expected(bool inverse = false) const {
    std::vector<double> out = unit::to_double(x);
    const std::int64_t half = size.rotary_dim / 2;
    for (std::int64_t head = 0; head < size.batch * size.length * size.heads; ++head) {
      const std::int64_t b = head / size.heads / size.length;
      const std::int64_t t = head / size.heads % size.length;
      const std::int64_t p = std::clamp<std::int64_t>(offsets[b] + t, 0, size.positions - 1);
      const std::int64_t table = (broadcast ? 0 : b) * size.positions + p;
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t first = head * size.head_dim + (interleaved ? 2 * i : i);
        const std::int64_t second = first + (interleaved ? 1 : half);
        const double c = cos[table * half + i];
        const double s = inverse ? -sin[table * half + i] : sin[table * half + i];
        const double x0 = hk::to_float(x[first]), x1 = hk::to_float(x[second]);
        out[first] = x0 * c - x1 * s;
        out[second] = x1 * c + x0 * s;
      }
    }
    return out;
  }

  sizes size;
  bool interleaved;
  bool broadcast;
  std::vector<T> x, y;
  std::vector<float> cos, sin;
  std::vector<std::int32_t> offsets;
};

template <class T>
void check_case(sizes size, bool interleaved) {
  for (const bool broadcast : {false, true})
    for (const bool inverse : {false, true}) {
      rotary_case<T> c(size, interleaved, broadcast);
      c.run(inverse);
      CHECK_ALL_CLOSE(c.y, c.expected(inverse), tolerance<T>);
    }
}

// D and R around the SIMD widths, whole and partial.
constexpr sizes all_sizes[] = {
    {1, 1, 1, 2, 2, 1},     {2, 3, 4, 64, 64, 3},  {2, 5, 3, 96, 24, 7},
    {1, 4, 2, 33, 30, 4},   {2, 2, 1, 19, 6, 5},   {3, 2, 5, 128, 128, 2},
    {1, 3, 2, 256, 64, 10}, {2, 6, 1, 70, 68, 20}, {1, 2, 2, 5, 0, 3}};

HK_TEST(rotary_half_split) {
  for (const sizes size : all_sizes) {
    check_case<hk::bf16>(size, false);
    check_case<hk::f16>(size, false);
    check_case<float>(size, false);
  }
}

HK_TEST(rotary_interleaved) {
  for (const sizes size : all_sizes) {
    check_case<hk::bf16>(size, true);
    check_case<hk::f16>(size, true);
    check_case<float>(size, true);
  }
}

HK_TEST(rotary_offsets_are_kept_inside_the_table) {
  rotary_case<float> c({5, 4, 2, 16, 8, 6}, false, false);
  c.offsets = {2, -3, 5, 2147483647, -2147483647 - 1};
  c.run();
  CHECK_ALL_CLOSE(c.y, c.expected(), tolerance<float>);
}

// A block holds several steps, and the last one fewer.
HK_TEST(rotary_in_many_blocks) {
  rotary_case<hk::bf16> c({3, 601, 8, 32, 32, 601}, false, true);
  c.offsets = {0, -5, 7};
  c.run();
  CHECK_ALL_CLOSE(c.y, c.expected(), tolerance<hk::bf16>);
  const auto y = c.y;
  c.run(false, 1);
  CHECK(std::memcmp(y.data(), c.y.data(), y.size() * sizeof(y[0])) == 0);
}

// The elements that do not rotate are copied bit by bit, NaN with its payload too.
HK_TEST(rotary_copies_the_rest) {
  rotary_case<hk::bf16> c({1, 1, 2, 9, 4, 1}, true, true);
  c.x[4].bits = 0x7fa1;
  c.run();
  for (const int head : {0, 1})
    for (int j = 4; j < 9; ++j) CHECK_EQ(c.y[head * 9 + j].bits, c.x[head * 9 + j].bits);
}

HK_TEST(rotary_inverse_turns_back) {
  rotary_case<float> c({2, 3, 2, 24, 20, 3}, true, false);
  const std::vector<float> original = c.x;
  c.run(false);
  c.x = c.y;
  c.run(true);
  CHECK_ALL_CLOSE(c.y, unit::to_double(original), 2e-6);
}

HK_TEST(rotary_of_nothing) {
  for (const sizes size : {sizes{0, 3, 2, 8, 8, 3}, sizes{2, 0, 2, 8, 8, 0},
                           sizes{2, 3, 0, 8, 8, 3}, sizes{2, 3, 2, 0, 0, 3}}) {
    rotary_case<float> c(size, false, true);
    c.run();
    CHECK(c.y.empty());
  }
}

// Without rotating dimensions, an empty table is no hindrance.
HK_TEST(rotary_without_pairs_or_positions) {
  rotary_case<float> c({1, 2, 2, 5, 0, 0}, false, true);
  c.run();
  CHECK(c.y == c.x);
}

}  // namespace
