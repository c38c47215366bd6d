#include "ffi/call.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <sstream>

namespace jax_hipkittens {
namespace {

// "bf16[2,16,4,8]", as JAX prints it.
template <class Sizes>
std::string describe(ffi::DataType type, const Sizes& sizes) {
  std::ostringstream text;
  text << type;
  std::string name = text.str();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string dims;
  for (int64_t size : sizes) dims += (dims.empty() ? "" : ",") + std::to_string(size);
  return name + "[" + dims + "]";
}

std::string describe(const ffi::AnyBuffer& buffer) {
  return describe(buffer.element_type(), buffer.dimensions());
}

std::string mismatch(std::string_view name, const std::string& expected,
                     const std::string& received) {
  return std::string(name) + ": expected " + expected + ", received " + received;
}

bool has_shape(const ffi::AnyBuffer& buffer, shape sizes) {
  const auto dims = buffer.dimensions();
  return std::equal(dims.begin(), dims.end(), sizes.begin(), sizes.end());
}

// Whether each size is the expected one or 1.
bool repeats_to(const ffi::AnyBuffer& buffer, shape expected) {
  const auto dims = buffer.dimensions();
  return std::equal(dims.begin(), dims.end(), expected.begin(), expected.end(),
                    [](int64_t size, int64_t full) { return size == full || size == 1; });
}

bool stands_for_nothing(const ffi::AnyBuffer& buffer, ffi::DataType type, std::size_t rank) {
  return buffer.element_type() == type && buffer.dimensions().size() == rank && is_absent(buffer);
}

}  // namespace

void require(bool condition, const std::string& what) {
  if (!condition) throw std::invalid_argument(what);
}

void require_rank(std::string_view name, const ffi::AnyBuffer& buffer, std::size_t rank,
                  std::string_view axes) {
  require(buffer.dimensions().size() == rank, mismatch(name, std::string(axes), describe(buffer)));
}

void require_array(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                   shape expected) {
  require(buffer.element_type() == type && has_shape(buffer, expected),
          mismatch(name, describe(type, expected), describe(buffer)));
}

void* optional_array(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                     shape expected) {
  if (stands_for_nothing(buffer, type, expected.size())) return nullptr;
  require_array(name, buffer, type, expected);
  return buffer.untyped_data();
}

void* optional_repeated_array(std::string_view name, const ffi::AnyBuffer& buffer,
                              ffi::DataType type, shape expected) {
  if (stands_for_nothing(buffer, type, expected.size())) return nullptr;
  require(buffer.element_type() == type && repeats_to(buffer, expected),
          mismatch(name, describe(type, expected) + ", or any of its sizes 1", describe(buffer)));
  return buffer.untyped_data();
}

bool is_absent(const ffi::AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  return std::all_of(dims.begin(), dims.end(), [](int64_t d) { return d == 0; });
}

void require_attribute(std::string_view name, int64_t value, int64_t low, int64_t high) {
  require(
      low <= value && value <= high,
      mismatch(name, std::to_string(low) + " to " + std::to_string(high), std::to_string(value)));
}

void require_indexable(shape sizes) {
  // Offsets stay far below 2^63 even when a kernel pads each size up to its tile.
  constexpr int64_t kLimit = int64_t{1} << 48;
  int64_t product = 1;
  for (int64_t size : sizes) {
    const int64_t factor = std::max<int64_t>(size, 1);
    require(
        size >= 0 && factor <= kLimit / product,
        "sizes: expected a product of at most 2^48, received one that exceeds it at a size of " +
            std::to_string(size));
    product *= factor;
  }
}

hk::dtype floating_type(std::string_view name, const ffi::AnyBuffer& buffer) {
  switch (buffer.element_type()) {
    case ffi::DataType::BF16:
      return hk::dtype::bf16;
    case ffi::DataType::F16:
      return hk::dtype::f16;
    case ffi::DataType::F32:
      return hk::dtype::f32;
    default:
      throw std::invalid_argument(mismatch(name, "bf16, f16 or f32", describe(buffer)));
  }
}

bool is_empty(const ffi::AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  return std::find(dims.begin(), dims.end(), 0) != dims.end();
}

void fill_zero(ffi::AnyBuffer& result) {
  if (!is_empty(result)) std::memset(result.untyped_data(), 0, result.size_bytes());
}

}  // namespace jax_hipkittens
