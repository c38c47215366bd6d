// The GPUs of a driver, and the modules loaded on them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ffi/runtime/driver.h"
#include "hk/core/device_launch.h"

namespace jax_hipkittens {

// Code objects of the build: device/<family>.<architecture>.co in the package's folder.
std::string code_object_path(const std::string& family, const std::string& architecture);

// Architectures that this build has kernels of `family` for.
std::vector<std::string> architectures_of(const std::string& family);

// A device of a driver. Safe to use from several threads.
class device {
 public:
  device(const driver& of, int ordinal);

  const device_facts& facts() const { return facts_; }
  int ordinal() const { return ordinal_; }
  // "device 0 (gfx950)".
  std::string name() const;

  // Loads the family's code object unless it is loaded. Must not run while a stream is captured.
  // Throws driver_error, saying what was expected, if there is none for this device.
  void load(const std::string& family);

  // Launches a kernel of the family on the stream; returns before it has run.
  void launch(const std::string& family, const hk::device_launch& what, void* stream);

 private:
  struct module {
    std::vector<char> image;  // kept, as a driver may read it later
    void* handle = nullptr;
    std::map<std::string, void*> functions;
  };

  module& loaded(const std::string& family);
  void* function(const std::string& family, const std::string& name);

  const driver& driver_;
  int ordinal_;
  device_facts facts_;
  std::mutex mutex_;
  std::map<std::string, module> modules_;
};

// The driver's device of that number, found at first use. Throws driver_error if there is none.
device& device_of(const driver& from, int ordinal);

}  // namespace jax_hipkittens
