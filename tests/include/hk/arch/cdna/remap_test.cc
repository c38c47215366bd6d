// The order of tiles: permutations for every size of the grid.
#include "hk/arch/cdna/remap.h"

#include "tests/unit.h"

namespace {

using namespace hk::cdna;

void check_permutation(uint32_t count, uint32_t chunk_log2) {
  std::vector<bool> taken(count, false);
  for (uint32_t id = 0; id < count; ++id) {
    const uint32_t to = remap_to_chiplet(id, count, chunk_log2);
    CHECK(to < count && !taken[to]);
    if (to < count) taken[to] = true;
  }
}

void check_tiles(uint32_t rows, uint32_t cols, uint32_t group) {
  std::vector<bool> taken(rows * cols, false);
  for (uint32_t index = 0; index < rows * cols; ++index) {
    const tile_place at = grouped_tile(index, rows, cols, group);
    const bool inside = at.row < rows && at.col < cols;
    CHECK(inside && !taken[at.row * cols + at.col]);
    if (inside) taken[at.row * cols + at.col] = true;
  }
}

}  // namespace

HK_TEST(the_remap_is_a_permutation_for_every_size) {
  for (uint32_t count = 1; count <= 1100; ++count)
    for (uint32_t chunk_log2 = 0; chunk_log2 <= 6; ++chunk_log2)
      check_permutation(count, chunk_log2);
  for (const uint32_t count : {4096u, 4097u, 6304u, 16383u}) check_permutation(count, 6);
}

HK_TEST(a_chiplet_takes_runs_of_tiles) {
  // 8 chiplets with runs of 4: workgroups 0, 8, 16, 24 of chiplet 0 take tiles 0, 1, 2, 3.
  for (uint32_t turn = 0; turn < 4; ++turn)
    for (uint32_t chiplet = 0; chiplet < 8; ++chiplet)
      CHECK_EQ(remap_to_chiplet(8 * turn + chiplet, 32, 2), 4 * chiplet + turn);
}

HK_TEST(grouped_tiles_are_a_permutation_for_every_size) {
  for (uint32_t rows = 1; rows <= 20; ++rows)
    for (uint32_t cols = 1; cols <= 20; ++cols)
      for (const uint32_t group : {1u, 2u, 4u, 8u, 16u}) check_tiles(rows, cols, group);
}

HK_TEST(a_band_is_walked_down_its_columns) {
  const tile_place second = grouped_tile(1, 16, 16, 4), fifth = grouped_tile(4, 16, 16, 4);
  CHECK_EQ(second.row, 1u);
  CHECK_EQ(second.col, 0u);
  CHECK_EQ(fifth.row, 0u);
  CHECK_EQ(fifth.col, 1u);
}
