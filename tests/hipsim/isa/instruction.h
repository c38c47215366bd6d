// One decoded machine instruction of gfx942 or gfx950.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace hipsim {

class Wave;
struct Instruction;

enum class Chip : uint8_t { kGfx942 = 1, kGfx950 = 2 };

enum class Format : uint8_t {
  kSop1,
  kSop2,
  kSopk,
  kSopc,
  kSopp,
  kSmem,
  kVop1,
  kVop2,
  kVopc,
  kVop3,
  kVop3p,
  kMai,
  kDs,
  kFlat,
  kScratch,
  kGlobal,
  kMubuf,
  kMtbuf,
};

// What an instruction occupies, as the checks and the statistics count it.
enum class Class : uint8_t {
  kSalu,     // includes s_getreg and s_setreg
  kBranch,   // s_branch, s_cbranch_*, s_setpc, s_swappc, s_call
  kNop,      // s_nop: `simm16` + 1 wait states
  kWait,     // s_waitcnt
  kBarrier,  // s_barrier
  kEnd,      // s_endpgm
  kHint,     // s_setprio, s_sleep, s_sethalt and the like: no effect on values
  kMessage,  // s_sendmsg, s_trap
  kValu,
  kTrans,  // exp, log, rcp, rsq, sqrt, sin, cos
  kMfma,   // `passes` holds how many 4-clock passes it occupies
  kSmem,
  kDs,
  kFlat,
  kScratch,
  kGlobal,
  kBuffer,
  kCache,  // buffer_wbl2, buffer_inv, s_dcache_*: no registers
};

enum class OperandKind : uint8_t {
  kNone,
  kVector,    // index 0..255 is v0..v255, 256..511 is a0..a255
  kScalar,    // index is the encoding: 0..101 SGPR, 106 VCC, 108..123 TTMP, 124 M0, 126 EXEC
  kSpecial,   // index 235..238 apertures, 251 VCCZ, 252 EXECZ, 253 SCC
  kConstant,  // `value` holds the bits, already in the operand's own format; index the encoding
};

struct Operand {
  OperandKind kind = OperandKind::kNone;
  char type = 0;       // 'f' f32, 'h' f16, 'd' f64, 'y' bf16, 'i' and 'u' integer bits, ...
  uint8_t dwords = 0;  // registers taken from `index` up
  uint16_t index = 0;
  bool literal = false;
  uint64_t value = 0;

  explicit operator bool() const { return kind != OperandKind::kNone; }
};

// Registers [first, first + count) of one file: vector indices as in Operand, scalar by encoding.
struct RegisterRange {
  bool vector = false;
  uint16_t first = 0;
  uint16_t count = 0;
};

struct RegisterRanges {
  std::array<RegisterRange, 8> range;
  uint8_t count = 0;

  const RegisterRange* begin() const { return range.data(); }
  const RegisterRange* end() const { return range.data() + count; }
};

// A row of an opcode table. `operands` is "destinations=sources", each operand a type letter and
// a number of dwords where that is not the letter's own.
struct Opcode {
  uint16_t code;
  uint8_t chips;  // Chip values or-ed
  const char* name;
  const char* operands;
};

enum class Sdwa : uint8_t { kByte0, kByte1, kByte2, kByte3, kWord0, kWord1, kDword };

struct SdwaFields {
  Sdwa dst_sel = Sdwa::kDword;
  uint8_t dst_unused = 0;  // 0 zero, 1 sign extend, 2 preserve
  std::array<Sdwa, 2> src_sel = {Sdwa::kDword, Sdwa::kDword};
  std::array<bool, 2> sign_extend = {false, false};
};

struct DppFields {
  uint16_t control = 0;
  uint8_t row_mask = 15;
  uint8_t bank_mask = 15;
  bool bound_control = false;
};

using Execute = void (*)(Wave& wave, const Instruction& instruction);

struct Instruction {
  uint64_t address = 0;  // where the instruction lies in this process' memory
  uint32_t words[4] = {};
  uint8_t size = 4;  // bytes
  Format format = Format::kSop1;
  Class kind = Class::kSalu;
  uint16_t code = 0;
  const Opcode* opcode = nullptr;  // null: no such instruction on this chip

  // Operands by format:
  //   SALU, VALU  dst, sdst (carry or lane mask, second destination), src[0..3]
  //   MFMA        dst = D, src[0] = A, src[1] = B, src[2] = C, src[3] scale or index of smfmac,
  //               src[4] second scale
  //   SMEM        dst = data of a load, src[0] = base, src[1] = scalar offset, src[2] = stored data
  //   DS          dst, src[0] = address, src[1] = data0, src[2] = data1
  //   FLAT & Co.  dst, src[0] = address, src[1] = data, src[2] = scalar address
  //   MUBUF/MTBUF dst, src[0] = address, src[1] = data, src[2] = descriptor, src[3] = scalar offset
  // An atomic with return has the same register as dst and src[1]. LDS loads have no dst.
  Operand dst;
  Operand sdst;
  std::array<Operand, 5> src;

  uint8_t abs = 0;  // bit i: source i
  uint8_t neg = 0;
  uint8_t neg_hi = 0;
  uint8_t op_sel = 0;
  uint8_t op_sel_hi = 0;
  uint8_t omod = 0;  // 1: times 2, 2: times 4, 3: divided by 2
  bool clamp = false;
  bool is_sdwa = false;
  bool is_dpp = false;
  SdwaFields sdwa;
  DppFields dpp;
  uint8_t cbsz = 0;
  uint8_t abid = 0;
  uint8_t blgp = 0;
  uint8_t scale_op_sel = 0;     // byte of the scales, low bit: bit 0 for A, bit 1 for B
  uint8_t scale_op_sel_hi = 0;  // high bit
  uint8_t bitop = 0;            // truth table of v_bitop3

  int32_t offset = 0;   // SMEM, FLAT, MUBUF; DS: offset0 + 256 * offset1, or offset0
  uint8_t offset1 = 0;  // DS instructions with two offsets
  bool glc = false;     // sc0
  bool slc = false;     // nt
  bool sc1 = false;
  bool lds = false;  // data goes to or comes from LDS
  bool gds = false;
  bool offen = false;
  bool idxen = false;
  bool soffset_en = false;
  uint8_t data_format = 0;
  uint8_t number_format = 0;
  int32_t simm16 = 0;  // SOPK and SOPP, sign extended

  Execute execute = nullptr;  // null: decoded but not executed
  uint8_t passes = 0;
  RegisterRanges reads;  // operands, implied VCC and M0; see also reads_exec and reads_scc
  RegisterRanges writes;
  bool reads_exec = false;  // every vector instruction but lane moves and MFMA
  bool writes_exec = false;
  bool reads_scc = false;
  bool writes_scc = false;
  uint16_t vgprs = 0;  // one past the highest VGPR named, likewise AGPRs
  uint16_t agprs = 0;

  const char* name() const { return opcode ? opcode->name : "unknown"; }
};

// Decodes the instruction at `code`, of which `available` bytes may be read; `address` is its
// address for branches. An unknown one has no opcode and its encoding's smallest size.
Instruction decode(const uint8_t* code, size_t available, uint64_t address, Chip chip);

// Text in the assembler's syntax; an unknown instruction shows as its words.
std::string disassemble(const Instruction& instruction);

// Sets `execute` by format and name, or leaves it null.
void bind(Instruction& instruction);

}  // namespace hipsim
