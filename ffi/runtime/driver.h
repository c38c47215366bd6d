// What the launcher needs of a GPU's driver: a table of functions, filled from a library that is
// opened at first use, never linked. Nothing in it is HIP's own: every entry has a counterpart of
// the same form in other drivers.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace jax_hipkittens {

// A device as its driver describes it.
struct device_facts {
  std::string architecture;  // "gfx950"
  int compute_units = 0;
};

// One of a driver's functions, and its name for messages; null where a driver has none.
template <class Signature>
struct entry;
template <class Result, class... Arguments>
struct entry<Result(Arguments...)> {
  Result (*function)(Arguments...) = nullptr;
  const char* name = "";

  Result operator()(Arguments... arguments) const { return function(arguments...); }
  explicit operator bool() const { return function != nullptr; }
};

// Functions that return int return 0, or an error that error_name and error_text explain. Streams,
// modules and functions are the driver's own handles.
struct driver {
  std::string name;     // as messages call it: "HIP"
  std::string library;  // the file it was opened from

  entry<int(int* count)> count_devices;
  entry<int(int* device)> get_device;
  entry<int(int device)> set_device;
  entry<int(void* properties, int device)> properties;  // the driver's own, for describe
  int (*describe)(const driver& self, int device, device_facts& facts);
  entry<int(void** module, const void* image)> load_module;
  entry<int(void** function, void* module, const char* name)> get_function;
  entry<int(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
            unsigned block_y, unsigned block_z, unsigned local_bytes, void* stream,
            void** parameters, void** extra)>
      launch;
  entry<const char*(int error)> error_name;
  entry<const char*(int error)> error_text;

  // A simulated device's, null otherwise: memory that kernels may use, results that they have to
  // write, what went wrong in the last launch, and the wait for a launch.
  entry<int(void* address, std::size_t bytes)> register_memory;
  entry<int(void* address)> unregister_memory;
  entry<int(void* address, std::size_t bytes, int poison)> mark_undefined;
  entry<const char*()> last_report;
  entry<int(void* stream)> synchronize;
};

// A driver that is missing, or a call to it that failed; what() is a sentence.
class driver_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws driver_error unless `error` is 0; `call` names the function, `doing` says what it was for.
void check_driver(const driver& from, int error, const char* call, const std::string& doing);

// HIP 7 or 6, from the libamdhip64 that the process has loaded, else from .so.7, .so.6 or .so, or
// from the file that JAX_HIPKITTENS_HIP_LIBRARY names.
// Throws driver_error, saying why, if there is none; the next call tries again.
const driver& hip();

// The same table from the simulated device beside the extension module (or from the variable's
// file), told to be an `architecture`. One process simulates one architecture.
const driver& simulated_hip(const std::string& architecture);

// The folder that holds the extension module, and the package's data with it.
std::string package_folder();

}  // namespace jax_hipkittens
