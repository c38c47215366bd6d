// Register tiles: fragments cover the rows in use, and say which elements they hold.
#include "hk/types/register_tile.h"

#include "tests/include/hk/support.h"

namespace {

using hk::simd::f32;
using hk::simd::i32;
using hk::simd::lanes;

constexpr int R = 5;
constexpr int C = 3 * lanes;

// How often each element is in a fragment that each() visits.
template <class Tile>
std::vector<int> visits(const Tile& tile) {
  std::vector<int> count(R * C);
  tile.each([&](auto at) {
    const i32 col = Tile::col_of(at);
    for (int l = 0; l < lanes; ++l) ++count[Tile::row_of(at) * C + col[l]];
  });
  return count;
}

}  // namespace

static_assert(hk::register_tile<hk::rt<float, R, C>>);
static_assert(!hk::register_tile<hk::rv<float, C>> && !hk::register_tile<float>);
static_assert(hk::same_shape<hk::rt<float, R, C>, hk::rt<hk::bf16, R, C>>);
static_assert(!hk::same_shape<hk::rt<float, R, C>, hk::rt<float, R + 1, C>>);
static_assert(!hk::same_shape<hk::rt<float, R, C>, hk::rt<float, R, 2 * C>>);

HK_TEST(each_visits_the_rows_in_use_once) {
  hk::rt<float, R, C> tile;
  CHECK_EQ(tile.rows(), R);
  for (int rows = 0; rows <= R; ++rows) {
    tile.resize_rows(rows);
    CHECK_EQ(tile.rows(), rows);
    const std::vector<int> count = visits(tile);
    for (int i = 0; i < R * C; ++i) CHECK_EQ(count[i], i / C < rows ? 1 : 0);
  }
}

HK_TEST(get_and_set_name_the_same_elements) {
  unit::for_each_element([]<class T>() {
    hk::rt<T, R, C> tile;
    unit::set_all(tile, [](int, int) { return -1.0f; });
    tile.each([&](auto at) {
      f32 x;
      for (int l = 0; l < lanes; ++l)
        x[l] = static_cast<float>(tile.row_of(at) * C + tile.col_of(at)[l]) / 3.0f;
      tile.set(at, x);
    });
    const auto expected = [](int r, int c) {
      return unit::rounded<T>(static_cast<float>(r * C + c) / 3.0f);
    };
    CHECK_EQ(unit::differences(tile, expected), 0);
    tile.each([&](auto at) {
      const f32 x = tile.get(at);
      for (int l = 0; l < lanes; ++l) CHECK_EQ(x[l], expected(tile.row_of(at), tile.col_of(at)[l]));
    });
  });
}

HK_TEST(row_and_column_values_follow_the_elements) {
  using tile = hk::rt<float, R, C>;
  hk::rv<float, R> by_row;
  hk::rv<float, C> by_col;
  unit::set_all(by_row, [](int r) { return r + 0.5f; });
  unit::set_all(by_col, [](int c) { return c - 0.25f; });
  tile().each([&](auto at) {
    for (int l = 0; l < lanes; ++l) {
      CHECK_EQ(tile::row_value(by_row, at)[l], tile::row_of(at) + 0.5f);
      CHECK_EQ(tile::col_value(by_col, at)[l], tile::col_of(at)[l] - 0.25f);
    }
  });
}
