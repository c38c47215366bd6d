#include "tests/hipsim/runtime/runtime.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "tests/hipsim/hipsim.h"

namespace hipsim {
namespace {

// "hipMalloc:3:2" asks that the third hipMalloc fails with code 2.
bool ParseFailure(std::string_view text, InjectedFailure& failure) {
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return false;
  failure.function = text.substr(0, first);
  int code = 0;
  const auto number = [](std::string_view digits, int& value) {
    const char* end = digits.data() + digits.size();
    const auto result = std::from_chars(digits.data(), end, value);
    return result.ec == std::errc() && result.ptr == end && value > 0;
  };
  if (!number(text.substr(first + 1, second - first - 1), failure.remaining) ||
      !number(text.substr(second + 1), code)) {
    return false;
  }
  failure.code = static_cast<HipError>(code);
  return true;
}

std::vector<InjectedFailure> FailuresFromEnvironment() {
  std::vector<InjectedFailure> failures;
  const char* value = std::getenv("HIPSIM_FAIL");
  std::string_view text = value == nullptr ? "" : value;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view order = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (InjectedFailure failure; ParseFailure(order, failure)) {
      failures.push_back(std::move(failure));
    } else {
      std::fprintf(stderr,
                   "hipsim: HIPSIM_FAIL has '%.*s', expected function:use:code such as "
                   "hipMalloc:1:2.\n",
                   static_cast<int>(order.size()), order.data());
    }
  }
  return failures;
}

// Returns text by a pointer that lives until the thread's next such call.
const char* Keep(std::string text) {
  std::string& kept = CurrentThread().text;
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace

Runtime::Runtime() : options_(OptionsFromEnvironment()), failures_(FailuresFromEnvironment()) {}

Runtime& Runtime::Get() {
  static auto* runtime = new Runtime;  // Never destroyed: other threads may end later.
  return *runtime;
}

Options Runtime::options() const {
  const std::lock_guard lock(mutex_);
  return options_;
}

bool Runtime::SetOption(std::string_view name, std::string_view value) {
  const std::lock_guard lock(mutex_);
  return hipsim::SetOption(options_, name, value);
}

void Runtime::AddFailure(InjectedFailure failure) {
  const std::lock_guard lock(mutex_);
  failures_.push_back(std::move(failure));
}

void Runtime::ClearFailures() {
  const std::lock_guard lock(mutex_);
  failures_.clear();
}

HipError Runtime::TakeFailure(std::string_view function) {
  const std::lock_guard lock(mutex_);
  HipError code = kSuccess;
  for (InjectedFailure& failure : failures_) {
    if (failure.function == function && --failure.remaining == 0) code = failure.code;
  }
  std::erase_if(failures_, [](const InjectedFailure& failure) { return failure.remaining <= 0; });
  return code;
}

void Runtime::SetReport(std::string check, std::string report) {
  const std::lock_guard lock(mutex_);
  check_ = std::move(check);
  report_ = std::move(report);
}

void Runtime::SetStatistics(std::string statistics) {
  const std::lock_guard lock(mutex_);
  statistics_ = std::move(statistics);
}

std::string Runtime::report() const {
  const std::lock_guard lock(mutex_);
  return report_;
}

std::string Runtime::check() const {
  const std::lock_guard lock(mutex_);
  return check_;
}

std::string Runtime::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

ThreadState& CurrentThread() {
  static thread_local ThreadState state;
  return state;
}

bool ValidDevice(int device) { return device >= 0 && device < Runtime::Get().options().devices; }

}  // namespace hipsim

using hipsim::Runtime;

HIPSIM_EXPORT int hipsim_set_option(const char* name, const char* value) {
  if (name == nullptr || value == nullptr) return 1;
  return Runtime::Get().SetOption(name, value) ? 0 : 1;
}

HIPSIM_EXPORT int hipsim_register(void* address, size_t bytes) {
  return Runtime::Get().buffers().Register(address, bytes) ? 0 : 1;
}

HIPSIM_EXPORT int hipsim_unregister(void* address) {
  return Runtime::Get().buffers().Unregister(address) ? 0 : 1;
}

HIPSIM_EXPORT int hipsim_mark_undefined(void* address, size_t bytes, int poison) {
  return Runtime::Get().buffers().MarkUndefined(address, bytes, poison != 0) ? 0 : 1;
}

HIPSIM_EXPORT int hipsim_fail(const char* function, int nth, int code) {
  if (function == nullptr) {
    Runtime::Get().ClearFailures();
    return 0;
  }
  if (nth < 1 || code < 1) return 1;
  Runtime::Get().AddFailure({function, nth, static_cast<hipsim::HipError>(code)});
  return 0;
}

HIPSIM_EXPORT const char* hipsim_last_report(void) { return hipsim::Keep(Runtime::Get().report()); }

HIPSIM_EXPORT const char* hipsim_last_check(void) { return hipsim::Keep(Runtime::Get().check()); }

HIPSIM_EXPORT const char* hipsim_statistics(void) {
  return hipsim::Keep(Runtime::Get().statistics());
}

HIPSIM_EXPORT const char* hipsim_removable_instructions(void* function) {
  const auto* symbol = static_cast<ihipModuleSymbol_t*>(function);
  if (!Runtime::Get().Valid(symbol)) return hipsim::Keep("[]");
  return hipsim::Keep(symbol->module->program->RemovableInstructions(*symbol->kernel));
}
