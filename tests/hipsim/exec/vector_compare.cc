// Comparisons: v_cmp_* writes the mask of active lanes where it holds, v_cmpx_* EXEC as well.
#include <string>

#include "tests/hipsim/exec/lanes.h"
#include "tests/hipsim/exec/vector.h"

namespace hipsim {

namespace {

// Mask bits of v_cmp_class, from bit 0: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0,
// +0, +denormal, +normal, +inf.
template <typename Bits>
bool in_class(Bits x, u32 wanted, int exponent_bits) {
  const int width = sizeof(Bits) == 8 ? 64 : exponent_bits == 5 ? 16 : 32;
  const int mantissa_bits = width - 1 - exponent_bits;
  const Bits one = 1, mantissa = x & ((one << mantissa_bits) - 1);
  const Bits all = (one << exponent_bits) - 1, exponent = x >> mantissa_bits & all;
  const bool negative = x >> (width - 1) & 1;
  if (exponent == all && mantissa) return wanted >> (mantissa >> (mantissa_bits - 1)) & 1;
  if (exponent == all) return wanted >> (negative ? 2 : 9) & 1;
  if (exponent) return wanted >> (negative ? 3 : 8) & 1;
  if (mantissa) return wanted >> (negative ? 4 : 7) & 1;
  return wanted >> (negative ? 5 : 6) & 1;
}

struct Half16 : U32 {
  static void load(const Context& c, int source, Lanes<u32>& out) {
    load_half_bits(c, source, out);
    sign_modifiers(c.in, source, out, 0x8000u);
  }
};

struct Double64 : U64 {
  static void load(const Context& c, int source, Lanes<u64>& out) {
    load_raw64(c, source, out);
    sign_modifiers(c.in, source, out, u64{1} << 63);
  }
};

using Entries = std::vector<std::pair<std::string, Execute>>;

void add(Entries& entries, const std::string& condition, const std::string& type, Execute execute) {
  entries.emplace_back("v_cmp_" + condition + "_" + type, execute);
  entries.emplace_back("v_cmpx_" + condition + "_" + type, execute);
}

template <typename S>
void add_orders(Entries& entries, const std::string& type, const char* unequal,
                const char* always) {
  using T = typename S::Value;
  add(entries, type == "f16" || type == "f32" || type == "f64" ? "f" : "f", type,
      compare<S, S>([](T, T) { return false; }));
  add(entries, "lt", type, compare<S, S>([](T a, T b) { return a < b; }));
  add(entries, "eq", type, compare<S, S>([](T a, T b) { return a == b; }));
  add(entries, "le", type, compare<S, S>([](T a, T b) { return a <= b; }));
  add(entries, "gt", type, compare<S, S>([](T a, T b) { return a > b; }));
  add(entries, "ge", type, compare<S, S>([](T a, T b) { return a >= b; }));
  add(entries, always, type, compare<S, S>([](T, T) { return true; }));
  if (std::string(unequal) == "ne")
    add(entries, "ne", type, compare<S, S>([](T a, T b) { return a != b; }));
}

template <typename S>
void add_floats(Entries& entries, const std::string& type) {
  using T = typename S::Value;
  add_orders<S>(entries, type, "lg", "tru");
  add(entries, "lg", type, compare<S, S>([](T a, T b) { return a < b || a > b; }));
  add(entries, "o", type, compare<S, S>([](T a, T b) { return a == a && b == b; }));
  add(entries, "u", type, compare<S, S>([](T a, T b) { return a != a || b != b; }));
  add(entries, "nge", type, compare<S, S>([](T a, T b) { return !(a >= b); }));
  add(entries, "nlg", type, compare<S, S>([](T a, T b) { return !(a < b || a > b); }));
  add(entries, "ngt", type, compare<S, S>([](T a, T b) { return !(a > b); }));
  add(entries, "nle", type, compare<S, S>([](T a, T b) { return !(a <= b); }));
  add(entries, "neq", type, compare<S, S>([](T a, T b) { return !(a == b); }));
  add(entries, "nlt", type, compare<S, S>([](T a, T b) { return !(a < b); }));
}

Entries all_entries() {
  Entries entries;
  add_floats<F32>(entries, "f32");
  add_floats<F16>(entries, "f16");
  add_floats<F64>(entries, "f64");
  add_orders<I16>(entries, "i16", "ne", "t");
  add_orders<U16>(entries, "u16", "ne", "t");
  add_orders<I32>(entries, "i32", "ne", "t");
  add_orders<U32>(entries, "u32", "ne", "t");
  add_orders<I64>(entries, "i64", "ne", "t");
  add_orders<U64>(entries, "u64", "ne", "t");
  add(entries, "class", "f32", compare<B32, U32>([](u32 a, u32 b) { return in_class(a, b, 8); }));
  add(entries, "class", "f16",
      compare<Half16, U32>([](u32 a, u32 b) { return in_class(a, b, 5); }));
  add(entries, "class", "f64",
      compare<Double64, U32>([](u64 a, u32 b) { return in_class(a, b, 11); }));
  return entries;
}

}  // namespace

const OperationTable& comparisons() {
  static const Entries entries = all_entries();
  static const OperationTable table(entries.begin(), entries.end());
  return table;
}

}  // namespace hipsim
