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

// Functions that return int return 0, or an error that error_name and error_text explain. Streams,
// modules and functions are the driver's own handles.
struct driver {
  std::string name;     // as messages call it: "HIP"
  std::string library;  // the file it was opened from

  int (*count_devices)(int* count);
  int (*get_device)(int* device);
  int (*set_device)(int device);
  int (*describe)(const driver& self, int device, device_facts& facts);
  int (*load_module)(void** module, const void* image);
  int (*get_function)(void** function, void* module, const char* name);
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned local_bytes, void* stream,
                void** parameters, void** extra);
  const char* (*error_name)(int error);
  const char* (*error_text)(int error);

  // The driver's own, for describe.
  int (*properties)(void* properties, int device);

  // A simulated device's, null otherwise: memory that kernels may use, results that they have to
  // write, what went wrong in the last launch, and the wait for a launch.
  int (*register_memory)(void* address, std::size_t bytes);
  int (*unregister_memory)(void* address);
  int (*mark_undefined)(void* address, std::size_t bytes, int poison);
  const char* (*last_report)();
  int (*synchronize)(void* stream);
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
