// Global layouts against the index formula of a row-major array.
#include "hk/types/global_layout.h"

#include "tests/unit.h"

namespace {

constexpr int64_t B = 2, D = 3, R = 4, C = 5;

// Element [b][d][r][c] holds its own index.
std::vector<float> numbered() {
  std::vector<float> data(B * D * R * C);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  return data;
}

float index_of(int64_t b, int64_t d, int64_t r, int64_t c) {
  return static_cast<float>(((b * D + d) * R + r) * C + c);
}

}  // namespace

HK_TEST(row_planes_hold_rows_and_columns) {
  std::vector<float> data = numbered();
  const hk::gl<float> array{data.data(), B, D, R, C};
  for (int64_t b = 0; b < B; ++b)
    for (int64_t d = 0; d < D; ++d) {
      const hk::plane<float> plane = array.row_plane(b, d);
      CHECK_EQ(plane.rows, R);
      CHECK_EQ(plane.cols, C);
      for (int64_t r = 0; r < R; ++r)
        for (int64_t c = 0; c < C; ++c) CHECK_EQ(plane.row(r)[c], index_of(b, d, r, c));
    }
}

HK_TEST(depth_planes_step_over_rows) {
  std::vector<float> data = numbered();
  const hk::gl<float> array{data.data(), B, D, R, C};
  for (int64_t b = 0; b < B; ++b)
    for (int64_t r = 0; r < R; ++r) {
      const hk::plane<float> plane = array.depth_plane(b, r);
      CHECK_EQ(plane.rows, D);
      CHECK_EQ(plane.cols, C);
      for (int64_t d = 0; d < D; ++d)
        for (int64_t c = 0; c < C; ++c) CHECK_EQ(plane.row(d)[c], index_of(b, d, r, c));
    }
}

// Rows [b][d][first .. first + n) for all d, as one matrix: depth and a group of rows fold.
HK_TEST(folded_planes_step_through_groups_of_rows) {
  std::vector<float> data = numbered();
  constexpr int64_t b = 1, first = 1, n = 3;
  const hk::plane<float> plane{data.data() + (b * D * R + first) * C, D * n, C, C, n, R * C};
  for (int64_t d = 0; d < D; ++d)
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c < C; ++c)
        CHECK_EQ(plane.row(d * n + r)[c], index_of(b, d, first + r, c));
}

// Offsets past 2^31 elements: only addresses are formed, nothing is read.
HK_TEST(large_arrays_are_indexed_in_64_bits) {
  hk::bf16 base{};
  const int64_t rows = 1 << 20, cols = 1 << 12;
  const hk::plane<hk::bf16> plane{&base, rows, cols, cols};
  const auto address = reinterpret_cast<std::uintptr_t>(plane.row(rows - 1));
  CHECK_EQ(address - reinterpret_cast<std::uintptr_t>(&base),
           static_cast<std::uintptr_t>((rows - 1) * cols * 2));
}
