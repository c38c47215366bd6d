#include "ffi/runtime/device.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

namespace jax_hipkittens {
namespace {

constexpr char kSuffix[] = ".co";

// Makes a device the thread's current one, and restores what was before.
class current_device {
 public:
  current_device(const driver& of, int ordinal) : driver_(of) {
    check_driver(driver_, driver_.get_device(&previous_), driver_.get_device.name,
                 "asking for the device");
    if (previous_ == ordinal) return;
    check_driver(driver_, driver_.set_device(ordinal), driver_.set_device.name,
                 "choosing device " + std::to_string(ordinal));
    changed_ = true;
  }
  ~current_device() {
    if (changed_) driver_.set_device(previous_);
  }
  current_device(const current_device&) = delete;
  current_device& operator=(const current_device&) = delete;

 private:
  const driver& driver_;
  int previous_ = 0;
  bool changed_ = false;
};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

std::vector<char> read_image(const std::string& family, const device_facts& facts) {
  std::ifstream file(code_object_path(family, facts.architecture), std::ios::binary);
  if (!file)
    throw driver_error("expected a device of " + listed(architectures_of(family)) +
                       ", for which this build has kernels of " + family + ", but received " +
                       facts.architecture + "; use another device, or implementation=\"xla\"");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

device_facts describe(const driver& from, int ordinal) {
  int count = 0;
  const int error = from.count_devices(&count);
  check_driver(from, error, from.count_devices.name, "looking for devices");
  if (ordinal < 0 || ordinal >= count)
    throw driver_error("expected a device of number " + std::to_string(ordinal) + ", but " +
                       from.name + " has " + std::to_string(count) + " devices");
  device_facts facts;
  check_driver(from, from.describe(from, ordinal, facts), from.properties.name,
               "describing device " + std::to_string(ordinal));
  return facts;
}

}  // namespace

std::string code_object_path(const std::string& family, const std::string& architecture) {
  return package_folder() + "/device/" + family + "." + architecture + kSuffix;
}

std::vector<std::string> architectures_of(const std::string& family) {
  std::vector<std::string> found;
  std::error_code ignored;
  const std::string prefix = family + ".";
  for (const auto& entry :
       std::filesystem::directory_iterator(package_folder() + "/device", ignored)) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() == kSuffix && stem.starts_with(prefix))
      found.push_back(stem.substr(prefix.size()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

device::device(const driver& of, int ordinal)
    : driver_(of), ordinal_(ordinal), facts_(describe(of, ordinal)) {}

std::string device::name() const {
  return "device " + std::to_string(ordinal_) + " (" + facts_.architecture + ")";
}

void device::load(const std::string& family) {
  const std::lock_guard lock(mutex_);
  loaded(family);
}

device::module& device::loaded(const std::string& family) {
  module& found = modules_[family];
  if (found.handle) return found;
  found.image = read_image(family, facts_);
  const current_device guard(driver_, ordinal_);
  check_driver(driver_, driver_.load_module(&found.handle, found.image.data()),
               driver_.load_module.name,
               "loading " + code_object_path(family, facts_.architecture) + " on " + name());
  return found;
}

void* device::function(const std::string& family, const std::string& name) {
  const std::lock_guard lock(mutex_);
  module& from = loaded(family);
  void*& found = from.functions[name];
  if (!found) {
    const current_device guard(driver_, ordinal_);
    void* handle = nullptr;
    check_driver(driver_, driver_.get_function(&handle, from.handle, name.c_str()),
                 driver_.get_function.name,
                 "looking for the kernel " + name + " on " + this->name());
    found = handle;
  }
  return found;
}

void device::launch(const std::string& family, const hk::device_launch& what, void* stream) {
  void* const kernel = function(family, what.kernel);
  void* parameters[] = {const_cast<uint8_t*>(what.arguments)};
  const current_device guard(driver_, ordinal_);
  const int error = driver_.launch(kernel, what.grid[0], what.grid[1], what.grid[2], what.threads,
                                   1, 1, 0, stream, parameters, nullptr);
  check_driver(driver_, error, driver_.launch.name,
               std::string("launching ") + what.kernel + " on " + name());
}

device& device_of(const driver& from, int ordinal) {
  using key = std::pair<const driver*, int>;
  static std::mutex& mutex = *new std::mutex;  // Never destroyed: a call may outlive main.
  static auto& devices = *new std::map<key, std::unique_ptr<device>>;
  const std::lock_guard lock(mutex);
  auto& found = devices[{&from, ordinal}];
  if (!found) found = std::make_unique<device>(from, ordinal);
  return *found;
}

}  // namespace jax_hipkittens
