// Loads and stores against index formulas, at every kind of edge: loads fill with zeros and read
// nothing outside the matrix, stores write nothing outside it.
#include "hk/ops/memory.h"

#include "tests/include/hk/support.h"

namespace {

using hk::simd::lanes;
namespace layout = hk::layout;

constexpr int R = hk::mma_panel + 3;
constexpr int C = 2 * hk::mma_panel;

// Matrices that end before, at and after the tile's edges, and where in them the tile starts.
struct placement {
  int rows, cols;
  hk::coord at;
};
constexpr placement placements[] = {
    {R, C, {0, 0}},         {R + 4, C + 5, {3, 2}},     {R - 1, C - 1, {0, 0}},
    {R + 2, 2 * C, {7, C}}, {R, lanes + 1, {R - 1, 0}}, {1, 1, {0, 0}},
    {9, 7, {2, 3}},         {5, C + 2, {4, C}},         {4, 4, {4, 0}},
    {4, 4, {0, 4}},         {4, 4, {100, 100}},         {0, 5, {0, 0}},
};

int in_use(std::int64_t size, std::int64_t at, int capacity) {
  return static_cast<int>(std::clamp<std::int64_t>(size - at, 0, capacity));
}

// How far a tile's padding must hold zeros, because products read it: to the end of a reduction
// group, and for B to the end of a panel.
struct padded_size {
  int rows, cols;
};
template <class Layout, class U>
padded_size padding(int rows, int cols) {
  constexpr int g = hk::mma_group<U>, p = hk::mma_panel;
  const auto up = layout::round_up;
  if constexpr (std::same_as<Layout, layout::rows>) return {rows, up(cols, g)};
  if constexpr (std::same_as<Layout, layout::row_panels>) return {up(rows, p), up(cols, g)};
  if constexpr (std::same_as<Layout, layout::col_panels>) return {up(rows, g), up(cols, p)};
  return {up(rows, g), cols};
}

template <class Layout, class U, class T>
void check_shared_load(const placement& p) {
  static hk::st<U, R, C, Layout> tile;
  std::memset(tile.data, 0xff, sizeof(tile.data));
  unit::matrix<T> source(p.rows, p.cols, p.cols + 3, 31);
  load(tile, source.plane(), p.at);
  CHECK_EQ(tile.rows(), in_use(p.rows, p.at.row, R));
  CHECK_EQ(tile.cols(), in_use(p.cols, p.at.col, C));
  if (tile.rows() == 0 || tile.cols() == 0) return;
  const padded_size padded = padding<Layout, U>(tile.rows(), tile.cols());
  const int row = static_cast<int>(p.at.row), col = static_cast<int>(p.at.col);
  int wrong = 0;
  for (int r = 0; r < padded.rows; ++r)
    for (int c = 0; c < padded.cols; ++c) {
      const bool inside = r < tile.rows() && c < tile.cols();
      const float expected = inside ? source.at(row + r, col + c) : 0.0f;
      wrong += !unit::same(hk::to_float(tile.data[tile.offset(r, c)]), expected);
    }
  CHECK_EQ(wrong, 0);
}

// f.operator()<Layout>() for every layout that loads fill.
template <class F>
void for_each_layout(F f) {
  f.template operator()<layout::rows>();
  f.template operator()<layout::grouped_rows>();
  f.template operator()<layout::row_panels>();
  f.template operator()<layout::col_panels>();
  f.template operator()<layout::col_strips>();
}

}  // namespace

HK_TEST(loads_into_shared_tiles) {
  for_each_layout([]<class Layout>() {
    unit::for_each_element([]<class T>() {
      for (const placement& p : placements) check_shared_load<Layout, hk::operand<T>, T>(p);
    });
  });
}

HK_TEST(loads_into_register_tiles) {
  unit::for_each_element([]<class T>() {
    for (const placement& p : placements) {
      hk::rt<float, R, C> tile;
      unit::set_all(tile, [](int, int) { return unit::nan; });
      unit::matrix<T> source(p.rows, p.cols, p.cols + 3, 32);
      load(tile, source.plane(), p.at);
      CHECK_EQ(tile.rows(), in_use(p.rows, p.at.row, R));
      CHECK_EQ(unit::differences(tile,
                                 [&](int r, int c) {
                                   if (r >= tile.rows()) return unit::nan;
                                   return source.padded(static_cast<int>(p.at.row) + r,
                                                        static_cast<int>(p.at.col) + c);
                                 }),
               0);
    }
  });
}

// Rows that fold two dimensions: groups of three rows, five rows apart. Tiles start and end inside
// a group, and pairs of rows straddle two of them.
HK_TEST(loads_bytes_into_register_tiles) {
  for (const placement& p : placements) {
    std::vector<std::uint8_t> bytes(p.rows * p.cols);  // exact: a sanitizer sees what lies behind
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(7 * i);
    const hk::plane<const std::uint8_t> source{bytes.data(), p.rows, p.cols, p.cols};
    static hk::rt<float, R, C> tile;
    hk::load(tile, source, p.at);
    CHECK_EQ(tile.rows(), in_use(p.rows, p.at.row, R));
    for (int r = 0; r < tile.rows(); ++r)
      for (int c = 0; c < C; ++c) {
        const std::int64_t row = p.at.row + r, col = p.at.col + c;
        CHECK_EQ(tile.row(r)[c], col < p.cols ? bytes[row * p.cols + col] : 0);
      }
  }
}

HK_TEST(loads_and_stores_follow_the_fold) {
  constexpr int fold = 3, step = 5, groups = 6, cols = lanes + 1;
  const auto place = [](int r) { return r / fold * step + r % fold; };
  unit::for_each_element([&]<class T>() {
    unit::matrix<T> source(groups * step, cols, cols + 2, 34);
    const auto folded = [&](T* data) {
      return hk::plane<T>{data, groups * fold, cols, cols + 2, fold, step * (cols + 2)};
    };
    for (int first : {0, 1, 2, 4}) {
      const int rows = std::min(groups * fold - first, R);
      for_each_layout([&]<class Layout>() {
        static hk::st<hk::operand<T>, R, C, Layout> tile;
        load(tile, folded(source.memory.data()), {first, 0});
        CHECK_EQ(tile.rows(), rows);
        int wrong = 0;
        for (int r = 0; r < rows; ++r)
          for (int c = 0; c < cols; ++c)
            wrong += !unit::same(hk::to_float(tile.at(r, c)), source.at(place(first + r), c));
        CHECK_EQ(wrong, 0);
      });
      hk::rt<float, R, C> tile;
      load(tile, folded(source.memory.data()), {first, 0});
      unit::guarded<T> memory(groups * step * (cols + 2));
      store(folded(memory.data()), tile, {first, 0});
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < cols; ++c)
          CHECK_EQ(hk::to_float(memory[source.index(place(first + r), c)]),
                   source.at(place(first + r), c));
      CHECK(memory.untouched(source.index(fold, 0)));
    }
  });
}

// The matrix fills its memory to the last byte, so that a sanitizer sees any read past it.
HK_TEST(loads_read_nothing_behind_the_matrix) {
  unit::for_each_element([]<class T>() {
    for (int cols : {1, 2, lanes - 1, lanes + 1, C - 1, C}) {
      const std::vector<T> data = unit::random_array<T>(3 * cols, 33);
      const hk::plane<const T> source{data.data(), 3, cols, cols};
      const float last = hk::to_float(data.back());
      hk::rt<float, R, C> registers;
      load(registers, source, {0, 0});
      CHECK_EQ(registers.row(2)[cols - 1], last);
      for_each_layout([&]<class Layout>() {
        static hk::st<hk::operand<T>, R, C, Layout> tile;
        load(tile, source, {0, 0});
        CHECK_EQ(hk::to_float(tile.at(2, cols - 1)), last);
      });
    }
  });
}

namespace {

template <class T, class U>
void check_store(const placement& p, int rows) {
  unit::guarded<T> memory(static_cast<std::size_t>(p.rows) * (p.cols + 3));
  const hk::plane<T> target{memory.data(), p.rows, p.cols, p.cols + 3};
  hk::rt<U, R, C> tile;
  unit::set_all(tile, [](int r, int c) { return static_cast<float>(r * C + c) / 7.0f; });
  tile.resize_rows(rows);
  store(target, tile, p.at);
  const int written_rows = in_use(p.rows, p.at.row, rows);
  const int written_cols = in_use(p.cols, p.at.col, C);
  int wrong = !memory.intact();
  for (int r = 0; r < p.rows; ++r)
    for (int c = 0; c < p.cols + 3; ++c) {
      const int i = r - static_cast<int>(p.at.row), j = c - static_cast<int>(p.at.col);
      const bool inside = i >= 0 && i < written_rows && j >= 0 && j < written_cols;
      const std::ptrdiff_t at = r * (p.cols + 3) + c;
      if (!inside)
        wrong += !memory.untouched(at);
      else
        wrong +=
            !unit::same(hk::to_float(memory[at]), unit::rounded<T>(hk::to_float(tile.row(i)[j])));
    }
  CHECK_EQ(wrong, 0);
}

}  // namespace

HK_TEST(stores_of_register_tiles) {
  unit::for_each_element([]<class T>() {
    for (const placement& p : placements)
      for (int rows : {0, 2, R}) {
        check_store<T, float>(p, rows);
        check_store<T, T>(p, rows);
      }
  });
}

namespace {

template <int N, class T>
void check_vector(int count) {
  const int inside = std::clamp(count, 0, N);
  unit::guarded<T> memory(inside);
  for (int j = 0; j < inside; ++j) memory[j] = hk::from_float<T>(static_cast<float>(j + 1));
  hk::rv<float, N> v;
  unit::set_all(v, [](int) { return unit::nan; });
  load(v, static_cast<const T*>(memory.data()), count);
  CHECK_EQ(unit::differences(v, [&](int j) { return j < inside ? j + 1.0f : 0.0f; }), 0);
  // Rounding differs from element to element, and so does the place that each must go to.
  const auto value = [](int j) { return static_cast<float>(j - 3) / 7.0f; };
  hk::fill(v, 1.0f);  // lanes behind the vector's end too: what the guards hold must not hide them
  unit::set_all(v, value);
  store(memory.data(), v, count);
  CHECK(memory.intact());
  for (int j = 0; j < inside; ++j) CHECK_EQ(hk::to_float(memory[j]), unit::rounded<T>(value(j)));
}

}  // namespace

HK_TEST(loads_and_stores_of_vectors) {
  unit::for_each_element([]<class T>() {
    for (int count = 0; count <= 4 * lanes + 1; ++count) {
      check_vector<4 * lanes, T>(count);
      check_vector<3 * lanes, T>(count);
      check_vector<2 * lanes + 1, T>(count);
    }
  });
}

namespace {

// A register tile stored to a shared one, its element rounded to the operand type.
template <class Layout, class U, class S>
void check_register_to_shared(int rows) {
  hk::rt<S, R, C> source;
  unit::set_all(source, [](int r, int c) { return static_cast<float>(r * C + c) / 7.0f; });
  source.resize_rows(rows);
  static hk::st<U, R, C, Layout> tile;
  std::memset(tile.data, 0xff, sizeof(tile.data));
  store(tile, source);
  CHECK_EQ(tile.rows(), rows);
  CHECK_EQ(tile.cols(), C);
  const padded_size padded = padding<Layout, U>(rows, C);
  int wrong = 0;
  for (int r = 0; r < padded.rows; ++r)
    for (int c = 0; c < padded.cols; ++c) {
      const float expected =
          r < rows && c < C ? unit::rounded<U>(hk::to_float(source.row(r)[c])) : 0.0f;
      wrong += !unit::same(hk::to_float(tile.data[tile.offset(r, c)]), expected);
    }
  CHECK_EQ(wrong, 0);
}

}  // namespace

HK_TEST(stores_of_register_tiles_to_shared_ones) {
  for (int rows : {0, 1, 2, R - 1, R})
    unit::for_each_element([&]<class T>() {
      using U = hk::operand<T>;
      check_register_to_shared<layout::rows, U, float>(rows);
      check_register_to_shared<layout::grouped_rows, U, U>(rows);
    });
}
