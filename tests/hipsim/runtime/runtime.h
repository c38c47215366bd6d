// The state behind HIP's entry points.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/hipsim/code_object.h"
#include "tests/hipsim/exec/program.h"
#include "tests/hipsim/runtime/buffers.h"
#include "tests/hipsim/runtime/hip_types.h"
#include "tests/hipsim/runtime/options.h"

#define HIPSIM_EXPORT extern "C" __attribute__((visibility("default")))

// The public handles. Work is done when it is submitted, so streams and events hold little.
struct ihipStream_t {
  int device = 0;
  uint32_t flags = 0;
  int priority = 0;
};

struct ihipEvent_t {
  int device = 0;
  bool recorded = false;
  bool timed = true;
  std::chrono::steady_clock::time_point time;
};

struct ihipModuleSymbol_t {
  const hipsim::Kernel* kernel = nullptr;
  ihipModule_t* module = nullptr;
  int max_dynamic_lds = 0;
};

struct ihipModule_t {
  std::unique_ptr<hipsim::Program> program;
  std::map<std::string, std::unique_ptr<ihipModuleSymbol_t>, std::less<>> functions;
};

namespace hipsim {

// An order to make calls fail.
struct InjectedFailure {
  std::string function;
  int remaining = 1;  // fails when it reaches 0
  HipError code = kSuccess;
};

class Runtime {
 public:
  static Runtime& Get();

  Options options() const;
  bool SetOption(std::string_view name, std::string_view value);

  Buffers& buffers() { return buffers_; }

  void AddFailure(InjectedFailure failure);
  void ClearFailures();
  // The code with which this use of a function has to fail; kSuccess if it has not.
  HipError TakeFailure(std::string_view function);

  // A handle is valid from Add to Remove; the null stream always is.
  template <class T>
  void Add(T* handle) {
    const std::lock_guard lock(mutex_);
    handles_.insert(handle);
  }
  bool Remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    return handles_.erase(handle) != 0;
  }
  bool Valid(const void* handle) const {
    const std::lock_guard lock(mutex_);
    return handles_.contains(handle);
  }

  void SetReport(std::string check, std::string report);
  void SetStatistics(std::string statistics);
  std::string report() const;
  std::string check() const;
  std::string statistics() const;

 private:
  Runtime();

  mutable std::mutex mutex_;
  Options options_;
  Buffers buffers_;
  std::vector<InjectedFailure> failures_;
  std::set<const void*> handles_;
  std::string check_, report_, statistics_;
};

// HIP's state of a thread.
struct ThreadState {
  int device = 0;
  HipError last_error = kSuccess;
  std::string text;  // what a function that returns a string points to
};
ThreadState& CurrentThread();

// Runs the body of an entry point: fails it where that was ordered, and records its error.
template <class Body>
hipError_t Enter(const char* function, Body&& body) {
  HipError error = Runtime::Get().TakeFailure(function);
  if (error == kSuccess) error = body();
  if (error != kSuccess && error != kNotReady) CurrentThread().last_error = error;
  return error;
}

bool ValidDevice(int device);

// The null stream, the legacy one and the per-thread one are always there.
inline bool ValidStream(hipStream_t stream) {
  const auto value = reinterpret_cast<uintptr_t>(stream);
  return value <= 2 || Runtime::Get().Valid(stream);
}

}  // namespace hipsim
