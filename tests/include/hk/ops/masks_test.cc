// Masks against index formulas, on tiles with row and with column fragments.
#include "hk/ops/masks.h"

#include "tests/include/hk/support.h"

namespace {

using hk::simd::lanes;

constexpr int R = 2 * lanes;
constexpr int C = 3 * lanes;

float x_at(int r, int c) { return static_cast<float>(r * 100 + c); }

// op(tile) keeps the elements where keep(r, c) holds and puts -1 elsewhere.
template <class Op, class Keep>
void check_mask(Op op, Keep keep) {
  const auto expected = [&](int r, int c) { return keep(r, c) ? x_at(r, c) : -1.0f; };
  hk::rt<float, R, C> tile;
  unit::set_all(tile, x_at);
  op(tile);
  CHECK_EQ(unit::differences(tile, expected), 0);
  unit::column_tile<R, C> columns;
  unit::set_all(columns, x_at);
  op(columns);
  CHECK_EQ(unit::differences(columns, expected), 0);
}

}  // namespace

HK_TEST(triangles_follow_their_diagonal) {
  for (int d = -R - 1; d <= C + 1; ++d) {
    const auto lower = [=](int r, int c) { return c <= r + d; };
    check_mask([=](auto& t) { hk::tril(t, d, -1.0f); }, lower);
    check_mask([=](auto& t) { hk::make_causal(t, d, -1.0f); }, lower);
    check_mask([=](auto& t) { hk::triu(t, d, -1.0f); }, [=](int r, int c) { return c >= r + d; });
  }
}

HK_TEST(fills_follow_their_column) {
  for (int first = -1; first <= C + 1; ++first) {
    check_mask([=](auto& t) { hk::right_fill(t, first, -1.0f); },
               [=](int, int c) { return c < first; });
    check_mask([=](auto& t) { hk::left_fill(t, first, -1.0f); },
               [=](int, int c) { return c >= first; });
  }
}

HK_TEST(a_mask_may_ask_rows_columns_or_both) {
  check_mask([](auto& t) { hk::mask(t, [](auto r, auto) { return r < 3; }, -1.0f); },
             [](int r, int) { return r < 3; });
  check_mask([](auto& t) { hk::mask(t, [](auto, auto c) { return c < 3; }, -1.0f); },
             [](int, int c) { return c < 3; });
  check_mask(
      [](auto& t) {
        hk::mask(t, [](auto r, auto c) { return (c >= r - 2) & (c <= r + 4); }, -1.0f);
      },
      [](int r, int c) { return c >= r - 2 && c <= r + 4; });
}

HK_TEST(masked_elements_take_the_value_as_it_is) {
  hk::rt<float, R, C> tile;
  unit::set_all(tile, [](int, int) { return unit::nan; });
  hk::right_fill(tile, 0, -unit::infinity);
  CHECK_EQ(unit::differences(tile, [](int, int) { return -unit::infinity; }), 0);
  unit::set_all(tile, [](int, int) { return unit::nan; });
  hk::left_fill(tile, 0, 1.0f);
  CHECK_EQ(unit::differences(tile, [](int, int) { return unit::nan; }), 0);
}

namespace {

template <int N>
void check_vector_masks() {
  hk::rv<float, N> v;
  const auto number = [](int j) { return static_cast<float>(j); };
  for (int first = -1; first <= N + 1; ++first) {
    unit::set_all(v, number);
    hk::right_fill(v, first, -1.0f);
    CHECK_EQ(unit::differences(v, [=](int j) { return j < first ? number(j) : -1.0f; }), 0);
  }
  unit::set_all(v, number);
  hk::mask(v, [](auto j) { return (j & 1) == 0; }, unit::nan);
  CHECK_EQ(unit::differences(v, [=](int j) { return j % 2 ? unit::nan : number(j); }), 0);
}

}  // namespace

HK_TEST(masks_of_vectors) {
  check_vector_masks<1>();
  check_vector_masks<2 * lanes>();
  check_vector_masks<3 * lanes - 1>();
}

HK_TEST(rows_out_of_use_are_left_alone) {
  unit::for_each_element([]<class T>() {
    hk::rt<T, R, C> tile;
    unit::set_all(tile, [](int, int) { return 1.0f; });
    tile.resize_rows(R - 1);
    hk::right_fill(tile, 2, 0.0f);
    CHECK_EQ(unit::differences(tile, [](int r, int c) { return r == R - 1 || c < 2; }), 0);
  });
}
