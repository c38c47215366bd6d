// What every handler does around its kernel: check the operands again, choose an instruction set,
// launch, and turn whatever goes wrong into an XLA status that says what was expected and received.
//
// Python has checked the same before; these checks guard against direct calls of the targets. Those
// of them that fail throw std::invalid_argument, and guarded() is where every exception ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ffi/host/table.h"
#include "ffi/runtime/isa.h"
#include "ffi/runtime/pool.h"
#include "xla/ffi/api/ffi.h"

namespace jax_hipkittens {

namespace ffi = xla::ffi;

using shape = std::initializer_list<int64_t>;

// Throws std::invalid_argument(what) unless `condition` holds.
void require(bool condition, const std::string& what);

// `buffer` has `rank` dimensions; `axes` names them in the message, as in "[B,T,N,D]".
void require_rank(std::string_view name, const ffi::AnyBuffer& buffer, std::size_t rank,
                  std::string_view axes);

// `buffer` is an array of exactly this element type and shape.
void require_array(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                   shape expected);

// The same, or an array of that type and rank whose sizes are all 0, which stands for an operand or
// a result that is absent. Returns its data, null when absent.
void* optional_array(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                     shape expected);

// The same, where sizes may also be 1: the array is repeated along those axes.
void* optional_repeated_array(std::string_view name, const ffi::AnyBuffer& buffer,
                              ffi::DataType type, shape expected);

// Whether all sizes of `buffer` are 0.
bool is_absent(const ffi::AnyBuffer& buffer);

// `value` lies in [low, high].
void require_attribute(std::string_view name, int64_t value, int64_t low, int64_t high);

// No size is negative, and their product, each counted as at least 1, leaves room for every index
// and byte offset that a kernel computes from them.
void require_indexable(shape sizes);

// The element type of `buffer`, which must be bf16, f16 or f32.
hk::dtype floating_type(std::string_view name, const ffi::AnyBuffer& buffer);

// Whether `buffer` has no elements.
bool is_empty(const ffi::AnyBuffer& buffer);

// Sets every byte of a result to zero.
void fill_zero(ffi::AnyBuffer& result);

// How often this process has launched each function of the table.
template <auto entry>
inline std::atomic<int64_t> launches{0};

// Runs one function of the table in use on XLA's thread pool.
template <auto entry, class Problem>
void launch(const Problem& problem, ffi::ThreadPool& pool) {
  launches<entry>.fetch_add(1, std::memory_order_relaxed);
  const hk::host_kernels* kernels = choose_host_isa().kernels;
  const hk::status status = (kernels->*entry)(problem, make_launcher(pool));
  if (status == hk::status::out_of_memory) throw std::bad_alloc();
}

// Runs `body`, whose failures become a status that starts with the name of the call.
template <class Body>
ffi::Error guarded(std::string_view call, Body&& body) noexcept {
  const auto failure = [&](ffi::ErrorCode code, std::string_view what) {
    return ffi::Error(code, std::string(call) + ": " + std::string(what));
  };
  try {
    body();
    return ffi::Error::Success();
  } catch (const std::invalid_argument& error) {
    return failure(ffi::ErrorCode::kInvalidArgument, error.what());
  } catch (const std::bad_alloc&) {
    return failure(ffi::ErrorCode::kResourceExhausted, "no memory for the kernel's scratch");
  } catch (const std::exception& error) {
    return failure(ffi::ErrorCode::kInternal, error.what());
  } catch (...) {
    return failure(ffi::ErrorCode::kInternal, "unknown exception");
  }
}

}  // namespace jax_hipkittens
