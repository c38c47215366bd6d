// The handlers as a table: what arrays and attributes a valid call of each has. To add a handler,
// add a row; to follow a handler's new signature, change its row.
//
// A shape lists axes by their letters, as in "B,T,N,D". "B|1" is either the axis or 1; an axis may
// also be a number. A shape that starts with "?" may be absent instead: of that rank, all sizes 0.
// A type is "u32", "s32", "f32", "pred", or a capital letter, which stands for one of bf16, f16 and
// f32, the same wherever it appears in a call.
//
// What a row cannot say its function `adjust` does: it gets a call that fits the row, and the axes'
// sizes, and makes it valid.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ffi/handlers.h"
#include "tests/ffi/fuzz/call.h"

namespace fuzz {

struct axis {
  char letter;
  int64_t low, high;
};

struct array_row {
  const char* name;
  const char* type;
  const char* shape;
};

struct attribute_row {
  const char* name;
  std::vector<value> valid;
};

using axis_sizes = std::map<char, int64_t>;

struct handler_row {
  const char* name;
  XLA_FFI_Handler* handler;
  std::vector<axis> axes;  // sizes are drawn from these ranges, in this order
  std::vector<array_row> operands;
  std::vector<array_row> results;
  std::vector<attribute_row> attributes;
  // Axes that follow from others.
  std::function<void(axis_sizes&)> derive = [](axis_sizes&) {};
  std::function<void(call&, axis_sizes&, random&)> adjust = [](call&, axis_sizes&, random&) {};
  // The array whose first size may be up to it alone, whatever the others are.
  const char* free_array = "";
  int optional_results = 0;  // the last ones, which a call may leave out
};

inline void make_absent(array& a) { std::fill(a.dims.begin(), a.dims.end(), 0); }

inline bool is_absent(const array& a) {
  return std::all_of(a.dims.begin(), a.dims.end(), [](int64_t size) { return size == 0; });
}

inline std::vector<value> integers(std::vector<int64_t> from) { return {from.begin(), from.end()}; }
inline std::vector<value> floats(std::vector<float> from) { return {from.begin(), from.end()}; }

inline constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();

// Query heads are a multiple of the key heads.
inline void group_heads(axis_sizes& s) { s['N'] = s['K'] * s['Q']; }

inline std::vector<axis> attention_axes() {
  return {{'B', 0, 3}, {'T', 0, 40}, {'S', 0, 40}, {'K', 0, 2},
          {'Q', 1, 3}, {'D', 1, 40}, {'E', 1, 40}};
}

// `front`, then what forward and backward both take.
inline std::vector<array_row> with_extras(std::vector<array_row> front) {
  const std::vector<array_row> extras = {{"q_lengths", "s32", "B"},
                                         {"kv_lengths", "s32", "B"},
                                         {"scale", "f32", "B"},
                                         {"origin", "s32", "B,4"},
                                         {"bias", "T", "?B|1,N|1,T|1,S|1"},
                                         {"mask", "pred", "?B|1,N|1,T|1,S|1"},
                                         {"q_segments", "s32", "B,T"},
                                         {"kv_segments", "s32", "B,S"},
                                         {"q_positions", "s32", "B,T"},
                                         {"kv_positions", "s32", "B,S"},
                                         {"sinks", "f32", "?B|1,N"},
                                         {"slopes", "f32", "?B|1,N"},
                                         {"seed", "u32", "B|1,2"}};
  front.insert(front.end(), extras.begin(), extras.end());
  return front;
}

inline std::vector<attribute_row> attention_attributes() {
  return {{"causal", integers({0, 1, 2})},
          {"window_left", integers({-1, -1, 0, 1, 7, 1000, no_limit})},
          {"window_right", integers({-1, -1, 0, 1, 7, 1000, no_limit})},
          {"layout", integers({0, 1})},
          {"soft_cap", floats({0.0f, 0.0f, 1.5f})},
          {"dropout_rate", floats({0.0f, 0.0f, 0.25f, 1.0f})}};
}

inline void adjust_attention(call& c, axis_sizes&, random& r) {
  const bool heads_first = c.get<int64_t>("layout") == 1;
  for (std::vector<array>* arrays : {&c.operands, &c.results})
    for (array& a : *arrays) {
      static const std::set<std::string> in_layout = {"query", "key", "value", "out",
                                                      "dout",  "dq",  "dk",    "dv"};
      if (heads_first && in_layout.count(a.name)) std::swap(a.dims[1], a.dims[2]);
    }
  for (const char* ids : {"segments", "positions"})
    if (chance(r, 50))
      for (const char* side : {"q_", "kv_"}) make_absent(c.operand(std::string(side) + ids));
  if (c.get<float>("dropout_rate") == 0) make_absent(c.operand("seed"));
  array& bias = c.operand("bias");
  if (chance(r, 50)) bias.type = XLA_FFI_DataType_F32;
  if (!c.has_result("dbias")) return;
  c.result("dbias").dims = bias.dims;
  if (chance(r, 30)) make_absent(c.result("dbias"));
}

inline handler_row attention_forward() {
  return {.name = "jax_hipkittens_attention_forward",
          .handler = jax_hipkittens_attention_forward,
          .axes = attention_axes(),
          .operands = with_extras(
              {{"query", "T", "B,T,N,D"}, {"key", "T", "B,S,K,D"}, {"value", "T", "B,S,K,E"}}),
          .results = {{"out", "T", "B,T,N,E"}, {"lse", "f32", "B,N,T"}},
          .attributes = attention_attributes(),
          .derive = group_heads,
          .adjust = adjust_attention};
}

inline handler_row attention_backward() {
  return {.name = "jax_hipkittens_attention_backward",
          .handler = jax_hipkittens_attention_backward,
          .axes = attention_axes(),
          .operands = with_extras({{"query", "T", "B,T,N,D"},
                                   {"key", "T", "B,S,K,D"},
                                   {"value", "T", "B,S,K,E"},
                                   {"out", "T", "B,T,N,E"},
                                   {"lse", "f32", "B,N,T"},
                                   {"dout", "T", "B,T,N,E"},
                                   {"dlse", "f32", "B,N,T"}}),
          .results = {{"dq", "T", "B,T,N,D"},
                      {"dk", "T", "B,S,K,D"},
                      {"dv", "T", "B,S,K,E"},
                      {"dbias", "f32", "B|1,N|1,T|1,S|1"}},
          .attributes = attention_attributes(),
          .derive = group_heads,
          .adjust = adjust_attention};
}

inline void adjust_gemm(call& c, axis_sizes& s, random& r) {
  if (c.get<int64_t>("trans_a")) std::swap(c.operand("a").dims[1], c.operand("a").dims[2]);
  if (c.get<int64_t>("trans_b")) std::swap(c.operand("b").dims[1], c.operand("b").dims[2]);
  array& bias = c.operand("bias");
  if (chance(r, 50)) bias.dims = {chance(r, 30) ? 0 : s['N']};
}

inline handler_row gemm() {
  return {.name = "jax_hipkittens_gemm",
          .handler = jax_hipkittens_gemm,
          .axes = {{'B', 0, 3}, {'M', 0, 40}, {'N', 0, 40}, {'K', 0, 40}},
          .operands = {{"a", "T", "B|1,M,K"}, {"b", "T", "B|1,K,N"}, {"bias", "V", "?B|1,N"}},
          .results = {{"c", "U", "B,M,N"}, {"z", "U", "B,M,N"}},
          .attributes = {{"trans_a", integers({0, 1})},
                         {"trans_b", integers({0, 1})},
                         {"activation", integers({0, 1, 2, 3})}},
          .adjust = adjust_gemm,
          .free_array = "c",
          .optional_results = 1};
}

inline std::vector<axis> norm_axes() { return {{'G', 1, 5}, {'P', 0, 9}, {'H', 0, 70}}; }
inline void multiply_groups(axis_sizes& s) { s['R'] = s['G'] * s['P']; }

inline void adjust_norm(call& c, axis_sizes& s, random&) {
  c.get<int64_t>("groups") = s['G'];
  const bool layer = c.get<int64_t>("kind") == 0;
  for (std::vector<array>* arrays : {&c.operands, &c.results})
    for (array& a : *arrays)
      if (a.name == "mean" && !layer) a.dims = {0};
  if (!c.has_result("h")) return;
  // h is wanted where it differs from x, and only there; in a call without elements it doesn't
  // matter.
  if (is_absent(c.operand("residual")) && c.get<float>("dropout_rate") == 0)
    make_absent(c.result("h"));
}

inline handler_row norm_forward() {
  return {
      .name = "jax_hipkittens_norm_forward",
      .handler = jax_hipkittens_norm_forward,
      .axes = norm_axes(),
      .operands = {{"x", "T", "R,H"},
                   {"residual", "T", "?R,H"},
                   {"weight", "f32", "?G|1,H"},
                   {"bias", "f32", "?G|1,H"},
                   {"seed", "u32", "G|1,2"},
                   {"origin", "u32", "G|1,2"}},
      .results = {{"y", "T", "R,H"}, {"h", "T", "R,H"}, {"mean", "f32", "R"}, {"rstd", "f32", "R"}},
      .attributes = {{"kind", integers({0, 1})},
                     {"groups", integers({1})},
                     {"epsilon", floats({0.0f, 1e-6f, 1.0f})},
                     {"dropout_rate", floats({0.0f, 0.0f, 0.25f, 1.0f})}},
      .derive = multiply_groups,
      .adjust = adjust_norm};
}

inline handler_row norm_backward() {
  return {.name = "jax_hipkittens_norm_backward",
          .handler = jax_hipkittens_norm_backward,
          .axes = norm_axes(),
          .operands = {{"h", "T", "R,H"},
                       {"weight", "f32", "?G|1,H"},
                       {"mean", "f32", "R"},
                       {"rstd", "f32", "R"},
                       {"dy", "T", "R,H"},
                       {"dh", "T", "?R,H"},
                       {"seed", "u32", "G|1,2"},
                       {"origin", "u32", "G|1,2"}},
          .results = {{"dx", "T", "R,H"},
                      {"dresidual", "T", "?R,H"},
                      {"dweight", "f32", "?G|1,H"},
                      {"dbias", "f32", "?G|1,H"}},
          .attributes = {{"kind", integers({0, 1})},
                         {"groups", integers({1})},
                         {"dropout_rate", floats({0.0f, 0.0f, 0.25f, 1.0f})}},
          .derive = multiply_groups,
          .adjust = adjust_norm};
}

inline handler_row rotary() {
  return {.name = "jax_hipkittens_rotary",
          .handler = jax_hipkittens_rotary,
          .axes = {{'B', 0, 3}, {'T', 0, 20}, {'N', 0, 4}, {'P', 1, 30}, {'R', 0, 20}, {'E', 0, 9}},
          .operands = {{"x", "T", "B,T,N,D"},
                       {"cos", "f32", "C,P,R"},
                       {"sin", "f32", "C,P,R"},
                       {"offsets", "s32", "B"}},
          .results = {{"y", "T", "B,T,N,D"}},
          .attributes = {{"interleaved", integers({0, 1})}, {"inverse", integers({0, 1})}},
          // Each of the R frequencies turns two elements; the last E elements stay as they are.
          .derive = [](axis_sizes& s) { s['D'] = 2 * s['R'] + s['E'], s['C'] = s['B']; },
          .adjust =
              [](call& c, axis_sizes&, random& r) {
                if (chance(r, 50)) c.operand("cos").dims[0] = c.operand("sin").dims[0] = 1;
              }};
}

inline std::vector<handler_row> all_handlers() {
  return {attention_forward(), attention_backward(), gemm(),
          norm_forward(),      norm_backward(),      rotary()};
}

// A valid call: sizes, types and attributes at random.
class generator {
 public:
  generator(const handler_row& row, random& r) : row_(row), r_(r) {
    for (const axis& a : row.axes) sizes_[a.letter] = draw_size(a);
    row.derive(sizes_);
  }

  // Gives one axis another size, in all arrays that have it.
  void set_some_axis(int64_t size) {
    auto chosen = sizes_.begin();
    std::advance(chosen, pick(r_, 0, static_cast<int64_t>(sizes_.size()) - 1));
    chosen->second = size;
  }

  call make() {
    call c;
    for (const array_row& a : row_.operands) c.operands.push_back(make_array(a));
    for (const array_row& a : row_.results) c.results.push_back(make_array(a));
    for (const attribute_row& a : row_.attributes)
      c.attributes.push_back({a.name, choose(r_, a.valid)});
    row_.adjust(c, sizes_, r_);
    c.results.resize(c.results.size() - pick(r_, 0, row_.optional_results));
    return c;
  }

 private:
  // Small sizes are as likely as all the others.
  int64_t draw_size(const axis& a) {
    return pick(r_, a.low, chance(r_, 50) ? std::min(a.low + 3, a.high) : a.high);
  }

  XLA_FFI_DataType make_type(const std::string& name) {
    if (name == "u32") return XLA_FFI_DataType_U32;
    if (name == "s32") return XLA_FFI_DataType_S32;
    if (name == "f32") return XLA_FFI_DataType_F32;
    if (name == "pred") return XLA_FFI_DataType_PRED;
    static const std::vector<XLA_FFI_DataType> floating = {
        XLA_FFI_DataType_BF16, XLA_FFI_DataType_F16, XLA_FFI_DataType_F32};
    return types_.try_emplace(name, choose(r_, floating)).first->second;
  }

  array make_array(const array_row& row) {
    array a{row.name, make_type(row.type), {}};
    const char* at = row.shape;
    const bool absent = *at == '?' && chance(r_, 30);
    for (at += *at == '?'; *at; at += *at == ',') {
      const char letter = *at++;
      int64_t size = letter >= 'A' ? sizes_.at(letter) : letter - '0';
      if (*at == '|') {
        at += 2;
        if (chance(r_, 40)) size = 1;
      }
      a.dims.push_back(absent ? 0 : size);
    }
    return a;
  }

  const handler_row& row_;
  random& r_;
  axis_sizes sizes_;
  std::map<std::string, XLA_FFI_DataType> types_;
};

}  // namespace fuzz
