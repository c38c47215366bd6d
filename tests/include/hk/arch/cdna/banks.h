// The banks of LDS, as measured on MI355X by counting conflicts of pairs of lanes. An access is
// carried out in phases; lanes of one phase conflict where they want different words of one bank.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace banks {

struct form {
  int banks;
  std::vector<std::vector<int>> phases;  // lanes
};

inline form in_order(int banks, int lanes) {
  form f{banks, {}};
  for (int lane = 0; lane < 64; ++lane) {
    if (lane % lanes == 0) f.phases.emplace_back();
    f.phases.back().push_back(lane);
  }
  return f;
}

inline form from_quads(int banks, const std::vector<std::vector<int>>& quads) {
  form f{banks, {}};
  for (int half = 0; half < 2; ++half)
    for (const auto& phase : quads) {
      f.phases.emplace_back();
      for (const int quad : phase)
        for (int lane = 0; lane < 4; ++lane) f.phases.back().push_back(32 * half + 4 * quad + lane);
    }
  return f;
}

// Measured: reads of 16 and of 8 bytes, writes of 8, all on gfx950.
inline const form read_b128 = from_quads(64, {{0, 3, 5, 6}, {1, 2, 4, 7}});
inline const form read_b64 = in_order(64, 32);
inline const form write_b64 = in_order(32, 16);
// Not measured. Transposing reads are taken to be as plain ones of their size; what is left moves
// 128 bytes a phase, by lanes in order or in the order measured for reads of 12 bytes.
inline const form transposing_read = read_b64;
inline const form write_b128 = in_order(32, 8);
inline const form old_read_b128 = in_order(32, 8);
inline const form old_read_b128_by_quads = from_quads(32, {{0, 5}, {1, 4}, {2, 7}, {3, 6}});

// The most words that a bank has to serve in a phase: 1 if there is no conflict.
inline int most_words(const form& f, const std::array<uint32_t, 64>& addresses, int bytes) {
  int most = 0;
  for (const auto& phase : f.phases) {
    std::vector<std::vector<uint32_t>> wanted(static_cast<std::size_t>(f.banks));
    for (const int lane : phase)
      for (int word = 0; word < bytes / 4; ++word) {
        const uint32_t w =
            addresses[static_cast<std::size_t>(lane)] / 4 + static_cast<uint32_t>(word);
        auto& bank = wanted[w % static_cast<uint32_t>(f.banks)];
        bool known = false;
        for (const uint32_t other : bank) known |= other == w;
        if (!known) bank.push_back(w);
        most = std::max(most, static_cast<int>(bank.size()));
      }
  }
  return most;
}

}  // namespace banks
