// A small harness for the C++ unit tests. A test file holds
//
//   HK_TEST(name) { CHECK(...); CHECK_EQ(actual, expected); CHECK_CLOSE(actual, expected, 1e-6); }
//
// and tests/unit.cc holds main. Checks that fail print both values and let the test go on. Give
// part of a name on the command line to run only the tests that contain it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ffi/runtime/blocks.h"
#include "hk/core/element.h"
#include "hk/core/launch.h"

namespace unit {

struct test {
  const char* name;
  void (*body)();
};

inline std::vector<test>& tests() {
  static std::vector<test> all;
  return all;
}

inline std::atomic<int>& failures() {
  static std::atomic<int> count{0};
  return count;
}

struct registration {
  registration(const char* name, void (*body)()) { tests().push_back({name, body}); }
};

inline void fail(const char* file, int line, const std::string& what) {
  ++failures();
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
}

inline void check(bool holds, const char* text, const char* file, int line) {
  if (!holds) fail(file, line, std::string("expected ") + text);
}

// A value as a failing check prints it.
template <class T>
std::string show(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else {
    std::ostringstream text;
    text.precision(9);
    text << value;
    return text.str();
  }
}

template <class A, class E>
void check_equal(const A& actual, const E& expected, const char* text, const char* file, int line) {
  if (actual == expected) return;
  fail(file, line,
       std::string(text) + ": expected " + show(expected) + ", received " + show(actual));
}

// Whether |actual - expected| <= tolerance * max(1, |expected|); NaN matches NaN alone, and an
// infinity itself alone.
inline bool is_close(double actual, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected) || std::isinf(actual)) return actual == expected;
  return std::abs(actual - expected) <= tolerance * std::max(1.0, std::abs(expected));
}

inline void check_close(double actual, double expected, double tolerance, const char* text,
                        const char* file, int line) {
  if (is_close(actual, expected, tolerance)) return;
  fail(file, line,
       std::string(text) + ": expected " + show(expected) + " within " + show(tolerance) +
           ", received " + show(actual));
}

// The same for arrays, whose elements may be float, double, hk::bf16 or hk::f16. Reports how many
// elements differ and the first of them.
template <class A, class E>
void check_all_close(const std::vector<A>& actual, const std::vector<E>& expected, double tolerance,
                     const char* text, const char* file, int line) {
  const auto number = []<class T>(T x) -> double {
    if constexpr (std::is_arithmetic_v<T>) {
      return static_cast<double>(x);
    } else {
      return hk::to_float(x);
    }
  };
  if (actual.size() != expected.size()) {
    return fail(file, line,
                std::string(text) + ": expected " + show(expected.size()) + " elements, received " +
                    show(actual.size()));
  }
  std::size_t wrong = 0;
  std::size_t first = 0;
  for (std::size_t i = actual.size(); i-- > 0;) {
    if (is_close(number(actual[i]), number(expected[i]), tolerance)) continue;
    ++wrong;
    first = i;
  }
  if (wrong == 0) return;
  fail(file, line,
       std::string(text) + ": " + show(wrong) + " of " + show(actual.size()) +
           " elements differ; [" + show(first) + "]: expected " + show(number(expected[first])) +
           " within " + show(tolerance) + ", received " + show(number(actual[first])));
}

// `count` normally distributed numbers times `scale`, rounded to T; the same for the same seed.
template <hk::element T = float>
std::vector<T> random_array(std::size_t count, std::uint32_t seed, float scale = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<T> values(count);
  for (T& value : values) value = hk::from_float<T>(normal(generator));
  return values;
}

// The same numbers in float64, for a reference.
template <hk::element T>
std::vector<double> to_double(const std::vector<T>& values) {
  std::vector<double> wide(values.size());
  std::transform(values.begin(), values.end(), wide.begin(),
                 [](T x) { return static_cast<double>(hk::to_float(x)); });
  return wide;
}

// A launcher with threads of its own, for kernels under test: thread_pool pool(2); f(...,
// pool.get()).
class thread_pool {
 public:
  explicit thread_pool(int64_t threads) : threads_(threads) {}

  hk::launcher get() { return {this, threads_, &thread_pool::run}; }

 private:
  static void run(void* opaque, int64_t blocks, void (*block)(void*, int64_t), void* context) {
    std::vector<std::jthread> helpers;
    jax_hipkittens::run_blocks(static_cast<thread_pool*>(opaque)->threads_ - 1, blocks, block,
                               context, [&](auto task) { helpers.emplace_back(std::move(task)); });
  }

  int64_t threads_;
};

}  // namespace unit

#define HK_TEST(name)                                                      \
  static void name##_body();                                               \
  static const unit::registration name##_registration(#name, name##_body); \
  static void name##_body()

#define CHECK(condition) unit::check(static_cast<bool>(condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(actual, expected) unit::check_equal(actual, expected, #actual, __FILE__, __LINE__)
#define CHECK_CLOSE(actual, expected, tolerance) \
  unit::check_close(actual, expected, tolerance, #actual, __FILE__, __LINE__)
#define CHECK_ALL_CLOSE(actual, expected, tolerance) \
  unit::check_all_close(actual, expected, tolerance, #actual, __FILE__, __LINE__)
