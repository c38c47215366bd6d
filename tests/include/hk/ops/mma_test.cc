// Tile products in every operand form against float64, with a remainder in each dimension and NaN
// in all memory that is not in use.
#include "hk/ops/mma.h"

#include "tests/include/hk/support.h"

namespace {

using hk::simd::lanes;
namespace layout = hk::layout;

// Capacities of the tiles: rows and columns of D, and the reduction.
constexpr int M = 2 * hk::mma_rows + 3;
constexpr int N = 3 * hk::mma_panel;
constexpr int K = 3 * lanes;
constexpr int M_in_fragments = layout::round_up(M, lanes);

using accumulator = hk::rt<float, M, N>;

float initial(int i, int j) { return static_cast<float>(i - j) / 16.0f; }

// Elements of A (m x k) and B (k x n) of type T.
template <hk::element T>
struct sample {
  sample(int m, int n, int k)
      : m(m),
        n(n),
        k(k),
        a(unit::random_array<T>(static_cast<std::size_t>(M) * K, 41)),
        b(unit::random_array<T>(static_cast<std::size_t>(K) * N, 42)) {}

  float a_at(int i, int l) const { return hk::to_float(a[i * K + l]); }
  float b_at(int l, int j) const { return hk::to_float(b[l * N + j]); }

  int m, n, k;
  std::vector<T> a, b;
};

// Fills a shared tile, all NaN before, by loading the rows x cols elements f(r, c).
template <hk::element T, class Tile, class F>
void load_from(Tile& tile, int rows, int cols, F f) {
  std::memset(tile.data, 0xff, sizeof(tile.data));
  unit::matrix<T> source(rows, cols, cols + 5, 1);
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < cols; ++c) source.memory[source.index(r, c)] = hk::from_float<T>(f(r, c));
  load(tile, source.plane(), {0, 0});
}

// A and B in every form that products take them in.
template <hk::element T>
struct operands {
  using U = hk::operand<T>;

  explicit operands(const sample<T>& s) {
    const auto a = [&](int i, int l) { return s.a_at(i, l); };
    const auto a_t = [&](int l, int i) { return s.a_at(i, l); };
    const auto b = [&](int l, int j) { return s.b_at(l, j); };
    const auto b_t = [&](int j, int l) { return s.b_at(l, j); };
    load_from<T>(a_rows, s.m, s.k, a);
    load_from<T>(a_grouped, s.k, s.m, a_t);
    load_from<T>(a_strips, s.k, s.m, a_t);
    load_from<T>(b_cols, s.k, s.n, b);
    load_from<T>(b_rows, s.n, s.k, b_t);
    // A register tile must be finite up to the end of the last group: it is multiplied by zeros.
    const int finite = layout::round_up(s.k, hk::mma_group<U>);
    unit::set_all(a_registers, [&](int i, int l) {
      return i < s.m && l < finite ? (l < s.k ? a(i, l) : 0.0f) : unit::nan;
    });
  }

  hk::st<U, M, K, layout::rows> a_rows;
  hk::rt<U, M, K> a_registers;
  hk::st<U, K, M, layout::grouped_rows> a_grouped;
  hk::st<U, K, M, layout::col_strips> a_strips;
  hk::st<U, K, N, layout::col_panels> b_cols;
  hk::st<U, N, K, layout::row_panels> b_rows;
};

// D as `multiply` leaves it, from `initial` and s.m rows in use.
template <class T, class F>
accumulator product(const sample<T>& s, F multiply) {
  accumulator d;
  unit::set_all(d, initial);
  d.resize_rows(s.m);
  multiply(d);
  return d;
}

enum class into { sum, result };

// D += A B or D = A B where rows and columns are in use, to the end of a panel, whose columns
// behind B's are sums of zeros; D as it was elsewhere.
template <into form, class T, class F>
void check(const char* name, const sample<T>& s, F multiply) {
  const accumulator d = product(s, multiply);
  const int computed = layout::round_up(s.n, hk::mma_panel);
  int wrong = 0;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      const bool kept = form == into::sum || i >= s.m || j >= computed;
      double expected = kept ? initial(i, j) : 0.0;
      if (i < s.m && j < s.n)
        for (int l = 0; l < s.k; ++l) expected += static_cast<double>(s.a_at(i, l)) * s.b_at(l, j);
      wrong += !unit::is_close(d.row(i)[j], expected, 5e-6);
    }
  if (wrong) std::fprintf(stderr, "%s with M %d, N %d, K %d:\n", name, s.m, s.n, s.k);
  CHECK_EQ(wrong, 0);
}

template <hk::element T>
void check_every_form(int m, int n, int k) {
  const sample<T> s(m, n, k);
  static operands<T> o(s);
  o = operands<T>(s);
  constexpr into sum = into::sum, result = into::result;
  check<sum>("mma_AB, A shared", s, [](auto& d) { mma_AB(d, o.a_rows, o.b_cols); });
  check<sum>("mma_AB, A in registers", s, [](auto& d) { mma_AB(d, o.a_registers, o.b_cols); });
  check<sum>("mma_ABt, A shared", s, [](auto& d) { mma_ABt(d, o.a_rows, o.b_rows); });
  check<sum>("mma_ABt, A in registers", s, [](auto& d) { mma_ABt(d, o.a_registers, o.b_rows); });
  check<sum>("mma_AtB, A grouped", s, [](auto& d) { mma_AtB(d, o.a_grouped, o.b_cols); });
  check<sum>("mma_AtB, A in strips", s, [](auto& d) { mma_AtB(d, o.a_strips, o.b_cols); });
  check<sum>("mma_AtBt, A grouped", s, [](auto& d) { mma_AtBt(d, o.a_grouped, o.b_rows); });
  check<sum>("mma_AtBt, A in strips", s, [](auto& d) { mma_AtBt(d, o.a_strips, o.b_rows); });
  check<result>("mm_AB", s, [](auto& d) { mm_AB(d, o.a_rows, o.b_cols); });
  check<result>("mm_ABt", s, [](auto& d) { mm_ABt(d, o.a_registers, o.b_rows); });
  check<result>("mm_AtB", s, [](auto& d) { mm_AtB(d, o.a_grouped, o.b_cols); });
  check<result>("mm_AtBt", s, [](auto& d) { mm_AtBt(d, o.a_strips, o.b_rows); });
}

constexpr int rows_of_d[] = {0, 1, hk::mma_rows - 1, hk::mma_rows, hk::mma_rows + 1, M};
constexpr int cols_of_d[] = {1, hk::mma_panel - 1, hk::mma_panel, hk::mma_panel + 1, N};
constexpr int reductions[] = {0, 1, 2, 3, lanes, K - 1, K};

}  // namespace

HK_TEST(products_with_a_remainder_in_each_dimension) {
  for (int m : rows_of_d)
    for (int n : cols_of_d)
      for (int k : reductions)
        unit::for_each_element([&]<class T>() { check_every_form<T>(m, n, k); });
}

// Of operands with one element to a group, a row-major tile is also an A for AtB.
HK_TEST(a_float_tile_is_its_own_transpose) {
  for (int m : rows_of_d) {
    const sample<float> s(m, N - 1, K - 1);
    static operands<float> o(s);
    o = operands<float>(s);
    static hk::st<float, K, M, layout::rows> a_rows;
    static hk::rt<float, K, M_in_fragments> a_registers;
    load_from<float>(a_rows, s.k, s.m, [&](int l, int i) { return s.a_at(i, l); });
    unit::set_all(a_registers,
                  [&](int l, int i) { return l < s.k && i < s.m ? s.a_at(i, l) : unit::nan; });
    check<into::sum>("mma_AtB, A in rows", s, [](auto& d) { mma_AtB(d, a_rows, o.b_cols); });
    check<into::sum>("mma_AtB, A in registers", s,
                     [](auto& d) { mma_AtB(d, a_registers, o.b_cols); });
    check<into::sum>("mma_AtBt, A in rows", s, [](auto& d) { mma_AtBt(d, a_rows, o.b_rows); });
    check<into::sum>("mma_AtBt, A in registers", s,
                     [](auto& d) { mma_AtBt(d, a_registers, o.b_rows); });
  }
}

// An element of D is the same, bit for bit, however many rows and columns are computed with it, and
// in whichever form: work may be cut up differently for each number of threads.
HK_TEST(an_element_does_not_depend_on_its_neighbours) {
  unit::for_each_element([]<class T>() {
    const sample<T> all(M, N, K - 1);
    static operands<T> o(all);
    const accumulator whole = product(all, [](auto& d) { mma_AB(d, o.a_rows, o.b_cols); });
    for (int m : rows_of_d)
      for (int n : cols_of_d) {
        const sample<T> s(m, n, K - 1);
        o = operands<T>(s);
        const auto same_as_whole = [&](auto multiply) {
          const accumulator d = product(s, multiply);
          int wrong = 0;
          for (int i = 0; i < m; ++i)
            for (int j = 0; j < n; ++j) wrong += !unit::same(d.row(i)[j], whole.row(i)[j]);
          CHECK_EQ(wrong, 0);
        };
        same_as_whole([](auto& d) { mma_AB(d, o.a_rows, o.b_cols); });
        same_as_whole([](auto& d) { mma_ABt(d, o.a_registers, o.b_rows); });
        same_as_whole([](auto& d) { mma_AtB(d, o.a_strips, o.b_cols); });
      }
  });
}

// A NaN or an infinity reaches the elements that it is a term of, and no others in use.
HK_TEST(nan_stays_in_its_row_and_column) {
  sample<float> s(M, N, K);
  s.a[3 * K + 5] = unit::nan;
  s.b[7 * N + 2] = unit::infinity;
  static operands<float> o(s);
  const accumulator d = product(s, [](auto& d) { mma_AB(d, o.a_rows, o.b_cols); });
  int wrong = 0;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j)
      wrong +=
          std::isfinite(d.row(i)[j]) != (i != 3 && j != 2) || std::isnan(d.row(i)[j]) != (i == 3);
  CHECK_EQ(wrong, 0);
}
