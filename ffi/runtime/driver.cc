#include "ffi/runtime/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace jax_hipkittens {
namespace {

constexpr char kVariable[] = "JAX_HIPKITTENS_HIP_LIBRARY";
constexpr char kSimulator[] = "libhk_hipsim.so";

// Where hipDeviceProp_tR0600 has what is read of it, in bytes. The layout is part of HIP 6's and
// 7's ABI: the name of the function says so.
constexpr std::size_t kPropertiesBytes = 1472, kComputeUnits = 388, kArchitecture = 1160;

int describe_by_hip(const driver& self, int device, device_facts& facts) {
  alignas(8) char properties[2 * kPropertiesBytes] = {};
  if (const int error = self.properties(properties, device)) return error;
  std::memcpy(&facts.compute_units, properties + kComputeUnits, sizeof(int));
  const std::string name(properties + kArchitecture);  // such as gfx950:sramecc+:xnack-
  facts.architecture = name.substr(0, name.find(':'));
  return 0;
}

// A library as dlopen has it. It stays open: its modules live as long as the process.
struct library {
  void* handle;
  std::string path;
};

library open(const std::vector<std::string>& candidates, const std::string& advice) {
  for (const std::string& path : candidates)  // what the process has loaded already
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD)) return {handle, path};
  std::string failures;
  for (const std::string& path : candidates) {
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, path};
    const char* why = dlerror();
    failures += (failures.empty() ? "" : "; ") + std::string(why ? why : path);
  }
  throw driver_error("expected the HIP library, but it cannot be opened (" + failures + "); " +
                     advice);
}

template <class Signature>
void find_optional(const library& from, const char* name, entry<Signature>& into) {
  into = {reinterpret_cast<Signature*>(dlsym(from.handle, name)), name};
}

template <class Signature>
void find(const library& from, const char* name, entry<Signature>& into) {
  find_optional(from, name, into);
  if (!into)
    throw driver_error("expected a HIP 6 or 7 library, but " + from.path + " has no " + name +
                       "; install a newer ROCm, or set " + kVariable + " to another library");
}

driver fill(const library& from) {
  driver table{};
  table.name = "HIP";
  table.library = from.path;
  table.describe = describe_by_hip;
  find(from, "hipGetDeviceCount", table.count_devices);
  find(from, "hipGetDevice", table.get_device);
  find(from, "hipSetDevice", table.set_device);
  find(from, "hipGetDevicePropertiesR0600", table.properties);
  find(from, "hipModuleLoadData", table.load_module);
  find(from, "hipModuleGetFunction", table.get_function);
  find(from, "hipModuleLaunchKernel", table.launch);
  find(from, "hipGetErrorName", table.error_name);
  find(from, "hipGetErrorString", table.error_text);
  return table;
}

void add_simulation(const library& from, driver& table, const std::string& architecture) {
  entry<int(const char*, const char*)> set_option;
  find_optional(from, "hipsim_set_option", set_option);
  if (!set_option)
    throw driver_error("expected a simulated device, but " + from.path +
                       " is another library; unset JAX_HIPKITTENS_SIMULATE or " + kVariable);
  find(from, "hipsim_register", table.register_memory);
  find(from, "hipsim_unregister", table.unregister_memory);
  find(from, "hipsim_mark_undefined", table.mark_undefined);
  find(from, "hipsim_last_report", table.last_report);
  find(from, "hipStreamSynchronize", table.synchronize);
  if (set_option("arch", architecture.c_str()))
    throw driver_error("expected the simulated device to be of " + architecture +
                       ", but it has started as another; start a new process");
}

// A driver that is opened once. A failure is not kept.
class opened_once {
 public:
  template <class Open>
  const driver& get(Open&& open_driver) {
    const std::lock_guard lock(mutex_);
    if (!driver_) driver_ = std::make_unique<const driver>(open_driver());
    return *driver_;
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<const driver> driver_;
};

std::vector<std::string> or_chosen(std::vector<std::string> usual) {
  const char* chosen = std::getenv(kVariable);
  if (chosen && *chosen) return {chosen};
  return usual;
}

}  // namespace

void check_driver(const driver& from, int error, const char* call, const std::string& doing) {
  if (error == 0) return;
  std::string what = doing + ": " + call + " failed with " + from.error_name(error) + " (" +
                     std::to_string(error) + "), \"" + from.error_text(error) + "\"";
  const char* report = from.last_report ? from.last_report() : nullptr;
  if (report && *report) what += "; the simulated device says: " + std::string(report);
  throw driver_error(what);
}

const driver& hip() {
  static opened_once& once = *new opened_once;  // Never destroyed: a call may outlive main.
  return once.get([] {
    return fill(
        open(or_chosen({"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}),
             std::string("install ROCm, or set ") + kVariable + " to the path of libamdhip64.so"));
  });
}

const driver& simulated_hip(const std::string& architecture) {
  static opened_once& once = *new opened_once;
  return once.get([&] {
    const library from = open(or_chosen({package_folder() + "/" + kSimulator}),
                              "build the package with HK_BUILD_HIPSIM=ON for a simulated device");
    driver table = fill(from);
    add_simulation(from, table, architecture);
    return table;
  });
}

std::string package_folder() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&package_folder), &info) || !info.dli_fname) return ".";
  const std::string file(info.dli_fname);
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

}  // namespace jax_hipkittens
