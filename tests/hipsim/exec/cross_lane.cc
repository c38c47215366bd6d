// Moves between lanes and between vector and scalar registers.
#include <bit>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tests/hipsim/exec/wave.h"

namespace hipsim {

namespace {

// The first active lane, or lane 0 if none is.
void read_first_lane(Wave& wave, const Instruction& in) {
  const int lane = wave.exec() ? std::countr_zero(wave.exec()) : 0;
  VectorRegister room;
  const uint32_t value = wave.read_vector(in.src[0], 0, room)[lane];
  const bool undefined = wave.read_vector_undefined(in.src[0], 0) >> lane & 1;
  wave.set_scalar(in.dst.index, value, undefined ? ~0u : 0);
}

int lane_select(const Wave& wave, const Operand& operand) {
  if (wave.read_scalar_undefined(operand)) throw Fault("the lane number was never written");
  return static_cast<int>(wave.read_scalar(operand) & 63);
}

void read_lane(Wave& wave, const Instruction& in) {
  const int lane = lane_select(wave, in.src[1]);
  VectorRegister room;
  const uint32_t value = wave.read_vector(in.src[0], 0, room)[lane];
  const bool undefined = wave.read_vector_undefined(in.src[0], 0) >> lane & 1;
  wave.set_scalar(in.dst.index, value, undefined ? ~0u : 0);
}

void write_lane(Wave& wave, const Instruction& in) {
  const int lane = lane_select(wave, in.src[1]);
  const uint64_t bit = uint64_t{1} << lane;
  wave.vgpr[in.dst.index][lane] = static_cast<uint32_t>(wave.read_scalar(in.src[0]));
  uint64_t& undefined = wave.vgpr_undefined[in.dst.index];
  undefined = wave.read_scalar_undefined(in.src[0]) ? undefined | bit : undefined & ~bit;
}

void swap_lane(Wave& wave, int a, int a_lane, int b, int b_lane) {
  std::swap(wave.vgpr[a][a_lane], wave.vgpr[b][b_lane]);
  uint64_t& a_bits = wave.vgpr_undefined[a];
  uint64_t& b_bits = wave.vgpr_undefined[b];
  const uint64_t a_bit = a_bits >> a_lane & 1, b_bit = b_bits >> b_lane & 1;
  a_bits = (a_bits & ~(uint64_t{1} << a_lane)) | b_bit << a_lane;
  b_bits = (b_bits & ~(uint64_t{1} << b_lane)) | a_bit << b_lane;
}

void swap_registers(Wave& wave, const Instruction& in) {
  for (int l = 0; l < kLanes; ++l)
    if (wave.exec() >> l & 1) swap_lane(wave, in.dst.index, l, in.src[0].index, l);
}

// Odd groups of kGroup lanes of D change places with the even groups of S0 below them.
template <int kGroup>
void swap_groups(Wave& wave, const Instruction& in) {
  for (int l = 0; l < kLanes; ++l) {
    if (!(l & kGroup)) continue;
    const bool active = wave.exec() >> l & 1 && wave.exec() >> (l - kGroup) & 1;
    if (active) swap_lane(wave, in.dst.index, l, in.src[0].index, l - kGroup);
  }
}

const std::unordered_map<std::string_view, Execute> kTable = {
    {"v_readfirstlane_b32", read_first_lane},
    {"v_readlane_b32", read_lane},
    {"v_writelane_b32", write_lane},
    {"v_swap_b32", swap_registers},
    {"v_permlane16_swap_b32", swap_groups<16>},
    {"v_permlane32_swap_b32", swap_groups<32>},
};

}  // namespace

Execute find_cross_lane(const Instruction& instruction) {
  const auto found = kTable.find(instruction.name());
  return found == kTable.end() ? nullptr : found->second;
}

}  // namespace hipsim
