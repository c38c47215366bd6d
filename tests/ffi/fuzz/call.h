// One call of a handler as data that can be spoiled, and the call frame that XLA would make of it.
//
// Every array is an allocation of exactly the bytes that it claims, so that AddressSanitizer sees
// any step beyond. An array that claims more than a test can give has no memory at all: whoever
// touches it is stopped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/ffi/fuzz/api.h"
#include "xla/ffi/api/c_api.h"

namespace fuzz {

using random = std::mt19937_64;

// A number from low to high.
inline int64_t pick(random& r, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(r() % static_cast<uint64_t>(high - low + 1));
}

// One of `percent` calls in a hundred.
inline bool chance(random& r, int percent) { return pick(r, 1, 100) <= percent; }

template <class T>
const T& choose(random& r, const std::vector<T>& from) {
  return from[r() % from.size()];
}

using sizes = std::vector<int64_t>;

struct array {
  std::string name;
  XLA_FFI_DataType type;
  sizes dims;
};

// An attribute's value; a string stands for all that is no number.
using value = std::variant<int64_t, float, int32_t, double, bool, std::string>;

struct attribute {
  std::string name;
  value held;
};

struct call {
  std::vector<array> operands;
  std::vector<array> results;
  std::vector<attribute> attributes;

  array& operand(const std::string& name) { return find(operands, name); }
  array& result(const std::string& name) { return find(results, name); }
  bool has_result(const std::string& name) const {
    return std::any_of(results.begin(), results.end(), [&](auto& a) { return a.name == name; });
  }
  template <class T>
  T& get(const std::string& name) {
    return std::get<T>(find(attributes, name).held);
  }

  template <class Named>
  static Named& find(std::vector<Named>& all, const std::string& name) {
    return *std::find_if(all.begin(), all.end(), [&](Named& x) { return x.name == name; });
  }
};

inline int64_t bytes_of(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_BF16:
    case XLA_FFI_DataType_F16:
    case XLA_FFI_DataType_S16:
      return 2;
    case XLA_FFI_DataType_F32:
    case XLA_FFI_DataType_S32:
    case XLA_FFI_DataType_U32:
      return 4;
    case XLA_FFI_DataType_F64:
    case XLA_FFI_DataType_S64:
    case XLA_FFI_DataType_C64:
      return 8;
    default:
      return 1;
  }
}

// The bytes of an array, or -1 if no memory can be behind it.
inline int64_t claimed_bytes(const array& a) {
  constexpr int64_t most = int64_t{1} << 20;
  int64_t bytes = bytes_of(a.type);
  bool empty = false;
  for (int64_t size : a.dims) {
    if (size < 0) return -1;
    empty |= size == 0;
    bytes = size > most ? most + 1 : std::min(bytes * std::max<int64_t>(size, 1), most + 1);
  }
  return empty ? 0 : bytes > most ? -1 : bytes;
}

inline bool has_memory(const call& c) {
  const auto backed = [](const array& a) { return claimed_bytes(a) >= 0; };
  return std::all_of(c.operands.begin(), c.operands.end(), backed) &&
         std::all_of(c.results.begin(), c.results.end(), backed);
}

// The memory of one array.
class memory {
 public:
  // An array without elements comes with an address or without one.
  memory(const array& a, bool has_address) : bytes_(claimed_bytes(a)), has_address_(has_address) {
    if (bytes_ > 0) data_ = static_cast<unsigned char*>(std::malloc(bytes_));
  }
  memory(memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_),
        has_address_(other.has_address_) {}
  memory& operator=(memory&&) = delete;
  ~memory() { std::free(data_); }

  // Nobody may read the address 64.
  void* address() const {
    return bytes_ > 0 ? data_ : has_address_ ? reinterpret_cast<void*>(64) : nullptr;
  }
  unsigned char* data() const { return data_; }
  int64_t bytes() const { return std::max<int64_t>(bytes_, 0); }

 private:
  unsigned char* data_ = nullptr;
  int64_t bytes_;
  bool has_address_;
};

// Fills an operand with numbers near 1, with bytes at random (NaN, infinities, any integers), or
// with small integers.
inline void fill(const array& a, memory& m, random& r) {
  const int kind = static_cast<int>(pick(r, 0, 2));
  const int64_t width = bytes_of(a.type);
  for (int64_t i = 0; i < m.bytes(); i += width) {
    const uint64_t bits = r();
    const float number = static_cast<float>(static_cast<int64_t>(bits % 4001) - 2000) / 1000.0f;
    uint32_t word = static_cast<uint32_t>(bits);
    if (kind == 0) std::memcpy(&word, &number, 4);
    if (kind == 0 && a.type == XLA_FFI_DataType_BF16) word >>= 16;
    if (kind == 0 && a.type == XLA_FFI_DataType_F16) word = 0x3000 + word % 0x1000;
    if (kind == 2 && a.type == XLA_FFI_DataType_S32) word = static_cast<uint32_t>(bits % 50) - 5;
    std::memcpy(m.data() + i, &word, std::min<int64_t>(width, 4));
  }
}

// What a call gave: null or an error, and its results.
struct outcome {
  std::unique_ptr<XLA_FFI_Error> error;
  std::vector<memory> results;
  bool operands_kept;  // as they were
};

// A number that changes, but for bad luck, when any of the bytes does.
inline uint64_t digest(const std::vector<memory>& all) {
  uint64_t sum = 0;
  for (const memory& m : all)
    for (int64_t i = 0; i < m.bytes(); ++i) sum = sum * 0x5851f42d4c957f2d + m.data()[i] + 1;
  return sum;
}

// A call frame and all that it points to.
class frame {
 public:
  frame(call& c, const std::vector<memory>& operands, const std::vector<memory>& results)
      : args_(c.operands, operands), rets_(c.results, results) {
    // XLA sorts attributes by name.
    std::sort(c.attributes.begin(), c.attributes.end(),
              [](auto& a, auto& b) { return a.name < b.name; });
    for (attribute& a : c.attributes) add(a);
    for (std::size_t i = 0; i < names_.size(); ++i) name_pointers_.push_back(&names_[i]);
  }

  XLA_FFI_Error* run(XLA_FFI_Handler* handler, context& now,
                     XLA_FFI_ExecutionStage stage = XLA_FFI_ExecutionStage_EXECUTE) {
    static const XLA_FFI_Api api = make_api();
    XLA_FFI_CallFrame f{};
    f.struct_size = XLA_FFI_CallFrame_STRUCT_SIZE;
    f.api = &api;
    f.ctx = reinterpret_cast<XLA_FFI_ExecutionContext*>(&now);
    f.stage = stage;
    f.args = {XLA_FFI_Args_STRUCT_SIZE, nullptr, args_.size(), args_.types.data(),
              args_.pointers.data()};
    f.rets = {XLA_FFI_Rets_STRUCT_SIZE, nullptr, rets_.size(), rets_.types.data(),
              rets_.pointers.data()};
    f.attrs = {XLA_FFI_Attrs_STRUCT_SIZE,
               nullptr,
               static_cast<int64_t>(names_.size()),
               types_.data(),
               name_pointers_.data(),
               values_.data()};
    return handler(&f);
  }

 private:
  template <class Type, Type Buffer>
  struct buffers {
    buffers(std::vector<array>& arrays, const std::vector<memory>& memories) {
      all.reserve(arrays.size());
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        array& a = arrays[i];
        all.push_back({XLA_FFI_Buffer_STRUCT_SIZE, nullptr, a.type, memories[i].address(),
                       static_cast<int64_t>(a.dims.size()), a.dims.data()});
        types.push_back(Buffer);
        pointers.push_back(&all[i]);
      }
    }
    int64_t size() const { return static_cast<int64_t>(all.size()); }

    std::vector<XLA_FFI_Buffer> all;
    std::vector<Type> types;
    std::vector<void*> pointers;
  };

  void add(attribute& a) {
    names_.push_back({a.name.data(), a.name.size()});
    if (auto* text = std::get_if<std::string>(&a.held)) {
      strings_.push_back({text->data(), text->size()});
      types_.push_back(XLA_FFI_AttrType_STRING);
      values_.push_back(&strings_.back());
      return;
    }
    constexpr XLA_FFI_DataType types[] = {XLA_FFI_DataType_S64, XLA_FFI_DataType_F32,
                                          XLA_FFI_DataType_S32, XLA_FFI_DataType_F64,
                                          XLA_FFI_DataType_PRED};
    void* const number = std::visit([](auto& x) -> void* { return &x; }, a.held);
    scalars_.push_back({types[a.held.index()], number});
    types_.push_back(XLA_FFI_AttrType_SCALAR);
    values_.push_back(&scalars_.back());
  }

  buffers<XLA_FFI_ArgType, XLA_FFI_ArgType_BUFFER> args_;
  buffers<XLA_FFI_RetType, XLA_FFI_RetType_BUFFER> rets_;
  std::deque<XLA_FFI_ByteSpan> names_, strings_;  // whose elements stay where they are
  std::deque<XLA_FFI_Scalar> scalars_;
  std::vector<XLA_FFI_ByteSpan*> name_pointers_;
  std::vector<XLA_FFI_AttrType> types_;
  std::vector<void*> values_;
};

// Calls the handler with results that hold `poison`, and operands whose contents follow from
// `seed`.
inline outcome run(XLA_FFI_Handler* handler, call& c, context now, uint64_t seed,
                   unsigned char poison) {
  random r(seed);
  std::vector<memory> operands, results;
  for (const array& a : c.operands) {
    operands.emplace_back(a, chance(r, 50));
    fill(a, operands.back(), r);
  }
  for (const array& a : c.results) {
    results.emplace_back(a, chance(r, 50));
    if (results.back().data()) std::memset(results.back().data(), poison, results.back().bytes());
  }
  const uint64_t before = digest(operands);
  std::unique_ptr<XLA_FFI_Error> error(frame(c, operands, results).run(handler, now));
  return {std::move(error), std::move(results), digest(operands) == before};
}

}  // namespace fuzz
