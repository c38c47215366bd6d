// Reductions against float64, for tiles cut short and vectors that end inside a fragment.
#include "hk/ops/reductions.h"

#include "tests/include/hk/support.h"

namespace {

using hk::simd::lanes;

constexpr int R = 7;

// A tile of random elements and the sums and maxima of its first `rows` rows in float64.
template <hk::element T, int C>
struct sample {
  explicit sample(int rows) {
    const std::vector<T> values = unit::random_array<T>(R * C, 17);
    unit::set_all(tile, [&](int r, int c) { return hk::to_float(values[r * C + c]); });
    tile.resize_rows(rows);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < C; ++c) {
        const double x = hk::to_float(values[r * C + c]);
        row_sum[r] += x;
        col_sum[c] += x;
        row_max[r] = std::max(row_max[r], x);
        col_max[c] = std::max(col_max[c], x);
      }
  }

  hk::rt<T, R, C> tile;
  std::vector<double> row_sum = std::vector<double>(R, 0.0);
  std::vector<double> col_sum = std::vector<double>(C, 0.0);
  std::vector<double> row_max = std::vector<double>(R, -INFINITY);
  std::vector<double> col_max = std::vector<double>(C, -INFINITY);
};

template <hk::element T, int C>
void check_rows(int rows) {
  const sample<T, C> s(rows);
  hk::rv<float, R> sum, max;
  hk::fill(sum, 100.0f);
  hk::fill(max, 0.25f);
  hk::row_sum(sum, s.tile, sum);
  hk::row_max(max, s.tile, max);
  for (int r = 0; r < rows; ++r) {
    CHECK_CLOSE(sum[r], 100.0 + s.row_sum[r], 1e-6);
    CHECK_EQ(max[r], std::max(0.25, s.row_max[r]));
  }
  hk::row_sum(sum, s.tile);
  hk::row_max(max, s.tile);
  for (int r = 0; r < rows; ++r) {
    CHECK_CLOSE(sum[r], s.row_sum[r], 1e-6);
    CHECK_EQ(max[r], s.row_max[r]);
  }
}

template <hk::element T, int C>
void check_cols(int rows) {
  const sample<T, C> s(rows);
  hk::rv<float, C> sum, max;
  hk::fill(sum, 100.0f);
  hk::col_sum(sum, s.tile, sum);
  for (int c = 0; c < C; ++c) CHECK_CLOSE(sum[c], 100.0 + s.col_sum[c], 1e-6);
  hk::col_sum(sum, s.tile);
  hk::col_max(max, s.tile);
  for (int c = 0; c < C; ++c) {
    CHECK_CLOSE(sum[c], s.col_sum[c], 1e-6);
    CHECK_EQ(max[c], s.col_max[c]);
  }
}

template <int N>
void check_vector() {
  const std::vector<float> values = unit::random_array(N, 23);
  hk::rv<float, N> v;
  for (auto& fragment : v.data) fragment = hk::simd::splat(unit::infinity);
  unit::set_all(v, [&](int j) { return values[j]; });
  double sum = 0.0;
  for (float x : values) sum += x;
  CHECK_CLOSE(hk::sum(v), sum, 1e-6);
  CHECK_EQ(hk::max(v), *std::max_element(values.begin(), values.end()));
  CHECK_EQ(hk::min(v), *std::min_element(values.begin(), values.end()));
}

}  // namespace

HK_TEST(rows_and_columns_in_use) {
  unit::for_each_element([]<class T>() {
    for (int rows : {0, 1, R - 1, R}) {
      check_rows<T, lanes>(rows);
      check_rows<T, 3 * lanes>(rows);
      check_cols<T, lanes>(rows);
      check_cols<T, 3 * lanes>(rows);
    }
  });
}

// Lanes behind the vector's end hold infinity here, and count for nothing.
HK_TEST(vectors_of_any_length) {
  check_vector<1>();
  check_vector<lanes - 1>();
  check_vector<lanes>();
  check_vector<2 * lanes + 1>();
  check_vector<8 * lanes>();
}

// The sum is of what f gave, not of what dst could hold of it.
HK_TEST(a_map_and_the_sum_of_its_result) {
  constexpr int C = 3 * lanes;
  unit::for_each_element([]<class T>() {
    const sample<float, C> s(R - 1);
    hk::rt<T, R, C> dst;
    unit::set_all(dst, [](int, int) { return unit::nan; });
    hk::rv<float, R> v, sum;
    unit::set_all(v, [](int r) { return r + 1.0f; });
    hk::fill(sum, 100.0f);
    hk::map_row_sum(dst, s.tile, v, hk::fn::mul, sum);
    CHECK_EQ(unit::differences(dst,
                               [&](int r, int c) {
                                 if (r == R - 1) return unit::nan;
                                 return unit::rounded<T>(s.tile.row(r)[c] * v[r]);
                               }),
             0);
    for (int r = 0; r < R - 1; ++r) CHECK_CLOSE(sum[r], 100.0 + s.row_sum[r] * v[r], 1e-6);
  });
}

namespace {

// dst[r] against float64, and bit for bit against the diagonal of mma_ABt.
template <hk::element T>
void check_row_dot(int rows, int cols) {
  using U = hk::operand<T>;
  constexpr int capacity = hk::mma_panel;
  static hk::st<U, capacity, 3 * lanes, hk::layout::row_panels> x, y;
  static hk::st<U, capacity, 3 * lanes, hk::layout::rows> x_rows;
  unit::matrix<T> a(rows, cols, cols, 51), b(rows, cols, cols, 52);
  load(x, a.plane(), {0, 0});
  load(y, b.plane(), {0, 0});
  load(x_rows, a.plane(), {0, 0});
  hk::rt<float, capacity, capacity> product;
  product.resize_rows(rows);
  hk::zero(product);
  hk::mma_ABt(product, x_rows, y);
  hk::rv<float, capacity> dot;
  hk::row_dot(dot, x, y);
  for (int r = 0; r < rows; ++r) {
    double expected = 0.0;
    for (int c = 0; c < cols; ++c) expected += static_cast<double>(a.at(r, c)) * b.at(r, c);
    CHECK_CLOSE(dot[r], expected, 1e-6);
    CHECK_EQ(dot[r], product.row(r)[r]);
  }
}

}  // namespace

HK_TEST(row_dot_is_the_diagonal_of_a_product) {
  unit::for_each_element([]<class T>() {
    for (int rows : {1, lanes - 1, lanes + 1, hk::mma_panel})
      for (int cols : {0, 1, lanes, 3 * lanes - 1}) check_row_dot<T>(rows, cols);
  });
}

// A NaN makes every sum it is in NaN. A maximum may skip it, but only for another of the elements:
// the second operand is taken where one is NaN.
HK_TEST(nan_spreads_through_sums_and_is_skipped_or_kept_by_maxima) {
  constexpr int C = 2 * lanes;
  for (int at = 0; at < C; ++at) {
    hk::rt<float, R, C> tile;
    unit::set_all(tile, [&](int r, int c) { return r == 2 && c == at ? unit::nan : 1.0f; });
    hk::rv<float, R> row;
    hk::rv<float, C> col;
    hk::row_sum(row, tile);
    CHECK_EQ(unit::differences(row, [](int r) { return r == 2 ? unit::nan : 1.0f * C; }), 0);
    hk::col_sum(col, tile);
    CHECK_EQ(unit::differences(col, [&](int c) { return c == at ? unit::nan : 1.0f * R; }), 0);
    hk::row_max(row, tile);
    CHECK(std::isnan(row[2]) || row[2] == 1.0f);
    hk::col_max(col, tile);
    CHECK_EQ(unit::differences(col, [](int) { return 1.0f; }), 0);
  }
}

HK_TEST(rows_of_infinities_keep_their_maximum) {
  hk::rt<float, R, lanes> tile;
  hk::rv<float, R> max;
  hk::neg_infinity(tile);
  hk::row_max(max, tile);
  CHECK_EQ(unit::differences(max, [](int) { return -unit::infinity; }), 0);
  hk::pos_infinity(tile);
  hk::row_max(max, tile);
  CHECK_EQ(unit::differences(max, [](int) { return unit::infinity; }), 0);
}
