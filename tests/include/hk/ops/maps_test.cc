// Every map against its formula, on tiles of each element type, on vectors, and on tiles whose
// fragments run down columns.
#include "hk/ops/maps.h"

#include "tests/include/hk/support.h"

namespace {

using hk::simd::lanes;

constexpr int R = 2 * lanes;
constexpr int C = 3 * lanes;
constexpr int in_use = R - 3;

float x_at(int r, int c) { return static_cast<float>((r * 7 + c * 3) % 41 - 20) / 8.0f; }
float y_at(int r, int c) { return static_cast<float>((r * 5 + c * 11) % 37 + 1) / 4.0f; }
float v_at(int j) { return static_cast<float>(j % 13 + 1) / 2.0f; }

// Rows in use hold expected(r, c) rounded to T; the others what they held before.
template <hk::element T, class F>
void check_rows_in_use(const hk::rt<T, R, C>& tile, F expected, const char* name) {
  const int wrong = unit::differences(tile, [&](int r, int c) {
    return r < in_use ? unit::rounded<T>(expected(r, c)) : unit::nan;
  });
  if (wrong) std::fprintf(stderr, "in %s, %d bytes to an element:\n", name, int(sizeof(T)));
  CHECK_EQ(wrong, 0);
}

template <hk::element T>
struct operands {
  hk::rt<T, R, C> x, y, dst;
  hk::rv<float, R> by_row;
  hk::rv<float, C> by_col;

  operands() {
    unit::set_all(x, x_at);
    unit::set_all(y, y_at);
    unit::set_all(dst, [](int, int) { return unit::nan; });
    unit::set_all(by_row, v_at);
    unit::set_all(by_col, v_at);
    dst.resize_rows(in_use);
  }
};

// op(operands) leaves expected(r, c) in dst, for each element type.
template <class Op, class F>
void check_map(const char* name, Op op, F expected) {
  unit::for_each_element([&]<class T>() {
    operands<T> o;
    op(o);
    check_rows_in_use(o.dst, expected, name);
  });
}

}  // namespace

HK_TEST(fills) {
  check_map("fill", [](auto& o) { hk::fill(o.dst, 2.5f); }, [](int, int) { return 2.5f; });
  check_map("zero", [](auto& o) { hk::zero(o.dst); }, [](int, int) { return 0.0f; });
  check_map("one", [](auto& o) { hk::one(o.dst); }, [](int, int) { return 1.0f; });
  check_map(
      "neg_infinity", [](auto& o) { hk::neg_infinity(o.dst); },
      [](int, int) { return -unit::infinity; });
  check_map(
      "pos_infinity", [](auto& o) { hk::pos_infinity(o.dst); },
      [](int, int) { return unit::infinity; });
}

HK_TEST(maps_of_one_tile) {
  check_map("copy", [](auto& o) { hk::copy(o.dst, o.x); }, x_at);
  check_map("neg", [](auto& o) { hk::neg(o.dst, o.x); }, [](int r, int c) { return -x_at(r, c); });
  check_map(
      "scale", [](auto& o) { hk::scale(o.dst, o.x, 0.3f); },
      [](int r, int c) { return x_at(r, c) * 0.3f; });
  check_map(
      "shift", [](auto& o) { hk::shift(o.dst, o.x, 0.3f); },
      [](int r, int c) { return x_at(r, c) + 0.3f; });
}

HK_TEST(maps_of_two_tiles) {
  check_map(
      "add", [](auto& o) { hk::add(o.dst, o.x, o.y); },
      [](int r, int c) { return x_at(r, c) + y_at(r, c); });
  check_map(
      "sub", [](auto& o) { hk::sub(o.dst, o.x, o.y); },
      [](int r, int c) { return x_at(r, c) - y_at(r, c); });
  check_map(
      "mul", [](auto& o) { hk::mul(o.dst, o.x, o.y); },
      [](int r, int c) { return x_at(r, c) * y_at(r, c); });
  check_map(
      "div", [](auto& o) { hk::div(o.dst, o.x, o.y); },
      [](int r, int c) { return x_at(r, c) / y_at(r, c); });
  check_map(
      "max", [](auto& o) { hk::max(o.dst, o.x, o.y); },
      [](int r, int c) { return std::max(x_at(r, c), y_at(r, c)); });
  check_map(
      "min", [](auto& o) { hk::min(o.dst, o.x, o.y); },
      [](int r, int c) { return std::min(x_at(r, c), y_at(r, c)); });
}

HK_TEST(maps_with_a_value_per_row) {
  check_map(
      "add_row", [](auto& o) { hk::add_row(o.dst, o.x, o.by_row); },
      [](int r, int c) { return x_at(r, c) + v_at(r); });
  check_map(
      "sub_row", [](auto& o) { hk::sub_row(o.dst, o.x, o.by_row); },
      [](int r, int c) { return x_at(r, c) - v_at(r); });
  check_map(
      "mul_row", [](auto& o) { hk::mul_row(o.dst, o.x, o.by_row); },
      [](int r, int c) { return x_at(r, c) * v_at(r); });
  check_map(
      "div_row", [](auto& o) { hk::div_row(o.dst, o.x, o.by_row); },
      [](int r, int c) { return x_at(r, c) / v_at(r); });
}

HK_TEST(maps_with_a_value_per_column) {
  check_map(
      "add_col", [](auto& o) { hk::add_col(o.dst, o.x, o.by_col); },
      [](int r, int c) { return x_at(r, c) + v_at(c); });
  check_map(
      "sub_col", [](auto& o) { hk::sub_col(o.dst, o.x, o.by_col); },
      [](int r, int c) { return x_at(r, c) - v_at(c); });
  check_map(
      "mul_col", [](auto& o) { hk::mul_col(o.dst, o.x, o.by_col); },
      [](int r, int c) { return x_at(r, c) * v_at(c); });
  check_map(
      "div_col", [](auto& o) { hk::div_col(o.dst, o.x, o.by_col); },
      [](int r, int c) { return x_at(r, c) / v_at(c); });
}

// The operands are small multiples of powers of two: x * y + x is exact, fused or not.
HK_TEST(mul_add_of_three_tiles) {
  check_map(
      "mul_add", [](auto& o) { hk::mul_add(o.dst, o.x, o.y, o.x); },
      [](int r, int c) { return x_at(r, c) * y_at(r, c) + x_at(r, c); });
}

HK_TEST(exp2_of_a_tile) {
  operands<float> o;
  hk::exp2(o.dst, o.x);
  for (int r = 0; r < in_use; ++r)
    for (int c = 0; c < C; ++c) CHECK_CLOSE(o.dst.row(r)[c], std::exp2(x_at(r, c)), 2e-6);
}

HK_TEST(the_result_may_be_an_operand) {
  operands<hk::bf16> o;
  hk::copy(o.dst, o.x);
  hk::add(o.dst, o.dst, o.dst);
  hk::mul_row(o.dst, o.dst, o.by_row);
  check_rows_in_use(
      o.dst, [](int r, int c) { return unit::rounded<hk::bf16>(2 * x_at(r, c)) * v_at(r); },
      "aliasing");
}

// A map rounds its result once, from operands of other types.
HK_TEST(maps_convert_between_element_types) {
  operands<float> wide;
  operands<hk::bf16> narrow;
  hk::div(narrow.dst, wide.x, wide.y);
  check_rows_in_use(narrow.dst, [](int r, int c) { return x_at(r, c) / y_at(r, c); }, "div");
  operands<hk::f16> half;
  hk::copy(wide.dst, half.x);
  check_rows_in_use(wide.dst, x_at, "copy");
}

HK_TEST(max_and_min_take_the_second_operand_of_nan) {
  operands<float> o;
  hk::fill(o.y, unit::nan);
  hk::max(o.dst, o.y, o.x);
  check_rows_in_use(o.dst, x_at, "max(nan, x)");
  hk::min(o.dst, o.x, o.y);
  check_rows_in_use(o.dst, [](int, int) { return unit::nan; }, "min(x, nan)");
}

HK_TEST(a_map_takes_any_function_of_fragments) {
  operands<float> o;
  hk::map(o.dst, [](auto x, auto y) { return hk::fragment::fma(x, y, x); }, o.x, o.y);
  check_rows_in_use(
      o.dst, [](int r, int c) { return x_at(r, c) * y_at(r, c) + x_at(r, c); }, "map");
  hk::map_row(o.dst, o.x, o.by_row, [](auto x, auto v) { return v - x; });
  check_rows_in_use(o.dst, [](int r, int c) { return v_at(r) - x_at(r, c); }, "map_row");
  hk::map_col(o.dst, o.x, o.by_col, [](auto x, auto v) { return v - x; });
  check_rows_in_use(o.dst, [](int r, int c) { return v_at(c) - x_at(r, c); }, "map_col");
}

namespace {

template <int N>
void check_vector_maps() {
  hk::rv<float, N> x, y, dst;
  unit::set_all(x, v_at);
  unit::set_all(y, [](int j) { return y_at(j, 1); });
  const auto check = [&](auto expected) { CHECK_EQ(unit::differences(dst, expected), 0); };
  hk::add(dst, x, y), check([](int j) { return v_at(j) + y_at(j, 1); });
  hk::sub(dst, x, y), check([](int j) { return v_at(j) - y_at(j, 1); });
  hk::mul(dst, x, y), check([](int j) { return v_at(j) * y_at(j, 1); });
  hk::div(dst, x, y), check([](int j) { return v_at(j) / y_at(j, 1); });
  hk::max(dst, x, y), check([](int j) { return std::max(v_at(j), y_at(j, 1)); });
  hk::min(dst, x, y), check([](int j) { return std::min(v_at(j), y_at(j, 1)); });
  hk::copy(dst, x), check(v_at);
  hk::neg(dst, dst), check([](int j) { return -v_at(j); });
  hk::mul_add(dst, x, x, y), check([](int j) { return v_at(j) * v_at(j) + y_at(j, 1); });
  hk::scale(dst, x, 3.0f), check([](int j) { return v_at(j) * 3.0f; });
  hk::shift(dst, x, 3.0f), check([](int j) { return v_at(j) + 3.0f; });
  hk::zero(dst), check([](int) { return 0.0f; });
  hk::one(dst), check([](int) { return 1.0f; });
  hk::fill(dst, 4.0f), check([](int) { return 4.0f; });
  hk::neg_infinity(dst), check([](int) { return -unit::infinity; });
  hk::pos_infinity(dst), check([](int) { return unit::infinity; });
  unit::set_all(x, [](int j) { return static_cast<float>(j % 9 - 4); });
  hk::exp2(dst, x), check([](int j) { return std::exp2(static_cast<float>(j % 9 - 4)); });
}

}  // namespace

HK_TEST(maps_of_vectors) {
  check_vector_maps<1>();
  check_vector_maps<2 * lanes>();
  check_vector_maps<3 * lanes + 1>();
}

namespace {

// Pairs of neighbours split and join; N elements come from whole fragments, or end in part of one.
template <int N>
void check_interleaving() {
  hk::rv<float, 2 * N> pairs;
  hk::rv<float, N> even, odd;
  unit::set_all(pairs, [](int j) { return static_cast<float>(j); });
  hk::deinterleave(even, odd, pairs);
  CHECK_EQ(unit::differences(even, [](int j) { return 2.0f * j; }), 0);
  CHECK_EQ(unit::differences(odd, [](int j) { return 2.0f * j + 1.0f; }), 0);
  hk::interleave(pairs, odd, even);
  CHECK_EQ(unit::differences(pairs, [](int j) { return static_cast<float>(j ^ 1); }), 0);
}

}  // namespace

HK_TEST(interleaving_of_vectors) {
  check_interleaving<lanes>();
  check_interleaving<4 * lanes>();
  check_interleaving<2 * lanes - 1>();
}

HK_TEST(maps_of_a_tile_with_column_fragments) {
  unit::column_tile<R, 5> x, y;
  hk::rv<float, R> by_row;
  hk::rv<float, 5> by_col;
  unit::set_all(x, x_at);
  unit::set_all(by_row, v_at);
  unit::set_all(by_col, v_at);
  hk::fill(y, 2.0f);
  hk::mul(y, x, y);
  CHECK_EQ(unit::differences(y, [](int r, int c) { return x_at(r, c) * 2.0f; }), 0);
  hk::sub_row(y, x, by_row);
  CHECK_EQ(unit::differences(y, [](int r, int c) { return x_at(r, c) - v_at(r); }), 0);
  hk::div_col(y, x, by_col);
  CHECK_EQ(unit::differences(y, [](int r, int c) { return x_at(r, c) / v_at(c); }), 0);
}
