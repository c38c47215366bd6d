#include "tests/hipsim/exec/memory_op.h"

#include <algorithm>
#include <iterator>

namespace hipsim {
namespace {

bool Take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool TakeEnd(std::string_view& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.remove_suffix(suffix.size());
  return true;
}

struct Width {
  std::string_view name;
  uint8_t bytes;
  bool sign;
};

constexpr Width kWidths[] = {
    {"ubyte", 1, false},    {"sbyte", 1, true},     {"byte", 1, false},     {"ushort", 2, false},
    {"sshort", 2, true},    {"short", 2, false},    {"dword", 4, false},    {"dwordx2", 8, false},
    {"dwordx3", 12, false}, {"dwordx4", 16, false}, {"dwordx8", 32, false}, {"dwordx16", 64, false},
    {"b8", 1, false},       {"u8", 1, false},       {"i8", 1, true},        {"b16", 2, false},
    {"u16", 2, false},      {"i16", 2, true},       {"b32", 4, false},      {"b64", 8, false},
    {"b96", 12, false},     {"b128", 16, false},
};

bool SetWidth(std::string_view name, MemoryOp& op) {
  if (TakeEnd(name, "_d16_hi")) op.half = Half::kHigh;
  if (TakeEnd(name, "_d16")) op.half = Half::kLow;
  const auto* width = std::find_if(std::begin(kWidths), std::end(kWidths),
                                   [&](const Width& w) { return w.name == name; });
  if (width == std::end(kWidths)) return false;
  op.bytes = width->bytes;
  op.sign = width->sign;
  return true;
}

struct AtomicName {
  std::string_view name;
  AtomicOp op;
  ElementType type;
};

constexpr AtomicName kGlobalAtomics[] = {
    {"swap", AtomicOp::kSwap, ElementType::kUnsigned},
    {"cmpswap", AtomicOp::kCompareSwap, ElementType::kUnsigned},
    {"add", AtomicOp::kAdd, ElementType::kUnsigned},
    {"sub", AtomicOp::kSubtract, ElementType::kUnsigned},
    {"smin", AtomicOp::kMin, ElementType::kSigned},
    {"umin", AtomicOp::kMin, ElementType::kUnsigned},
    {"smax", AtomicOp::kMax, ElementType::kSigned},
    {"umax", AtomicOp::kMax, ElementType::kUnsigned},
    {"and", AtomicOp::kAnd, ElementType::kUnsigned},
    {"or", AtomicOp::kOr, ElementType::kUnsigned},
    {"xor", AtomicOp::kXor, ElementType::kUnsigned},
    {"inc", AtomicOp::kIncrement, ElementType::kUnsigned},
    {"dec", AtomicOp::kDecrement, ElementType::kUnsigned},
    {"add_f32", AtomicOp::kAdd, ElementType::kFloat},
    {"pk_add_f16", AtomicOp::kAdd, ElementType::kPackedHalf},
    {"pk_add_bf16", AtomicOp::kAdd, ElementType::kPackedBf16},
    {"add_f64", AtomicOp::kAdd, ElementType::kFloat},
    {"min_f64", AtomicOp::kMin, ElementType::kFloat},
    {"max_f64", AtomicOp::kMax, ElementType::kFloat},
};

std::optional<MemoryOp> ParseGlobalAtomic(std::string_view name) {
  MemoryOp op;
  op.kind = MemoryKind::kAtomic;
  if (TakeEnd(name, "_x2") || name.ends_with("_f64")) op.bytes = 8;
  for (const AtomicName& atomic : kGlobalAtomics) {
    if (atomic.name != name) continue;
    op.atomic = atomic.op;
    op.type = atomic.type;
    return op;
  }
  return std::nullopt;
}

constexpr std::string_view kFormats[] = {"x", "xy", "xyz", "xyzw"};

// The rest of a name after load_format_ or store_format_: d16_hi_x, d16_xyzw or xy.
bool SetFormat(std::string_view name, MemoryOp& op) {
  if (Take(name, "d16_hi_")) {
    op.half = Half::kHigh;
  } else if (Take(name, "d16_")) {
    op.half = Half::kLow;
  }
  const auto* format = std::find(std::begin(kFormats), std::end(kFormats), name);
  op.components = static_cast<uint8_t>(format - std::begin(kFormats) + 1);
  return format != std::end(kFormats);
}

// flat_, global_, scratch_, buffer_ and tbuffer_ instructions, after that prefix.
std::optional<MemoryOp> ParseVector(std::string_view name) {
  MemoryOp op;
  if (Take(name, "atomic_")) return ParseGlobalAtomic(name);
  if (Take(name, "load_lds_")) {
    op.kind = MemoryKind::kDirectLoad;
    return SetWidth(name, op) ? std::optional(op) : std::nullopt;
  }
  if (Take(name, "store_")) {
    op.kind = MemoryKind::kStore;
  } else if (!Take(name, "load_")) {
    return std::nullopt;
  }
  const bool known = Take(name, "format_") ? SetFormat(name, op) : SetWidth(name, op);
  return known ? std::optional(op) : std::nullopt;
}

std::optional<MemoryOp> ParseScalar(std::string_view name) {
  MemoryOp op;
  if (name == "s_memtime" || name == "s_memrealtime") {
    op.kind = MemoryKind::kTime;
    op.bytes = 8;
    return op;
  }
  op.buffer = Take(name, "s_buffer_load_");
  if (!op.buffer && !Take(name, "s_load_")) return std::nullopt;
  return SetWidth(name, op) ? std::optional(op) : std::nullopt;
}

constexpr AtomicName kLdsAtomics[] = {
    {"add", AtomicOp::kAdd, ElementType::kUnsigned},
    {"sub", AtomicOp::kSubtract, ElementType::kUnsigned},
    {"rsub", AtomicOp::kReverseSubtract, ElementType::kUnsigned},
    {"inc", AtomicOp::kIncrement, ElementType::kUnsigned},
    {"dec", AtomicOp::kDecrement, ElementType::kUnsigned},
    {"min", AtomicOp::kMin, ElementType::kUnsigned},
    {"max", AtomicOp::kMax, ElementType::kUnsigned},
    {"and", AtomicOp::kAnd, ElementType::kUnsigned},
    {"or", AtomicOp::kOr, ElementType::kUnsigned},
    {"xor", AtomicOp::kXor, ElementType::kUnsigned},
    {"mskor", AtomicOp::kMaskedOr, ElementType::kUnsigned},
    {"cmpst", AtomicOp::kCompareStore, ElementType::kUnsigned},
    {"wrxchg", AtomicOp::kSwap, ElementType::kUnsigned},
    {"wrxchg2", AtomicOp::kSwap, ElementType::kUnsigned},
    {"wrxchg2st64", AtomicOp::kSwap, ElementType::kUnsigned},
    {"wrap", AtomicOp::kWrap, ElementType::kUnsigned},
    {"pk_add", AtomicOp::kAdd, ElementType::kUnsigned},
};

// The element type that ends an LDS atomic's name.
bool SetLdsType(std::string_view type, MemoryOp& op) {
  if (type.size() < 2) return false;
  const std::string_view bits = type.substr(1);
  op.bytes = bits == "64" ? 8 : 4;
  if (type == "f16") op.type = ElementType::kPackedHalf;
  if (type == "bf16") op.type = ElementType::kPackedBf16;
  if (type == "f32" || type == "f64") op.type = ElementType::kFloat;
  if (type == "i32" || type == "i64") op.type = ElementType::kSigned;
  return true;
}

void SetSecond(std::string_view name, MemoryOp& op) {
  const size_t two = name.find('2');
  if (two == std::string_view::npos) return;
  op.elements = 2;
  if (name.ends_with("st64")) op.stride = 64;
}

// add_rtn_u32, cmpst_b64, wrxchg2st64_rtn_b32 and the like.
std::optional<MemoryOp> ParseLdsAtomic(std::string_view name) {
  MemoryOp op;
  op.kind = MemoryKind::kAtomic;
  const size_t last = name.rfind('_');
  if (last == std::string_view::npos || !SetLdsType(name.substr(last + 1), op)) return std::nullopt;
  name = name.substr(0, last);
  op.returns = TakeEnd(name, "_rtn");
  for (const AtomicName& atomic : kLdsAtomics) {
    if (atomic.name != name) continue;
    op.atomic = atomic.op;
    if (name.starts_with("wrxchg2")) SetSecond(name, op);
    return op;
  }
  return std::nullopt;
}

// read_b32, read2st64_b64, write_b8_d16_hi, read_b64_tr_b16, read_addtid_b32 and the like.
std::optional<MemoryOp> ParseLdsMove(std::string_view name, MemoryKind kind) {
  MemoryOp op;
  op.kind = kind;
  if (Take(name, "_addtid_b32")) {
    op.add_tid = true;
    return op;
  }
  const size_t tr = name.find("_tr_b");
  if (tr != std::string_view::npos) {
    const std::string_view bits = name.substr(tr + 5);
    op.kind = MemoryKind::kTransposeLoad;
    op.transposed = bits == "16" ? 16 : bits == "8" ? 8 : bits == "6" ? 6 : 4;
    name = name.substr(0, tr);
  }
  if (Take(name, "2st64")) {
    op.elements = 2;
    op.stride = 64;
  } else if (Take(name, "2")) {
    op.elements = 2;
  }
  return Take(name, "_") && SetWidth(name, op) ? std::optional(op) : std::nullopt;
}

struct NamedKind {
  std::string_view name;
  MemoryKind kind;
};

constexpr NamedKind kLdsKinds[] = {
    {"swizzle_b32", MemoryKind::kSwizzle},
    {"permute_b32", MemoryKind::kPermute},
    {"bpermute_b32", MemoryKind::kBackwardPermute},
    {"nop", MemoryKind::kNothing},
};

std::optional<MemoryOp> ParseLds(std::string_view name) {
  for (const NamedKind& named : kLdsKinds) {
    if (named.name != name) continue;
    MemoryOp op;
    op.kind = named.kind;
    return op;
  }
  if (Take(name, "read")) return ParseLdsMove(name, MemoryKind::kLoad);
  if (Take(name, "write")) return ParseLdsMove(name, MemoryKind::kStore);
  return ParseLdsAtomic(name);
}

}  // namespace

std::optional<MemoryOp> ParseMemoryOp(std::string_view name) {
  if (name.starts_with("s_")) return ParseScalar(name);
  if (Take(name, "ds_")) return ParseLds(name);
  for (const std::string_view prefix : {"flat_", "global_", "scratch_", "buffer_", "tbuffer_"}) {
    if (Take(name, prefix)) return ParseVector(name);
  }
  return std::nullopt;
}

}  // namespace hipsim
