#include "tests/hipsim/exec/banks.h"

#include <algorithm>
#include <array>

namespace hipsim {
namespace {

constexpr int kLanes = 64;

// How one form of instruction is carried out: the phase of each lane.
struct Form {
  uint32_t banks = 32;
  uint32_t phases = 1;
  std::array<uint8_t, kLanes> phase{};
};

// Lanes in order, `lanes` a phase.
constexpr Form InOrder(uint32_t banks, uint32_t lanes) {
  Form form;
  form.banks = banks;
  form.phases = kLanes / lanes;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    form.phase[lane] = static_cast<uint8_t>(lane / lanes);
  }
  return form;
}

// The measured phases of 16-byte reads: {0-3,12-15,20-27}, {4-11,16-19,28-31}, and 32 more.
constexpr Form Read16() {
  Form form;
  form.banks = 64;
  form.phases = 4;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int l = lane % 32;
    const bool first = l < 4 || (l >= 12 && l < 16) || (l >= 20 && l < 28);
    form.phase[lane] = static_cast<uint8_t>(2 * (lane / 32) + (first ? 0 : 1));
  }
  return form;
}

// The measured phases of 12-byte reads: {0-3,20-23}, {4-7,16-19}, {8-11,28-31}, {12-15,24-27}, and
// 32 more.
constexpr Form Read12() {
  Form form;
  form.banks = 32;
  form.phases = 8;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int quad = lane % 32 / 4;
    const int phase = quad < 4 ? quad : (quad == 5 ? 0 : quad == 4 ? 1 : quad == 7 ? 2 : 3);
    form.phase[lane] = static_cast<uint8_t>(4 * (lane / 32) + phase);
  }
  return form;
}

constexpr Form kWide[] = {InOrder(64, 64), InOrder(64, 32), Read12(), Read16()};
constexpr Form kNarrow[] = {InOrder(32, 32), InOrder(32, 16), InOrder(32, 8), InOrder(32, 8)};

const Form& FormOf(Chip chip, bool write, uint32_t bytes) {
  const uint32_t dwords = std::clamp<uint32_t>((bytes + 3) / 4, 1, 4);
  const bool wide = chip == Chip::kGfx950 && !write;
  return wide ? kWide[dwords - 1] : kNarrow[dwords - 1];
}

// The dwords that one bank has to serve in a phase.
struct Bank {
  uint32_t count = 0;
  std::array<uint32_t, kLanes> dwords;
};

}  // namespace

LdsCycles CountLdsCycles(Chip chip, bool write, uint32_t bytes, const uint32_t* addresses,
                         uint64_t lanes) {
  const Form& form = FormOf(chip, write, bytes);
  static thread_local std::array<std::array<Bank, 64>, 8> phases;
  std::array<uint32_t, 8> most{};
  for (uint32_t p = 0; p < form.phases; ++p) {
    for (uint32_t b = 0; b < form.banks; ++b) phases[p][b].count = 0;
  }
  const uint32_t dwords = (bytes + 3) / 4;
  for (uint64_t left = lanes; left != 0; left &= left - 1) {
    const int lane = __builtin_ctzll(left);
    const uint32_t first = addresses[lane] / 4;
    for (uint32_t i = 0; i < dwords; ++i) {
      const uint32_t dword = first + i;
      Bank& bank = phases[form.phase[lane]][dword % form.banks];
      const uint32_t* begin = bank.dwords.data();
      const uint32_t* end = begin + bank.count;
      if (std::find(begin, end, dword) != end) continue;
      bank.dwords[bank.count++] = dword;
      most[form.phase[lane]] = std::max(most[form.phase[lane]], bank.count);
    }
  }
  LdsCycles cycles;
  for (uint32_t p = 0; p < form.phases; ++p) {
    cycles.ideal += most[p] != 0 ? 1 : 0;
    cycles.extra += most[p] > 1 ? most[p] - 1 : 0;
  }
  return cycles;
}

}  // namespace hipsim
