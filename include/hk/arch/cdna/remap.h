// The order in which workgroups take tiles. Plain C++: the device code, the tests and the cache
// simulation call it.
//
// Workgroups go to the chiplets (XCDs) round-robin, and each chiplet has its own L2. Taken in plain
// order, neighbouring tiles, which share rows of A and columns of B, would land on different
// chiplets. So numbers are dealt out again: chiplet x gets runs of 2^chunk_log2 consecutive tiles.
// Consecutive tiles then walk down columns of `group` tiles, so that those in flight together form
// a block rather than a row.
#pragma once

#include <cstdint>

#include "hk/arch/cdna/gfx942.h"
#include "hk/arch/cdna/gfx950.h"

namespace hk::cdna {

inline constexpr uint32_t remap_xcds = traits<chip::gfx950>::xcds;
static_assert(remap_xcds == 8 && traits<chip::gfx942>::xcds == 8,
              "the remap takes 8 chiplets for granted: 3 bits of a workgroup's number");

// A permutation of [0, count). Within full rounds of 8 runs, workgroup `id` of chiplet id % 8 takes
// a place in the chiplet's run; the numbers behind the last full round stay.
constexpr uint32_t remap_to_chiplet(uint32_t id, uint32_t count, uint32_t chunk_log2) {
  const uint32_t round_log2 = chunk_log2 + 3;
  const uint32_t chiplet = id % remap_xcds, turn = id / remap_xcds;
  const uint32_t round = turn >> chunk_log2;
  if (((round + 1) << round_log2) > count) return id;
  return (round << round_log2) + (chiplet << chunk_log2) + (turn & ((1u << chunk_log2) - 1));
}

struct tile_place {
  uint32_t row;
  uint32_t col;
};

// A bijection from [0, rows * cols) to tiles: bands of `group` rows of tiles (the last may be
// narrower), each walked column by column.
constexpr tile_place grouped_tile(uint32_t index, uint32_t rows, uint32_t cols, uint32_t group) {
  const uint32_t band = index / (group * cols);
  const uint32_t in_band = index - band * group * cols;
  const uint32_t first = band * group;
  const uint32_t height = rows - first < group ? rows - first : group;
  const uint32_t col = in_band / height;
  return {first + in_band - col * height, col};
}

}  // namespace hk::cdna
