// Calls every handler with valid and with malformed arrays and attributes, at random but the same
// ones each time. Each call has to end in a status: success where the call is valid, refusal where
// it cannot be taken, and either where a flaw may fit by accident. AddressSanitizer and
// UndefinedBehaviorSanitizer watch the memory; a valid call is made twice, with other threads and
// other contents of its results before, and has to give the same.
//
//   fuzz [calls of each handler] [seed] [part of a handler's name]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ffi/host/entries.h"
#include "ffi/runtime/isa.h"
#include "hk/core/element.h"
#include "tests/ffi/fuzz/call.h"
#include "tests/ffi/fuzz/flaws.h"
#include "tests/ffi/fuzz/handlers.h"

namespace jax_hipkittens {

// The kernels of the only instruction set that this program has.
host_isa choose_host_isa() { return {"this one", &hk::HK_ARCH_NAMESPACE::kernels}; }

}  // namespace jax_hipkittens

namespace fuzz {
namespace {

struct counts {
  int64_t calls = 0;
  int64_t valid = 0;
  int64_t refused = 0;
  int64_t fitting = 0;  // with a flaw, and taken nevertheless
};

const char* name_of(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_BF16:
      return "bf16";
    case XLA_FFI_DataType_F16:
      return "f16";
    case XLA_FFI_DataType_F32:
      return "f32";
    case XLA_FFI_DataType_S32:
      return "s32";
    case XLA_FFI_DataType_U32:
      return "u32";
    default:
      return "other";
  }
}

void print(const std::vector<array>& arrays) {
  for (const array& a : arrays) {
    std::fprintf(stderr, "  %s %s[", a.name.c_str(), name_of(a.type));
    for (const int64_t size : a.dims) std::fprintf(stderr, " %lld", static_cast<long long>(size));
    std::fprintf(stderr, " ]\n");
  }
}

void print(const attribute& a) {
  std::fprintf(stderr, "  %s = ", a.name.c_str());
  if (const auto* text = std::get_if<std::string>(&a.held))
    std::fprintf(stderr, "\"%s\"\n", text->c_str());
  else if (const auto* number = std::get_if<int64_t>(&a.held))
    std::fprintf(stderr, "%lld\n", static_cast<long long>(*number));
  else if (const auto* real = std::get_if<float>(&a.held))
    std::fprintf(stderr, "%g\n", static_cast<double>(*real));
  else
    std::fprintf(stderr, "of type %zu\n", a.held.index());
}

[[noreturn]] void fail(const handler_row& row, const call& c, int64_t index,
                       const std::string& what) {
  std::fprintf(stderr, "%s, call %lld: %s\n", row.name, static_cast<long long>(index),
               what.c_str());
  print(c.operands);
  std::fprintf(stderr, " results\n");
  print(c.results);
  for (const attribute& a : c.attributes) print(a);
  std::exit(1);
}

double number_at(const unsigned char* at, XLA_FFI_DataType type) {
  hk::bf16 b;
  hk::f16 h;
  float f;
  switch (type) {
    case XLA_FFI_DataType_BF16:
      std::memcpy(&b, at, 2);
      return hk::to_float(b);
    case XLA_FFI_DataType_F16:
      std::memcpy(&h, at, 2);
      return hk::to_float(h);
    default:
      std::memcpy(&f, at, 4);
      return f;
  }
}

// Where two runs gave different numbers, if they did; NaN is NaN, whatever its bits.
std::string difference(const array& a, const memory& one, const memory& other) {
  if (one.bytes() == 0 || std::memcmp(one.data(), other.data(), one.bytes()) == 0) return "";
  for (int64_t i = 0; i < one.bytes(); i += bytes_of(a.type)) {
    const double x = number_at(one.data() + i, a.type), y = number_at(other.data() + i, a.type);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    return a.name + " differs between two calls, or was not written: element " +
           std::to_string(i / bytes_of(a.type)) + " is " + std::to_string(x) + " and " +
           std::to_string(y);
  }
  return "";
}

context any_context(random& r, workers& pool) {
  const scheduling modes[] = {scheduling::on_workers, scheduling::at_once, scheduling::fails};
  return {pick(r, 0, 4), modes[pick(r, 0, 2)], &pool};
}

// What is wrong with a status that must not come of a call, or nothing.
std::string complaint(const XLA_FFI_Error* error, expectation expected) {
  if (!error) return expected == expectation::refusal ? "expected a refusal, received success" : "";
  if (expected == expectation::success) return "expected success, received: " + error->message;
  if (error->code != XLA_FFI_Error_Code_INVALID_ARGUMENT || error->message.empty())
    return "expected INVALID_ARGUMENT and why, received code " + std::to_string(error->code) +
           ": " + error->message;
  return "";
}

void run_trial(const handler_row& row, int64_t index, random& r, workers& pool, counts& so_far) {
  trial t = make_trial(row, r);
  const uint64_t contents = r();
  const outcome first = run(row.handler, t.made, any_context(r, pool), contents, 0x5a);
  const std::string wrong = complaint(first.error.get(), t.expected);
  if (!wrong.empty()) fail(row, t.made, index, wrong);
  if (!first.operands_kept) fail(row, t.made, index, "an operand was written");
  ++so_far.calls;
  so_far.refused += first.error != nullptr;
  if (t.expected == expectation::any) so_far.fitting += first.error == nullptr;
  if (t.expected != expectation::success) return;
  ++so_far.valid;
  const outcome second = run(row.handler, t.made, any_context(r, pool), contents, 0xc3);
  if (second.error)
    fail(row, t.made, index, "refused at the second time: " + second.error->message);
  for (std::size_t i = 0; i < t.made.results.size(); ++i) {
    const auto found = difference(t.made.results[i], first.results[i], second.results[i]);
    if (!found.empty()) fail(row, t.made, index, found);
  }
}

// Whether both kinds of calls occurred often.
bool fuzz_handler(const handler_row& row, int64_t calls, uint64_t seed, workers& pool) {
  const auto start = std::chrono::steady_clock::now();
  counts so_far;
  for (int64_t i = 0; i < calls; ++i) {
    random r(seed + static_cast<uint64_t>(i));  // any call can be had again by itself
    run_trial(row, i, r, pool, so_far);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%-34s %lld calls: %lld valid, %lld refused, %lld fitting with a flaw; %.1f s\n",
              row.name, static_cast<long long>(so_far.calls), static_cast<long long>(so_far.valid),
              static_cast<long long>(so_far.refused), static_cast<long long>(so_far.fitting),
              seconds.count());
  std::fflush(stdout);
  return 5 * so_far.valid >= so_far.calls && 5 * so_far.refused >= so_far.calls;
}

}  // namespace
}  // namespace fuzz

int main(int argc, char** argv) {
  const int64_t calls = argc > 1 ? std::atoll(argv[1]) : 17000;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const char* const part = argc > 3 ? argv[3] : "";
  fuzz::workers pool;
  bool enough = true;
  for (const fuzz::handler_row& row : fuzz::all_handlers())
    if (std::strstr(row.name, part)) enough &= fuzz::fuzz_handler(row, calls, seed, pool);
  if (!enough) std::fprintf(stderr, "expected a fifth of the calls valid and a fifth refused\n");
  return enough ? 0 : 1;
}
