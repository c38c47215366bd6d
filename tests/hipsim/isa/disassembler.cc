// From Instruction to the assembler's text, in LLVM's spelling.
#include <cstdio>
#include <string_view>

#include "tests/hipsim/exec/wave.h"

namespace hipsim {

namespace {

std::string number(int64_t value) { return std::to_string(value); }

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string registers(const std::string& file, int first, int count) {
  if (count == 1) return file + number(first);
  return file + "[" + number(first) + ":" + number(first + count - 1) + "]";
}

std::string named_pair(const std::string& name, int half, int count) {
  return count > 1 ? name : name + (half ? "_hi" : "_lo");
}

std::string scalar_name(int index, int count) {
  if (index < 102) return registers("s", index, count);
  if (index < 104) return named_pair("flat_scratch", index - 102, count);
  if (index < 106) return named_pair("xnack_mask", index - 104, count);
  if (index < 108) return named_pair("vcc", index - kVcc, count);
  if (index < 124) return registers("ttmp", index - 108, count);
  if (index == kM0) return "m0";
  if (index >= kExec) return named_pair("exec", index - kExec, count);
  return "scalar" + number(index);
}

std::string special_name(int index) {
  switch (index) {
    case 235:
      return "src_shared_base";
    case 236:
      return "src_shared_limit";
    case 237:
      return "src_private_base";
    case 238:
      return "src_private_limit";
    case 251:
      return "src_vccz";
    case 252:
      return "src_execz";
    case 253:
      return "src_scc";
    default:
      return "source" + number(index);
  }
}

std::string constant_name(const Operand& operand, const Instruction& in) {
  constexpr const char* kFloats[] = {"0.5",  "-0.5", "1.0",  "-1.0",      "2.0",
                                     "-2.0", "4.0",  "-4.0", "0.15915494"};
  if (operand.literal) return hex(in.words[1]);
  if (operand.index >= 240) return kFloats[operand.index - 240];
  return operand.index <= 192 ? number(operand.index - 128) : number(192 - operand.index);
}

std::string name_of(const Operand& operand, const Instruction& in) {
  switch (operand.kind) {
    case OperandKind::kVector: {
      const bool agpr = operand.index >= kFirstAgpr;
      return registers(agpr ? "a" : "v", operand.index & 255, operand.dwords);
    }
    case OperandKind::kScalar:
      return scalar_name(operand.index, operand.dwords);
    case OperandKind::kSpecial:
      return special_name(operand.index);
    case OperandKind::kConstant:
      return constant_name(operand, in);
    default:
      return "off";
  }
}

// Joins operands and modifiers as they come.
class Text {
 public:
  explicit Text(std::string name) : text_(std::move(name)) {}
  void operand(const std::string& value) {
    text_ += (first_ ? " " : ", ") + value;
    first_ = false;
  }
  void modifier(const std::string& value) { text_ += " " + value; }
  void modifier(bool present, const std::string& value) {
    if (present) modifier(value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  bool first_ = true;
};

std::string list(const char* name, uint32_t bits, int count) {
  std::string text = std::string(name) + ":[";
  for (int i = 0; i < count; ++i) text += (i ? "," : "") + number(bits >> i & 1);
  return text + "]";
}

int source_count(const Instruction& in) {
  int count = 0;
  while (count < 5 && in.src[count]) ++count;
  return count;
}

// ---------------------------------------------------------------------------------------------

std::string wait_counts(int simm) {
  const int vm = (simm & 15) | (simm >> 10 & 0x30);
  const int exp = simm >> 4 & 7, lgkm = simm >> 8 & 15;
  std::string text;
  if (vm != 63) text += " vmcnt(" + number(vm) + ")";
  if (exp != 7) text += " expcnt(" + number(exp) + ")";
  if (lgkm != 15) text += " lgkmcnt(" + number(lgkm) + ")";
  return text.empty() ? " " + hex(simm & 0xffff) : text;
}

std::string program_control_text(const Instruction& in) {
  const std::string_view name = in.name();
  std::string text(name);
  if (in.kind == Class::kWait) return text + wait_counts(in.simm16);
  const bool bare = in.kind == Class::kBarrier || name == "s_endpgm" || name == "s_wakeup" ||
                    name == "s_icache_inv" || name == "s_ttracedata" || name == "s_endpgm_saved" ||
                    name == "s_set_gpr_idx_off" || name == "s_endpgm_ordered_ps_done";
  return bare && in.simm16 == 0 ? text : text + " " + number(in.simm16 & 0xffff);
}

std::string scalar_text(const Instruction& in) {
  if (in.format == Format::kSopp) return program_control_text(in);
  Text text(in.name());
  const bool setreg = std::string_view(in.name()).starts_with("s_setreg");
  if (setreg) text.operand(hex(in.simm16 & 0xffff));
  if (in.dst) text.operand(name_of(in.dst, in));
  for (int i = 0; i < source_count(in); ++i) text.operand(name_of(in.src[i], in));
  const bool getreg = std::string_view(in.name()) == "s_getreg_b32";
  if (in.format == Format::kSopk && !setreg)
    text.operand(getreg ? hex(in.simm16 & 0xffff) : number(in.simm16 & 0xffff));
  return text.take();
}

std::string scalar_memory_text(const Instruction& in) {
  Text text(in.name());
  if (in.src[2]) {
    text.operand(name_of(in.src[2], in));
  } else if (in.dst) {
    text.operand(name_of(in.dst, in));
  }
  if (!in.src[0]) return text.take();
  text.operand(name_of(in.src[0], in));
  if (in.src[1]) {
    text.operand(name_of(in.src[1], in));
    text.modifier(in.offset != 0, "offset:" + hex(in.offset));
  } else {
    text.operand(in.offset < 0 ? "-" + hex(-in.offset) : hex(in.offset));
  }
  text.modifier(in.glc, "glc");
  return text.take();
}

// ---------------------------------------------------------------------------------------------

bool is_native_vop3(const Instruction& in) { return in.code >= 448; }

std::string vector_name(const Instruction& in) {
  const std::string name = in.name();
  const std::string_view view = name;
  const bool bare = view.find("mk_f") != view.npos || view.find("ak_f") != view.npos ||
                    view == "v_swap_b32" || view == "v_readfirstlane_b32" || view == "v_nop" ||
                    view == "v_clrexcp" || view == "v_accvgpr_mov_b32";
  if (in.is_sdwa) return name + "_sdwa";
  if (in.is_dpp) return name + "_dpp";
  if (in.format == Format::kVop3p || in.format == Format::kMai) return name;
  if (in.format == Format::kVop3) return is_native_vop3(in) ? name : name + "_e64";
  return bare ? name : name + "_e32";
}

std::string with_modifiers(const Instruction& in, int i) {
  std::string text = name_of(in.src[i], in);
  if (in.is_sdwa && i < 2 && in.sdwa.sign_extend[i]) text = "sext(" + text + ")";
  if (in.format == Format::kVop3p) return text;
  if (in.abs >> i & 1) text = "|" + text + "|";
  if (in.neg >> i & 1)
    text = in.src[i].kind == OperandKind::kConstant ? "neg(" + text + ")" : "-" + text;
  return text;
}

std::string sdwa_select(const char* name, Sdwa select) {
  constexpr const char* kNames[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3",
                                    "WORD_0", "WORD_1", "DWORD"};
  return std::string(name) + ":" + kNames[static_cast<int>(select) % 7];
}

void sdwa_text(const Instruction& in, Text& text) {
  constexpr const char* kUnused[] = {"UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE", "?"};
  if (in.format != Format::kVopc) {
    text.modifier(sdwa_select("dst_sel", in.sdwa.dst_sel));
    text.modifier(std::string("dst_unused:") + kUnused[in.sdwa.dst_unused]);
  }
  text.modifier(sdwa_select("src0_sel", in.sdwa.src_sel[0]));
  if (in.src[1]) text.modifier(sdwa_select("src1_sel", in.sdwa.src_sel[1]));
}

std::string dpp_control(int control) {
  if (control < 0x100) {
    std::string text = "quad_perm:[";
    for (int i = 0; i < 4; ++i) text += (i ? "," : "") + number(control >> (2 * i) & 3);
    return text + "]";
  }
  constexpr const char* kRows[] = {"row_shl:", "row_shr:", "row_ror:"};
  const int kind = control >> 4, amount = control & 15;
  if (kind < 0x13) return kRows[kind - 0x10] + number(amount);
  if (kind == 0x15) return "row_newbcast:" + number(amount);
  switch (control) {
    case 0x130:
      return "wave_shl:1";
    case 0x134:
      return "wave_rol:1";
    case 0x138:
      return "wave_shr:1";
    case 0x13c:
      return "wave_ror:1";
    case 0x140:
      return "row_mirror";
    case 0x141:
      return "row_half_mirror";
    case 0x142:
      return "row_bcast:15";
    case 0x143:
      return "row_bcast:31";
    default:
      return "dpp_ctrl:" + hex(control);
  }
}

void dpp_text(const Instruction& in, Text& text) {
  text.modifier(dpp_control(in.dpp.control));
  text.modifier("row_mask:" + hex(in.dpp.row_mask));
  text.modifier("bank_mask:" + hex(in.dpp.bank_mask));
  text.modifier(in.dpp.bound_control, "bound_ctrl:1");
}

void packed_text(const Instruction& in, Text& text) {
  const int count = source_count(in);
  const uint32_t all = (1u << count) - 1;
  text.modifier((in.op_sel & all) != 0, list("op_sel", in.op_sel, count));
  const bool mixes = std::string_view(in.name()).find("_mix") != std::string_view::npos;
  text.modifier((in.op_sel_hi & all) != (mixes ? 0 : all), list("op_sel_hi", in.op_sel_hi, count));
  text.modifier((in.neg & all) != 0, list("neg_lo", in.neg, count));
  text.modifier((in.neg_hi & all) != 0, list("neg_hi", in.neg_hi, count));
}

void op_sel_text(const Instruction& in, Text& text) {
  const int count = source_count(in);
  const uint32_t value = (in.op_sel & ((1u << count) - 1)) | (in.op_sel >> 3 & 1) << count;
  text.modifier(in.op_sel != 0, list("op_sel", value, count + 1));
}

std::string vector_text(const Instruction& in) {
  Text text(vector_name(in));
  if (in.dst) text.operand(name_of(in.dst, in));
  if (in.sdst) text.operand(name_of(in.sdst, in));
  for (int i = 0; i < source_count(in); ++i) text.operand(with_modifiers(in, i));
  if (in.format == Format::kVop3p) {
    packed_text(in, text);
  } else {
    op_sel_text(in, text);
  }
  text.modifier(std::string_view(in.name()).starts_with("v_bitop3"), "bitop3:" + hex(in.bitop));
  text.modifier(in.clamp, "clamp");
  constexpr const char* kScales[] = {"", "mul:2", "mul:4", "div:2"};
  text.modifier(in.omod != 0, kScales[in.omod & 3]);
  if (in.is_sdwa) sdwa_text(in, text);
  if (in.is_dpp) dpp_text(in, text);
  return text.take();
}

std::string matrix_text(const Instruction& in) {
  Text text(in.name());
  text.operand(name_of(in.dst, in));
  for (int i = 0; i < source_count(in); ++i) text.operand(name_of(in.src[i], in));
  if (in.size == 16) {
    text.modifier(in.scale_op_sel != 0, list("op_sel", in.scale_op_sel, 2));
    text.modifier(list("op_sel_hi", in.scale_op_sel_hi, 2));
  }
  text.modifier(in.cbsz != 0, "cbsz:" + number(in.cbsz));
  text.modifier(in.abid != 0, "abid:" + number(in.abid));
  text.modifier(in.blgp != 0, "blgp:" + number(in.blgp));
  text.modifier(in.neg != 0, list("neg", in.neg, 3));
  return text.take();
}

// ---------------------------------------------------------------------------------------------

void cache_text(const Instruction& in, Text& text) {
  text.modifier(in.glc, "sc0");
  text.modifier(in.slc, "nt");
  text.modifier(in.sc1, "sc1");
}

std::string lds_text(const Instruction& in) {
  Text text(in.name());
  if (in.dst) text.operand(name_of(in.dst, in));
  for (const Operand& operand : in.src)
    if (operand) text.operand(name_of(operand, in));
  const std::string_view name = in.name();
  if (name.find("read2") != name.npos || name.find("write2") != name.npos ||
      name.find("xchg2") != name.npos) {
    text.modifier(in.offset != 0, "offset0:" + number(in.offset));
    text.modifier(in.offset1 != 0, "offset1:" + number(in.offset1));
  } else {
    text.modifier(in.offset != 0, "offset:" + number(in.offset));
  }
  text.modifier(in.gds, "gds");
  return text.take();
}

std::string flat_text(const Instruction& in) {
  Text text(in.name());
  const bool is_load = !in.src[1];
  if (in.dst) text.operand(name_of(in.dst, in));
  if (is_load || in.src[0] || in.format == Format::kScratch) text.operand(name_of(in.src[0], in));
  if (in.src[1]) text.operand(name_of(in.src[1], in));
  if (in.format != Format::kFlat) text.operand(name_of(in.src[2], in));
  text.modifier(in.offset != 0, "offset:" + number(in.offset));
  cache_text(in, text);
  return text.take();
}

std::string buffer_text(const Instruction& in) {
  Text text(in.name());
  if (in.kind == Class::kCache) {
    cache_text(in, text);
    return text.take();
  }
  if (in.src[1] || in.dst) text.operand(name_of(in.src[1] ? in.src[1] : in.dst, in));
  text.operand(name_of(in.src[0], in));
  text.operand(name_of(in.src[2], in));
  if (in.format == Format::kMtbuf) {
    text.operand("dfmt:" + number(in.data_format));
    text.operand("nfmt:" + number(in.number_format));
  }
  text.operand(name_of(in.src[3], in));
  text.modifier(in.idxen, "idxen");
  text.modifier(in.offen, "offen");
  text.modifier(in.offset != 0, "offset:" + number(in.offset));
  cache_text(in, text);
  text.modifier(in.lds, "lds");
  return text.take();
}

std::string unknown_text(const Instruction& in) {
  std::string text = "unknown";
  for (int i = 0; i < in.size / 4; ++i) text += " " + hex(in.words[i]);
  return text;
}

}  // namespace

std::string disassemble(const Instruction& in) {
  if (!in.opcode) return unknown_text(in);
  switch (in.format) {
    case Format::kSop1:
    case Format::kSop2:
    case Format::kSopk:
    case Format::kSopc:
    case Format::kSopp:
      return scalar_text(in);
    case Format::kSmem:
      return scalar_memory_text(in);
    case Format::kMai:
      return matrix_text(in);
    case Format::kDs:
      return lds_text(in);
    case Format::kFlat:
    case Format::kScratch:
    case Format::kGlobal:
      return flat_text(in);
    case Format::kMubuf:
    case Format::kMtbuf:
      return buffer_text(in);
    default:
      return vector_text(in);
  }
}

}  // namespace hipsim
