// Shared tiles and vectors: elements by row and column, the size in use, alignment.
#include "hk/types/shared_tile.h"

#include "tests/include/hk/support.h"

namespace {

template <class Tile>
void check_elements() {
  static Tile tile;
  static_assert(hk::shared_tile<Tile>);
  using T = typename Tile::T;
  const auto value = [](int r, int c) { return static_cast<float>((r * 37 + c) % 251); };
  for (int r = 0; r < tile.rows_max; ++r)
    for (int c = 0; c < tile.cols_max; ++c) tile.at(r, c) = hk::from_float<T>(value(r, c));
  const Tile& read = tile;
  for (int r = 0; r < tile.rows_max; ++r)
    for (int c = 0; c < tile.cols_max; ++c) {
      CHECK_EQ(hk::to_float(read.at(r, c)), value(r, c));
      CHECK(&read.at(r, c) == read.data + Tile::offset(r, c));
    }
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(tile.data) % 64, 0u);
}

template <class T, class Layout>
void check_layout() {
  check_elements<hk::st<T, 1, 1, Layout>>();
  check_elements<hk::st<T, 33, 20, Layout>>();
  check_elements<hk::st<T, 20, 33, Layout>>();
}

}  // namespace

static_assert(!hk::shared_tile<hk::rt<float, 4, 16>> && !hk::shared_tile<float>);

HK_TEST(elements_are_found_where_they_were_put) {
  unit::for_each_element([]<class T>() {
    check_layout<T, hk::layout::rows>();
    check_layout<T, hk::layout::grouped_rows>();
    check_layout<T, hk::layout::row_panels>();
    check_layout<T, hk::layout::col_panels>();
  });
}

HK_TEST(the_size_in_use_starts_as_all_and_follows_resize) {
  hk::st<float, 6, 9, hk::layout::rows> tile;
  CHECK_EQ(tile.rows(), 6);
  CHECK_EQ(tile.cols(), 9);
  tile.resize(2, 0);
  CHECK_EQ(tile.rows(), 2);
  CHECK_EQ(tile.cols(), 0);
}

HK_TEST(shared_vectors_are_arrays) {
  hk::sv<float, 10> v;
  for (int j = 0; j < v.length; ++j) v[j] = static_cast<float>(j);
  const auto& read = v;
  for (int j = 0; j < v.length; ++j) CHECK_EQ(read[j], static_cast<float>(j));
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(v.data) % 64, 0u);
}
