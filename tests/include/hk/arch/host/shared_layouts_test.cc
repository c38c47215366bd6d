// Shared layouts: each element has a place of its own inside the tile, and the elements of a
// reduction group are neighbours.
#include "hk/arch/host/shared_layouts.h"

#include "tests/include/hk/support.h"

namespace {

namespace layout = hk::layout;

// f.operator()<Layout>() for every layout.
template <class F>
void for_each_layout(F f) {
  f.template operator()<layout::rows>();
  f.template operator()<layout::grouped_rows>();
  f.template operator()<layout::row_panels>();
  f.template operator()<layout::col_panels>();
}

constexpr int sizes[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 100, 128};

template <class Layout, class T>
bool is_bijective(int R, int C) {
  std::vector<bool> taken(Layout::template size<T>(R, C));
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) {
      const int at = Layout::template offset<T>(r, c, R, C);
      if (at < 0 || at >= static_cast<int>(taken.size()) || taken[at]) return false;
      taken[at] = true;
    }
  return true;
}

}  // namespace

HK_TEST(every_element_has_a_place_of_its_own) {
  for_each_layout([]<class Layout>() {
    unit::for_each_element([]<class T>() {
      for (int R : sizes)
        for (int C : sizes) CHECK((is_bijective<Layout, T>(R, C)));
    });
  });
}

// The reduction runs along columns in `rows` and `row_panels`, along rows in the other two.
HK_TEST(groups_along_the_reduction_are_adjacent) {
  unit::for_each_element([]<class T>() {
    constexpr int R = 66, C = 70, g = hk::mma_group<T>;
    for (int i = 0; i < R; ++i)
      for (int k = 0; k + 1 < R; ++k) {
        if (k % g == g - 1) continue;
        CHECK_EQ(layout::rows::offset<T>(i, k + 1, R, C), layout::rows::offset<T>(i, k, R, C) + 1);
        CHECK_EQ(layout::row_panels::offset<T>(i, k + 1, R, C),
                 layout::row_panels::offset<T>(i, k, R, C) + 1);
        CHECK_EQ(layout::grouped_rows::offset<T>(k + 1, i, R, C),
                 layout::grouped_rows::offset<T>(k, i, R, C) + 1);
        CHECK_EQ(layout::col_panels::offset<T>(k + 1, i, R, C),
                 layout::col_panels::offset<T>(k, i, R, C) + 1);
      }
  });
}

// What one multiply-add step reads of B: the panel's columns side by side, steps one after another.
HK_TEST(a_panel_is_read_from_front_to_back) {
  unit::for_each_element([]<class T>() {
    constexpr int K = 10, N = 3 * hk::mma_panel, g = hk::mma_group<T>;
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j) {
        const int panel = j / hk::mma_panel;
        const int in_panel = k / g * hk::mma_panel * g + j % hk::mma_panel * g + k % g;
        CHECK_EQ(layout::col_panels::offset<T>(k, j, K, N),
                 panel * layout::col_panels::stride<T>(K, N) + in_panel);
        CHECK_EQ(layout::row_panels::offset<T>(j, k, N, K),
                 panel * layout::row_panels::stride<T>(N, K) + in_panel);
      }
  });
}

HK_TEST(consecutive_rows_fall_into_different_cache_sets) {
  unit::for_each_element([]<class T>() {
    for (int C : sizes) {
      const int bytes = layout::rows::stride<T>(0, C) * static_cast<int>(sizeof(T));
      CHECK(bytes >= C * static_cast<int>(sizeof(T)));
      CHECK_EQ(bytes % 64, 0);
    }
    CHECK(layout::rows::stride<T>(0, 1024) * sizeof(T) % 4096 != 0u);
  });
}

HK_TEST(operands_hold_every_element_exactly) {
  unit::for_each_element([]<class T>() {
    using U = hk::operand<T>;
    for (int bits = 0; bits < 65536; ++bits) {
      const float x = unit::rounded<T>(static_cast<float>(bits - 32768) / 7.0f);
      if (unit::rounded<U>(x) != x) return CHECK_EQ(unit::rounded<U>(x), x);
    }
  });
}
