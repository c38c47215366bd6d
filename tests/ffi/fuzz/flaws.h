// What can be wrong with a call.
#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/ffi/fuzz/call.h"
#include "tests/ffi/fuzz/handlers.h"

namespace fuzz {

// Whether a handler may take the call with a flaw, which can fit by accident, or must not.
enum class expectation { success, any, refusal };

// Sizes that no array can have, also if all arrays agree on them.
inline int64_t impossible_size(random& r) {
  constexpr int64_t max = std::numeric_limits<int64_t>::max();
  static const std::vector<int64_t> all = {
      -1, -2, -64, -max, -max - 1, max, max - 63, max / 2 + 1, int64_t{1} << 49, int64_t{1} << 62};
  return choose(r, all);
}

// Sizes that an array can have, for which there is no memory unless another of its sizes is 0.
inline int64_t large_size(random& r) { return (int64_t{1} << pick(r, 21, 47)) + pick(r, -3, 3); }

inline int64_t absurd_size(random& r) { return chance(r, 50) ? impossible_size(r) : large_size(r); }

inline XLA_FFI_DataType any_type(random& r) {
  static const std::vector<XLA_FFI_DataType> all = {
      XLA_FFI_DataType_BF16, XLA_FFI_DataType_F16,    XLA_FFI_DataType_F32,
      XLA_FFI_DataType_F64,  XLA_FFI_DataType_S32,    XLA_FFI_DataType_U32,
      XLA_FFI_DataType_S8,   XLA_FFI_DataType_PRED,   XLA_FFI_DataType_S64,
      XLA_FFI_DataType_C64,  XLA_FFI_DataType_TOKEN,  XLA_FFI_DataType_S4,
      XLA_FFI_DataType_S16,  XLA_FFI_DataType_F8E5M2, XLA_FFI_DataType_INVALID};
  return choose(r, all);
}

inline array any_array(random& r) {
  array a{"any", any_type(r), {}};
  for (int64_t rank = pick(r, 0, 5); rank > 0; --rank) a.dims.push_back(pick(r, 0, 6));
  return a;
}

inline value any_value(random& r) {
  constexpr int64_t max = std::numeric_limits<int64_t>::max();
  static const std::vector<value> all = {int64_t{-1},
                                         int64_t{0},
                                         int64_t{1},
                                         int64_t{2},
                                         int64_t{3},
                                         int64_t{4},
                                         int64_t{1} << 32,
                                         max,
                                         -max - 1,
                                         0.0f,
                                         -1.0f,
                                         0.5f,
                                         1.5f,
                                         1e30f,
                                         -0.0f,
                                         std::numeric_limits<float>::quiet_NaN(),
                                         std::numeric_limits<float>::infinity(),
                                         int32_t{1},
                                         0.25,
                                         true,
                                         std::string("1"),
                                         std::string()};
  return choose(r, all);
}

inline array& some_array(call& c, random& r) {
  const auto operands = static_cast<int64_t>(c.operands.size());
  const auto results = static_cast<int64_t>(c.results.size());
  const int64_t index = pick(r, 0, operands + results - 1);
  return index < operands ? c.operands[index] : c.results[index - operands];
}

inline int64_t* some_size(array& a, random& r) {
  return a.dims.empty() ? nullptr : &a.dims[r() % a.dims.size()];
}

template <class T>
void erase_one(std::vector<T>& from, random& r) {
  if (!from.empty()) from.erase(from.begin() + static_cast<int64_t>(r() % from.size()));
}

// One array that claims more than there is.
inline expectation make_absurd(call& c, const handler_row& row, random& r) {
  array& a = some_array(c, r);
  int64_t* const size = some_size(a, r);
  if (!size) return expectation::any;
  const bool is_free = a.name == row.free_array && size == a.dims.data();
  *size = is_free ? impossible_size(r) : absurd_size(r);
  return expectation::any;
}

// Operands, results or attributes too few or too many, which XLA's own part of a handler refuses.
inline expectation miscount(call& c, const handler_row& row, random& r) {
  switch (pick(r, 0, 5)) {
    case 0:
      erase_one(c.operands, r);
      return expectation::refusal;
    case 1:
      c.operands.push_back(any_array(r));
      return expectation::refusal;
    case 2:
      erase_one(c.results, r);
      return row.optional_results > 0 ? expectation::any : expectation::refusal;
    case 3:
      c.results.push_back(any_array(r));
      return row.optional_results > 0 ? expectation::any : expectation::refusal;
    case 4:
      erase_one(c.attributes, r);
      return expectation::refusal;
    default:
      c.attributes.push_back({"zeal", any_value(r)});
      return expectation::refusal;
  }
}

inline expectation misname(call& c, random& r) {
  c.attributes[r() % c.attributes.size()].name += "_";
  return expectation::refusal;
}

inline expectation change_value(call& c, random& r) {
  value& held = c.attributes[r() % c.attributes.size()].held;
  value other = any_value(r);
  std::swap(held, other);
  return held.index() == other.index() ? expectation::any : expectation::refusal;
}

inline expectation change_array(call& c, random& r) {
  array& a = some_array(c, r);
  int64_t* const size = some_size(a, r);
  switch (pick(r, 0, 6)) {
    case 0:
      a.type = any_type(r);
      break;
    case 1:
      a.dims.insert(a.dims.begin() + pick(r, 0, static_cast<int64_t>(a.dims.size())),
                    pick(r, 0, 2));
      break;
    case 2:
      erase_one(a.dims, r);
      break;
    case 3:
      if (size) *size = pick(r, 0, 3);
      break;
    case 4:
      if (size) *size = std::max<int64_t>(0, *size + pick(r, -2, 2));
      break;
    case 5:
      make_absent(a);
      break;
    default:
      a = any_array(r);
  }
  return expectation::any;
}

inline expectation swap_arrays(call& c, random& r) {
  std::swap(some_array(c, r), some_array(c, r));
  return expectation::any;
}

inline expectation spoil_once(call& c, const handler_row& row, random& r) {
  switch (pick(r, 0, 6)) {
    case 0:
      return miscount(c, row, r);
    case 1:
      return misname(c, r);
    case 2:
      return change_value(c, r);
    case 3:
      return swap_arrays(c, r);
    default:
      return change_array(c, r);
  }
}

// A call and what has to come of it.
struct trial {
  call made;
  expectation expected;
};

// One axis has an odd size wherever it occurs. A large one is all right if no array has elements,
// and otherwise no call that can be tried: it is valid.
inline trial make_odd_axis(const handler_row& row, random& r) {
  const bool large = chance(r, 50);
  generator make(row, r);
  make.set_some_axis(large ? large_size(r) : impossible_size(r));
  trial t{make.make(), expectation::any};
  if (!has_memory(t.made)) {
    if (large) return make_odd_axis(row, r);
    t.expected = expectation::refusal;
  }
  return t;
}

inline trial make_trial(const handler_row& row, random& r) {
  const int64_t kind = pick(r, 0, 9);
  if (kind == 0) return make_odd_axis(row, r);
  trial t{generator(row, r).make(), expectation::success};
  if (kind == 1 || kind == 2) t.expected = make_absurd(t.made, row, r);
  if (kind >= 3 && kind <= 6) t.expected = spoil_once(t.made, row, r);
  if (kind == 6 && t.expected == expectation::any) t.expected = spoil_once(t.made, row, r);
  if (!has_memory(t.made)) t.expected = expectation::refusal;
  return t;
}

}  // namespace fuzz
