// From machine code to Instruction: encodings first, then the opcode's row says which operands.
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "tests/hipsim/exec/wave.h"
#include "tests/hipsim/isa/opcodes.h"

namespace hipsim {

namespace {

constexpr uint32_t kLiteral = 255;
constexpr uint32_t kSdwaSource = 0xf9;
constexpr uint32_t kDppSource = 0xfa;
constexpr uint32_t kNoScalarAddress = 0x7f;

uint32_t bits(uint32_t word, int high, int low) {
  return word >> low & ((uint64_t{1} << (high - low + 1)) - 1);
}

int32_t signed_bits(uint32_t word, int width) {
  return static_cast<int32_t>(word << (32 - width)) >> (32 - width);
}

// ---------------------------------------------------------------------------------------------
// Looking up opcodes

using Index = std::vector<const Opcode*>;

Index index_of(std::span<const Opcode> rows, Chip chip) {
  Index index;
  for (const Opcode& row : rows) {
    if (!(row.chips & static_cast<uint8_t>(chip))) continue;
    if (index.size() <= row.code) index.resize(row.code + 1, nullptr);
    index[row.code] = &row;
  }
  return index;
}

// One index for each table, in the order of `Format`, then scaled MFMA.
constexpr int kScaledMai = static_cast<int>(Format::kMtbuf) + 1;

std::vector<Index> all_indices(Chip chip) {
  std::vector<Index> all;
  for (std::span<const Opcode> rows :
       {kSop1Opcodes, kSop2Opcodes, kSopkOpcodes, kSopcOpcodes, kSoppOpcodes, kSmemOpcodes,
        kVop1Opcodes, kVop2Opcodes, kVopcOpcodes, kVop3Opcodes, kVop3pOpcodes, kMaiOpcodes,
        kDsOpcodes, kFlatOpcodes, kScratchOpcodes, kGlobalOpcodes, kMubufOpcodes, kMtbufOpcodes,
        kScaledMaiOpcodes})
    all.push_back(index_of(rows, chip));
  return all;
}

const Opcode* find(Chip chip, int table, uint32_t code) {
  static const std::vector<Index> gfx942 = all_indices(Chip::kGfx942);
  static const std::vector<Index> gfx950 = all_indices(Chip::kGfx950);
  const Index& index = (chip == Chip::kGfx942 ? gfx942 : gfx950)[table];
  return code < index.size() ? index[code] : nullptr;
}

const Opcode* find(Chip chip, Format format, uint32_t code) {
  return find(chip, static_cast<int>(format), code);
}

// Whether a VOP1 or VOP2 opcode has no VOP3 form.
bool is_short_only(std::string_view name) {
  return name.ends_with("mk_f32") || name.ends_with("ak_f32") || name.ends_with("mk_f16") ||
         name.ends_with("ak_f16") || name == "v_readfirstlane_b32" || name == "v_swap_b32" ||
         name == "v_accvgpr_mov_b32";
}

// VOP3 holds VOPC from 0, VOP2 from 256 and VOP1 from 320, then its own opcodes.
const Opcode* find_vop3(Chip chip, uint32_t code) {
  if (code < 256) return find(chip, Format::kVopc, code);
  if (const Opcode* own = find(chip, Format::kVop3, code)) return own;
  const Opcode* row =
      code < 320 ? find(chip, Format::kVop2, code - 256) : find(chip, Format::kVop1, code - 320);
  return row && is_short_only(row->name) ? nullptr : row;
}

// ---------------------------------------------------------------------------------------------
// Operand specifications

struct Token {
  char type = 0;
  uint8_t dwords = 0;
  bool also_read = false;
};

struct Spec {
  std::array<Token, 2> dst;
  std::array<Token, 5> src;
  int dsts = 0;
  int srcs = 0;
  std::string_view flags;
};

int default_dwords(char type) { return std::string_view("dljmg").find(type) < 5 ? 2 : 1; }

Token parse_token(std::string_view text) {
  Token token;
  if (text.front() == '+') {
    token.also_read = true;
    text.remove_prefix(1);
  }
  token.type = text.front();
  text.remove_prefix(1);
  int dwords = 0;
  for (char digit : text) dwords = dwords * 10 + digit - '0';
  token.dwords = dwords ? dwords : default_dwords(token.type);
  return token;
}

template <size_t N>
int parse_list(std::string_view text, std::array<Token, N>& tokens) {
  int count = 0;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    tokens[count++] = parse_token(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return count;
}

Spec parse_spec(std::string_view text) {
  Spec spec;
  const size_t semicolon = text.find(';');
  if (semicolon != std::string_view::npos) {
    spec.flags = text.substr(semicolon + 1);
    text = text.substr(0, semicolon);
  }
  const size_t equals = text.find('=');
  spec.dsts = parse_list(text.substr(0, equals), spec.dst);
  spec.srcs = parse_list(text.substr(equals + 1), spec.src);
  return spec;
}

// ---------------------------------------------------------------------------------------------
// Operands

Operand vector_operand(uint32_t index, const Token& token, bool accumulator = false) {
  return {OperandKind::kVector, token.type, token.dwords,
          static_cast<uint16_t>(index + (accumulator ? kFirstAgpr : 0))};
}

Operand scalar_operand(uint32_t index, const Token& token) {
  return {OperandKind::kScalar, token.type, token.dwords, static_cast<uint16_t>(index)};
}

// 0.5 -0.5 1 -1 2 -2 4 -4 and 1 / (2 pi), in each format.
constexpr std::array<uint32_t, 9> kFloat32 = {0x3f000000, 0xbf000000, 0x3f800000,
                                              0xbf800000, 0x40000000, 0xc0000000,
                                              0x40800000, 0xc0800000, 0x3e22f983};
constexpr std::array<uint16_t, 9> kFloat16 = {0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000,
                                              0xc000, 0x4400, 0xc400, 0x3118};
constexpr std::array<uint64_t, 9> kFloat64 = {
    0x3fe0000000000000, 0xbfe0000000000000, 0x3ff0000000000000,
    0xbff0000000000000, 0x4000000000000000, 0xc000000000000000,
    0x4010000000000000, 0xc010000000000000, 0x3fc45f306dc9c882};

uint64_t float_constant(int i, char type) {
  switch (type) {
    case 'h':
    case 's':
    case 't':
    case 'p':
    case 'q':
      return kFloat16[i];
    case 'y':
    case 'z':
      return kFloat32[i] >> 16;
    case 'd':
    case 'l':
    case 'j':
      return kFloat64[i];
    default:
      return kFloat32[i];
  }
}

Operand constant(uint64_t value, const Token& token, uint32_t field) {
  const bool wide = token.dwords > 1 && std::string_view("dljm").find(token.type) < 4;
  return {OperandKind::kConstant,       token.type,        token.dwords,
          static_cast<uint16_t>(field), field == kLiteral, wide ? value : value & 0xffffffff};
}

// A 32-bit literal is the high half of an f64, and is extended to 64-bit integers.
Operand literal_operand(uint32_t word, const Token& token) {
  if (token.type == 'd') return constant(uint64_t{word} << 32, token, kLiteral);
  if (token.type == 'j') return constant(static_cast<int32_t>(word), token, kLiteral);
  return constant(word, token, kLiteral);
}

// Reads words after the instruction; `missing` once the code ends too soon.
struct Stream {
  const uint8_t* code;
  size_t available;
  bool missing = false;

  uint32_t word(int index) {
    uint32_t value = 0;
    if (available < 4 * size_t(index) + 4) {
      missing = true;
    } else {
      std::memcpy(&value, code + 4 * index, 4);
    }
    return value;
  }
};

// Decodes a source of 9 bits (or 8, which name no vector registers).
Operand source(uint32_t field, const Token& token, Instruction& in, Stream& stream) {
  if (field >= 256) return vector_operand(field - 256, token);
  if (field < 128) return scalar_operand(field, token);
  if (field <= 192) return constant(field - 128, token, field);
  if (field <= 208) return constant(-static_cast<int64_t>(field - 192), token, field);
  if (field >= 240 && field <= 248)
    return constant(float_constant(field - 240, token.type), token, field);
  if (field == kLiteral) {
    if (in.size == 4) in.words[1] = stream.word(1);
    in.size = 8;
    return literal_operand(in.words[1], token);
  }
  return {OperandKind::kSpecial, token.type, token.dwords, static_cast<uint16_t>(field)};
}

// ---------------------------------------------------------------------------------------------
// One function for each encoding

void decode_salu(Instruction& in, const Spec& spec, Stream& stream) {
  const uint32_t w = in.words[0];
  const uint32_t sdst = bits(w, 22, 16);
  if (in.format == Format::kSopk) {
    in.simm16 = signed_bits(w, 16);
    if (spec.dsts) in.dst = scalar_operand(sdst, spec.dst[0]);
    if (spec.srcs) in.src[0] = scalar_operand(sdst, spec.src[0]);
    if (std::string_view(in.name()) == "s_setreg_imm32_b32")
      in.src[0] = source(kLiteral, {'b', 1}, in, stream);
    return;
  }
  if (in.format == Format::kSopp) {
    in.simm16 = signed_bits(w, 16);
    return;
  }
  if (spec.dsts) in.dst = scalar_operand(sdst, spec.dst[0]);
  if (spec.srcs > 0) in.src[0] = source(bits(w, 7, 0), spec.src[0], in, stream);
  if (spec.srcs > 1) in.src[1] = source(bits(w, 15, 8), spec.src[1], in, stream);
}

void decode_smem(Instruction& in, const Spec& spec, Stream&) {
  const uint32_t w = in.words[0], w1 = in.words[1];
  const uint32_t sdata = bits(w, 12, 6);
  in.glc = bits(w, 16, 16);
  in.soffset_en = bits(w, 14, 14);
  const bool immediate = bits(w, 17, 17);
  if (spec.dsts) in.dst = scalar_operand(sdata, spec.dst[0]);
  if (spec.srcs > 0) in.src[0] = scalar_operand(bits(w, 5, 0) * 2, spec.src[0]);
  if (spec.srcs > 1) in.src[2] = scalar_operand(sdata, spec.src[1]);
  if (spec.dsts && spec.srcs > 1 && !in.glc) in.dst = {};
  if (!spec.srcs) return;
  if (immediate) in.offset = signed_bits(w1, 21);
  if (in.soffset_en) in.src[1] = scalar_operand(bits(w1, 31, 25), {'u', 1});
  if (!immediate && !in.soffset_en) in.src[1] = scalar_operand(bits(w1, 6, 0), {'u', 1});
}

void decode_sdwa(Instruction& in, const Spec& spec) {
  const uint32_t w = in.words[1];
  in.is_sdwa = true;
  if (in.format == Format::kVopc) {
    in.dst = scalar_operand(bits(w, 15, 15) ? bits(w, 14, 8) : kVcc, {'m', 2});
  } else {
    in.sdwa.dst_sel = static_cast<Sdwa>(bits(w, 10, 8));
    in.sdwa.dst_unused = bits(w, 12, 11);
    in.clamp = bits(w, 13, 13);
    in.omod = bits(w, 15, 14);
  }
  const auto operand = [&](int i, uint32_t index, bool scalar) {
    return scalar ? scalar_operand(index, spec.src[i]) : vector_operand(index, spec.src[i]);
  };
  in.src[0] = operand(0, bits(w, 7, 0), bits(w, 23, 23));
  for (int i = 0; i < 2; ++i) {
    in.sdwa.src_sel[i] = static_cast<Sdwa>(bits(w, 18 + 8 * i, 16 + 8 * i));
    in.sdwa.sign_extend[i] = bits(w, 19 + 8 * i, 19 + 8 * i);
    in.neg |= bits(w, 20 + 8 * i, 20 + 8 * i) << i;
    in.abs |= bits(w, 21 + 8 * i, 21 + 8 * i) << i;
  }
  if (in.src[1] && bits(w, 31, 31)) in.src[1] = operand(1, in.src[1].index & 255, true);
}

void decode_dpp(Instruction& in, const Spec& spec) {
  const uint32_t w = in.words[1];
  in.is_dpp = true;
  in.src[0] = vector_operand(bits(w, 7, 0), spec.src[0]);
  in.dpp.control = bits(w, 16, 8);
  in.dpp.bound_control = bits(w, 19, 19);
  in.dpp.bank_mask = bits(w, 27, 24);
  in.dpp.row_mask = bits(w, 31, 28);
  in.neg = bits(w, 20, 20) | bits(w, 22, 22) << 1;
  in.abs = bits(w, 21, 21) | bits(w, 23, 23) << 1;
}

// v_fmamk: src[0] * K + src[2]; v_fmaak: src[0] * src[1] + K.
void decode_literal_multiply_add(Instruction& in, const Spec& spec, Stream& stream) {
  const bool middle = std::string_view(in.name()).find("mk_") != std::string_view::npos;
  in.words[1] = stream.word(1);
  in.size = 8;
  const Operand vector = vector_operand(bits(in.words[0], 16, 9), spec.src[1]);
  const Operand literal = literal_operand(in.words[1], spec.src[1]);
  in.src[1] = middle ? literal : vector;
  in.src[2] = middle ? vector : literal;
}

bool has_literal_operand(const Instruction& in, const Spec& spec) {
  return in.format == Format::kVop2 && spec.srcs == 3 && spec.src[2].type != 'm';
}

// VOP1, VOP2 and VOPC, with a literal, SDWA or DPP word where source 0 says so.
void decode_short_vector(Instruction& in, const Spec& spec, Stream& stream) {
  const uint32_t w = in.words[0];
  const uint32_t field = bits(w, 8, 0);
  if (field == kSdwaSource || field == kDppSource) {
    in.words[1] = stream.word(1);
    in.size = 8;
  }
  const uint32_t vdst = bits(w, 24, 17);
  if (in.format == Format::kVopc) {
    in.dst = scalar_operand(kVcc, {'m', 2});
  } else if (spec.dsts) {
    in.dst = spec.dst[0].type == 'r' ? scalar_operand(vdst, spec.dst[0])
                                     : vector_operand(vdst, spec.dst[0]);
  }
  if (spec.dsts > 1) in.sdst = scalar_operand(kVcc, spec.dst[1]);
  if (spec.srcs > 1) in.src[1] = vector_operand(bits(w, 16, 9), spec.src[1]);
  if (spec.srcs > 2) in.src[2] = scalar_operand(kVcc, spec.src[2]);
  if (has_literal_operand(in, spec)) decode_literal_multiply_add(in, spec, stream);
  if (field == kSdwaSource) return decode_sdwa(in, spec);
  if (field == kDppSource) return decode_dpp(in, spec);
  if (spec.srcs) in.src[0] = source(field, spec.src[0], in, stream);
  if (std::string_view(in.name()) == "v_accvgpr_mov_b32") {
    in.dst.index += kFirstAgpr;
    in.src[0].index += kFirstAgpr;
  }
}

// The truth table of v_bitop3 takes the place of omod, abs and neg.
void decode_bitop3(Instruction& in) {
  in.bitop = in.omod << 6 | in.abs << 3 | in.neg;
  in.omod = in.abs = in.neg = 0;
}

void decode_vop3(Instruction& in, const Spec& spec, Stream& stream) {
  const uint32_t w = in.words[0], w1 = in.words[1];
  const bool has_sdst = spec.dsts > 1;
  in.clamp = bits(w, 15, 15);
  in.omod = bits(w1, 28, 27);
  in.neg = bits(w1, 31, 29);
  if (has_sdst) {
    in.sdst = scalar_operand(bits(w, 14, 8), spec.dst[1]);
  } else {
    in.abs = bits(w, 10, 8);
    in.op_sel = bits(w, 14, 11);
  }
  for (int i = 0; i < spec.srcs; ++i)
    in.src[i] = source(bits(w1, 9 * i + 8, 9 * i), spec.src[i], in, stream);
  if (spec.dsts) {
    const bool scalar = spec.dst[0].type == 'm' || spec.dst[0].type == 'r';
    in.dst = scalar ? scalar_operand(bits(w, 7, 0), spec.dst[0])
                    : vector_operand(bits(w, 7, 0), spec.dst[0]);
  }
  if (std::string_view(in.name()).starts_with("v_bitop3")) decode_bitop3(in);
}

void decode_vop3p(Instruction& in, const Spec& spec, Stream& stream) {
  const uint32_t w = in.words[0], w1 = in.words[1];
  in.neg_hi = bits(w, 10, 8);
  in.op_sel = bits(w, 13, 11);
  in.clamp = bits(w, 15, 15);
  in.op_sel_hi = bits(w1, 28, 27) | bits(w, 14, 14) << 2;
  in.neg = bits(w1, 31, 29);
  for (int i = 0; i < spec.srcs; ++i)
    in.src[i] = source(bits(w1, 9 * i + 8, 9 * i), spec.src[i], in, stream);
  in.dst = vector_operand(bits(w, 7, 0), spec.dst[0]);
}

// Registers that a matrix of f8f6f4 takes, by its format.
int f8f6f4_dwords(int format) { return format < 2 ? 8 : format < 4 ? 6 : 4; }

void decode_accumulator_move(Instruction& in, const Spec& spec, Stream& stream) {
  const bool read = std::string_view(in.name()) == "v_accvgpr_read_b32";
  in.dst = vector_operand(bits(in.words[0], 7, 0), spec.dst[0], !read);
  in.src[0] = source(bits(in.words[1], 8, 0), spec.src[0], in, stream);
  if (read) in.src[0].index += kFirstAgpr;
}

// `pair` is the first of the two words that hold the MFMA itself.
void decode_mai(Instruction& in, const Spec& spec, Stream& stream, const uint32_t* pair) {
  if (spec.srcs == 1) return decode_accumulator_move(in, spec, stream);
  const uint32_t w = pair[0], w1 = pair[1];
  in.cbsz = bits(w, 10, 8);
  in.abid = bits(w, 14, 11);
  in.blgp = bits(w1, 31, 29);
  const bool acc_cd = bits(w, 15, 15);
  in.dst = vector_operand(bits(w, 7, 0), spec.dst[0], acc_cd);
  for (int i = 0; i < 3; ++i) {
    in.src[i] = source(bits(w1, 9 * i + 8, 9 * i), spec.src[i], in, stream);
    const bool acc = i < 2 ? bits(w1, 27 + i, 27 + i) : acc_cd && spec.dst[0].also_read == 0;
    if (in.src[i].kind == OperandKind::kVector && acc) in.src[i].index += kFirstAgpr;
  }
  if (std::string_view(in.name()).ends_with("f8f6f4")) {
    in.src[0].dwords = f8f6f4_dwords(in.cbsz);
    in.src[1].dwords = f8f6f4_dwords(in.blgp);
  }
  if (spec.dst[0].type == 'd') {
    in.neg = in.blgp;
    in.blgp = 0;
  }
}

void decode_scaled_mai(Instruction& in, const Spec& spec, Stream& stream) {
  decode_mai(in, spec, stream, in.words + 2);
  in.scale_op_sel = bits(in.words[0], 12, 11);
  in.scale_op_sel_hi = bits(in.words[1], 28, 27);
  in.src[3] = source(bits(in.words[1], 8, 0), spec.src[3], in, stream);
  in.src[4] = source(bits(in.words[1], 17, 9), spec.src[4], in, stream);
}

void decode_ds(Instruction& in, const Spec& spec, Stream&) {
  const uint32_t w = in.words[0], w1 = in.words[1];
  const bool acc = bits(w, 25, 25);
  const std::string_view name = in.name();
  const bool two = name.find("read2") != name.npos || name.find("write2") != name.npos ||
                   name.find("xchg2") != name.npos;
  in.offset = two ? bits(w, 7, 0) : bits(w, 15, 0);
  in.offset1 = bits(w, 15, 8);
  in.gds = bits(w, 16, 16);
  // Add-tid and append instructions have no address register.
  const int addresses = spec.srcs > 0 && spec.src[0].type == 'b';
  if (addresses) in.src[0] = vector_operand(bits(w1, 7, 0), spec.src[0]);
  for (int i = 0; i + addresses < spec.srcs; ++i)
    in.src[1 + i] = vector_operand(bits(w1, 15 + 8 * i, 8 + 8 * i), spec.src[i + addresses], acc);
  if (spec.dsts) in.dst = vector_operand(bits(w1, 31, 24), spec.dst[0], acc);
}

void decode_flat(Instruction& in, const Spec& spec, Stream&) {
  const uint32_t w = in.words[0], w1 = in.words[1];
  const bool acc = bits(w1, 23, 23);
  const uint32_t saddr = bits(w1, 22, 16);
  in.offset = in.format == Format::kFlat ? bits(w, 11, 0) : signed_bits(w, 13);
  in.glc = bits(w, 16, 16);
  in.slc = bits(w, 17, 17);
  in.sc1 = bits(w, 25, 25);
  in.lds = std::string_view(in.name()).find("_lds_") != std::string_view::npos;
  const bool has_saddr = in.format != Format::kFlat && saddr != kNoScalarAddress;
  const bool scratch = in.format == Format::kScratch;
  const uint8_t address_dwords = scratch || has_saddr ? 1 : 2;
  if (!scratch || bits(w, 13, 13))
    in.src[0] = vector_operand(bits(w1, 7, 0), {'u', address_dwords});
  if (spec.srcs) in.src[1] = vector_operand(bits(w1, 15, 8), spec.src[0], acc);
  if (has_saddr) in.src[2] = scalar_operand(saddr, {'u', uint8_t(scratch ? 1 : 2)});
  if (spec.dsts && (!spec.srcs || in.glc))
    in.dst = vector_operand(bits(w1, 31, 24), spec.dst[0], acc);
}

void decode_buffer(Instruction& in, const Spec& spec, Stream& stream) {
  const uint32_t w = in.words[0], w1 = in.words[1];
  const bool acc = bits(w1, 23, 23);
  in.offset = bits(w, 11, 0);
  in.offen = bits(w, 12, 12);
  in.idxen = bits(w, 13, 13);
  in.glc = bits(w, 14, 14);
  if (in.format == Format::kMtbuf) {
    in.data_format = bits(w, 22, 19);
    in.number_format = bits(w, 25, 23);
    in.sc1 = bits(w1, 21, 21);
    in.slc = bits(w1, 22, 22);
  } else {
    in.sc1 = bits(w, 15, 15);
    in.lds = bits(w, 16, 16);
    in.slc = bits(w, 17, 17);
  }
  if (!spec.dsts && !spec.srcs) return;
  const uint8_t address_dwords = in.offen + in.idxen;
  if (address_dwords) in.src[0] = vector_operand(bits(w1, 7, 0), {'u', address_dwords});
  const uint32_t vdata = bits(w1, 15, 8);
  if (spec.srcs && !in.lds) in.src[1] = vector_operand(vdata, spec.src[0], acc);
  in.src[2] = scalar_operand(bits(w1, 20, 16) * 4, {'u', 4});
  in.src[3] = source(bits(w1, 31, 24), {'u', 1}, in, stream);
  if (spec.dsts && !in.lds && (!spec.srcs || in.glc))
    in.dst = vector_operand(vdata, spec.dst[0], acc);
}

// ---------------------------------------------------------------------------------------------
// Which encoding

void select(Instruction& in, Format format, uint32_t code, const Opcode* opcode, int size) {
  in.format = format;
  in.code = code;
  in.opcode = opcode;
  in.size = size;
}

void select_scalar(Instruction& in, Chip chip) {
  const uint32_t w = in.words[0];
  const auto set = [&](Format format, uint32_t code) {
    select(in, format, code, find(chip, format, code), 4);
  };
  if (bits(w, 31, 23) == 0x17d) return set(Format::kSop1, bits(w, 15, 8));
  if (bits(w, 31, 23) == 0x17e) return set(Format::kSopc, bits(w, 22, 16));
  if (bits(w, 31, 23) == 0x17f) return set(Format::kSopp, bits(w, 22, 16));
  if (bits(w, 31, 28) == 0xb) return set(Format::kSopk, bits(w, 27, 23));
  set(Format::kSop2, bits(w, 29, 23));
}

// VOP3P and MAI share an encoding; scaled MFMA puts two words with the scales before a MAI pair.
void select_packed(Instruction& in, Chip chip, Stream& stream) {
  constexpr uint32_t kLoadScale = 0x2c;
  const uint32_t code = bits(in.words[0], 22, 16);
  if (code == kLoadScale && chip == Chip::kGfx950) {
    in.words[2] = stream.word(2);
    in.words[3] = stream.word(3);
    const uint32_t inner = bits(in.words[2], 22, 16);
    return select(in, Format::kMai, inner, find(chip, kScaledMai, inner), 16);
  }
  const Opcode* mai = find(chip, Format::kMai, code);
  const Format format = mai || bits(in.words[0], 22, 22) ? Format::kMai : Format::kVop3p;
  select(in, format, code, mai ? mai : find(chip, format, code), 8);
}

void select_flat(Instruction& in, Chip chip) {
  constexpr Format kSegments[] = {Format::kFlat, Format::kScratch, Format::kGlobal};
  const uint32_t code = bits(in.words[0], 24, 18), segment = bits(in.words[0], 15, 14);
  if (segment == 3) return select(in, Format::kFlat, code, nullptr, 8);
  select(in, kSegments[segment], code, find(chip, kSegments[segment], code), 8);
}

void select_encoding(Instruction& in, Chip chip, Stream& stream) {
  const uint32_t w = in.words[0];
  const auto set = [&](Format format, uint32_t code, int size) {
    select(in, format, code, find(chip, format, code), size);
  };
  if (bits(w, 31, 23) == 0x1a7) return select_packed(in, chip, stream);
  switch (bits(w, 31, 26)) {
    case 0x30:
      return set(Format::kSmem, bits(w, 25, 18), 8);
    case 0x34:
      return select(in, Format::kVop3, bits(w, 25, 16), find_vop3(chip, bits(w, 25, 16)), 8);
    case 0x36:
      return set(Format::kDs, bits(w, 24, 17), 8);
    case 0x37:
      return select_flat(in, chip);
    case 0x38:
      return set(Format::kMubuf, bits(w, 24, 18), 8);
    case 0x3a:
      return set(Format::kMtbuf, bits(w, 18, 15), 8);
  }
  if (bits(w, 31, 25) == 0x3f) return set(Format::kVop1, bits(w, 16, 9), 4);
  if (bits(w, 31, 25) == 0x3e) return set(Format::kVopc, bits(w, 24, 17), 4);
  if (bits(w, 31, 31) == 0) return set(Format::kVop2, bits(w, 30, 25), 4);
  if (bits(w, 31, 30) == 2) return select_scalar(in, chip);
  select(in, Format::kSop1, 0, nullptr, 4);
}

void decode_operands(Instruction& in, const Spec& spec, Stream& stream) {
  switch (in.format) {
    case Format::kSop1:
    case Format::kSop2:
    case Format::kSopk:
    case Format::kSopc:
    case Format::kSopp:
      return decode_salu(in, spec, stream);
    case Format::kSmem:
      return decode_smem(in, spec, stream);
    case Format::kVop1:
    case Format::kVop2:
    case Format::kVopc:
      return decode_short_vector(in, spec, stream);
    case Format::kVop3:
      return decode_vop3(in, spec, stream);
    case Format::kVop3p:
      return decode_vop3p(in, spec, stream);
    case Format::kMai:
      return in.size == 16 ? decode_scaled_mai(in, spec, stream)
                           : decode_mai(in, spec, stream, in.words);
    case Format::kDs:
      return decode_ds(in, spec, stream);
    case Format::kFlat:
    case Format::kScratch:
    case Format::kGlobal:
      return decode_flat(in, spec, stream);
    case Format::kMubuf:
    case Format::kMtbuf:
      return decode_buffer(in, spec, stream);
  }
}

// ---------------------------------------------------------------------------------------------
// Static facts

Class program_control(std::string_view name) {
  if (name == "s_nop") return Class::kNop;
  if (name == "s_waitcnt") return Class::kWait;
  if (name == "s_barrier") return Class::kBarrier;
  if (name.starts_with("s_endpgm")) return Class::kEnd;
  if (name == "s_branch" || name.starts_with("s_cbranch")) return Class::kBranch;
  if (name.starts_with("s_sendmsg") || name == "s_trap") return Class::kMessage;
  return Class::kHint;
}

Class scalar_class(std::string_view name) {
  const bool branch = name == "s_setpc_b64" || name == "s_swappc_b64" || name == "s_call_b64" ||
                      name == "s_rfe_b64" || name.starts_with("s_cbranch");
  return branch ? Class::kBranch : Class::kSalu;
}

bool is_cache_control(std::string_view name) {
  return name.starts_with("s_dcache") || name == "buffer_wbl2" || name == "buffer_inv";
}

Class class_of(const Instruction& in, const Spec& spec) {
  const std::string_view name = in.name();
  if (is_cache_control(name)) return Class::kCache;
  switch (in.format) {
    case Format::kSopp:
      return program_control(name);
    case Format::kSop1:
    case Format::kSop2:
    case Format::kSopk:
    case Format::kSopc:
      return scalar_class(name);
    case Format::kSmem:
      return Class::kSmem;
    case Format::kMai:
      return spec.srcs == 1 ? Class::kValu : Class::kMfma;
    case Format::kDs:
      return Class::kDs;
    case Format::kFlat:
      return Class::kFlat;
    case Format::kScratch:
      return Class::kScratch;
    case Format::kGlobal:
      return Class::kGlobal;
    case Format::kMubuf:
    case Format::kMtbuf:
      return Class::kBuffer;
    default:
      return spec.flags.find('T') != spec.flags.npos ? Class::kTrans : Class::kValu;
  }
}

// Passes of 4 clocks. One block of 16x16 takes 4, of 32x32 takes 8; f32, f64 and several blocks
// take twice that; f8f6f4 with an 8-bit operand too.
int mfma_passes(const Instruction& in, Chip chip) {
  const std::string_view name = in.name();
  const auto has = [&](std::string_view part) { return name.find(part) != name.npos; };
  if (has("f64_4x4x4")) return 4;
  if (has("_4x4x")) return 2;
  if (has("f64_16x16x4")) return chip == Chip::kGfx950 ? 16 : 8;
  const int base = has("32x32") ? 8 : 4;
  if (has("f8f6f4")) return in.cbsz < 2 || in.blgp < 2 ? 2 * base : base;
  const bool single = name.ends_with("_f32") && !has("xf32");
  return has("b_") && (has("_2b_") || has("_4b_")) ? 2 * base : single ? 2 * base : base;
}

void add_range(RegisterRanges& ranges, const Operand& operand) {
  const bool vector = operand.kind == OperandKind::kVector;
  if (!vector && operand.kind != OperandKind::kScalar) return;
  ranges.range[ranges.count++] = {vector, operand.index, operand.dwords};
}

void count_registers(Instruction& in, const RegisterRanges& ranges) {
  for (const RegisterRange& range : ranges) {
    if (!range.vector) continue;
    const uint16_t end = range.first + range.count;
    if (range.first < kFirstAgpr) {
      in.vgprs = std::max(in.vgprs, end);
    } else {
      in.agprs = std::max<uint16_t>(in.agprs, end - kFirstAgpr);
    }
  }
}

bool swaps(std::string_view name) {
  return name.find("_swap_b32") != name.npos && name.starts_with("v_");
}

bool is_vector(const Instruction& in) {
  switch (in.kind) {
    case Class::kValu:
    case Class::kTrans:
    case Class::kDs:
    case Class::kFlat:
    case Class::kScratch:
    case Class::kGlobal:
    case Class::kBuffer:
      return true;
    default:
      return false;
  }
}

bool moves_lanes(std::string_view name) {
  return name == "v_readlane_b32" || name == "v_writelane_b32" || name == "v_clrexcp";
}

void set_ranges(Instruction& in, const Spec& spec) {
  const auto flag = [&](char c) { return spec.flags.find(c) != spec.flags.npos; };
  for (const Operand& operand : in.src) add_range(in.reads, operand);
  const bool preserves = in.is_sdwa && in.sdwa.dst_unused == 2;
  if (spec.dst[0].also_read || preserves) add_range(in.reads, in.dst);
  const Operand vcc{OperandKind::kScalar, 'm', 2, kVcc};
  const Operand m0{OperandKind::kScalar, 'b', 1, kM0};
  if (flag('v')) add_range(in.reads, vcc);
  if (flag('M') || in.lds) add_range(in.reads, m0);
  add_range(in.writes, in.dst);
  add_range(in.writes, in.sdst);
  if (swaps(in.name())) add_range(in.writes, in.src[0]);
  in.reads_scc = flag('c');
  in.writes_scc = flag('C');
  in.reads_exec = flag('e') || (is_vector(in) && !moves_lanes(in.name()));
  const bool names_exec = in.dst.kind == OperandKind::kScalar && in.dst.index <= kExec + 1 &&
                          in.dst.index + in.dst.dwords > kExec;
  in.writes_exec = flag('E') || names_exec;
  count_registers(in, in.reads);
  count_registers(in, in.writes);
}

}  // namespace

Instruction decode(const uint8_t* code, size_t available, uint64_t address, Chip chip) {
  Stream stream{code, available};
  Instruction in;
  in.address = address;
  in.words[0] = stream.word(0);
  select_encoding(in, chip, stream);
  if (in.size > 4) in.words[1] = stream.word(1);
  if (in.opcode && !stream.missing) {
    const Spec spec = parse_spec(in.opcode->operands);
    decode_operands(in, spec, stream);
    in.kind = class_of(in, spec);
    if (in.kind == Class::kMfma) in.passes = mfma_passes(in, chip);
    set_ranges(in, spec);
  }
  if (stream.missing) in.opcode = nullptr;
  if (in.opcode) bind(in);
  return in;
}

}  // namespace hipsim
