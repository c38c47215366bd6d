// The state of one wave and the seam between its parts: the arithmetic reads and writes registers
// here; memory operations, waits and barriers belong to the device around it.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/hipsim/isa/instruction.h"

namespace hipsim {

inline constexpr int kLanes = 64;
inline constexpr int kFirstAgpr = 256;

inline constexpr int kVcc = 106;
inline constexpr int kM0 = 124;
inline constexpr int kExec = 126;

// An instruction that cannot go on; the device adds kernel, address, disassembly and wave.
class Fault : public std::runtime_error {
 public:
  explicit Fault(const std::string& message, int lane = -1)
      : std::runtime_error(message), lane(lane) {}
  int lane;
};

// The MODE register, laid out as the hardware has it.
struct Mode {
  uint32_t bits = 0;

  int round32() const { return bits & 3; }
  int round64() const { return bits >> 2 & 3; }  // also f16
  bool input_denormals32() const { return bits & 0x10; }
  bool output_denormals32() const { return bits & 0x20; }
  bool input_denormals64() const { return bits & 0x40; }
  bool output_denormals64() const { return bits & 0x80; }
  bool dx10_clamp() const { return bits & 0x100; }
  bool ieee() const { return bits & 0x200; }
  bool fp16_overflow() const { return bits & 0x800000; }
};

struct alignas(64) VectorRegister {
  std::array<uint32_t, kLanes> lane;
  uint32_t& operator[](int i) { return lane[i]; }
  uint32_t operator[](int i) const { return lane[i]; }
};

// "Undefined" marks values that come from a register, LDS or memory never written. It follows
// values through arithmetic: per lane in vector registers, per bit in scalar ones. Where such a
// value would decide an address, a branch or a store, the device stops.
class Wave {
 public:
  virtual ~Wave() = default;

  // Gives the wave `vgprs` and `agprs` registers, all undefined, and clears everything else.
  void reset(int vgprs, int agprs, Chip chip);

  uint64_t scalar64(int index) const { return sgpr[index] | uint64_t{sgpr[index + 1]} << 32; }
  uint64_t undefined64(int index) const {
    return sgpr_undefined[index] | uint64_t{sgpr_undefined[index + 1]} << 32;
  }
  void set_scalar(int index, uint32_t value, uint32_t undefined = 0) {
    sgpr[index] = value;
    sgpr_undefined[index] = undefined;
  }
  void set_scalar64(int index, uint64_t value, uint64_t undefined = 0) {
    set_scalar(index, static_cast<uint32_t>(value), static_cast<uint32_t>(undefined));
    set_scalar(index + 1, value >> 32, undefined >> 32);
  }
  uint64_t exec() const { return scalar64(kExec); }
  uint64_t vcc() const { return scalar64(kVcc); }
  uint32_t m0() const { return sgpr[kM0]; }

  // Reads a scalar operand of one or two dwords (SGPR, special or constant).
  uint64_t read_scalar(const Operand& operand) const;
  uint64_t read_scalar_undefined(const Operand& operand) const;

  // Value of operand's dword `d` in every lane, for addresses and stored data: a vector register
  // itself, or `room` filled with the scalar.
  const VectorRegister& read_vector(const Operand& operand, int d, VectorRegister& room) const;
  uint64_t read_vector_undefined(const Operand& operand, int d) const;

  Chip chip = Chip::kGfx950;
  std::array<uint32_t, 128> sgpr;            // by encoding: VCC, TTMP, M0 and EXEC included
  std::array<uint32_t, 128> sgpr_undefined;  // a set bit: that bit was never written
  std::vector<VectorRegister> vgpr;          // VGPRs from 0, AGPRs from kFirstAgpr
  std::vector<uint64_t> vgpr_undefined;      // a set bit: that lane was never written
  int vgpr_count = 0;                        // registers allotted; the vectors may be longer
  int agpr_count = 0;
  bool scc = false;
  bool scc_undefined = false;
  Mode mode;
  uint64_t pc = 0;           // address of the next instruction; set past this one before `execute`
  uint64_t shared_base = 0;  // apertures of generic addresses
  uint64_t shared_limit = 0;
  uint64_t private_base = 0;
  uint64_t private_limit = 0;
  uint32_t hardware_id = 0;  // s_getreg HW_ID
  uint32_t xcc_id = 0;       // s_getreg XCC_ID
};

// Each finds what executes an instruction by format and name, or null. Memory's is defined with
// the memory operations.
Execute find_scalar(const Instruction& instruction);
Execute find_vector(const Instruction& instruction);
Execute find_cross_lane(const Instruction& instruction);
Execute find_matrix(const Instruction& instruction);
Execute find_memory(const Instruction& instruction);

}  // namespace hipsim
