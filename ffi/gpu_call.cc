#include "ffi/gpu_call.h"

namespace jax_hipkittens {
namespace {

std::string& architecture() {
  static auto& name = *new std::string;  // Never destroyed: a call may outlive main.
  return name;
}

}  // namespace

hk::cdna::chip chip_of(const device& on, const std::string& family) {
  const std::string& name = on.facts().architecture;
  if (name == "gfx950") return hk::cdna::chip::gfx950;
  if (name == "gfx942") return hk::cdna::chip::gfx942;
  throw driver_error("kernels of " + family + ": expected a device of gfx942 or gfx950, received " +
                     on.name() + "; use another device, or implementation=\"xla\"");
}

void gpu_queue::wait() const {
  check_driver(api, api.synchronize(stream), api.synchronize.name,
               "running on simulated " + on.name());
}

void simulate(const std::string& name) { architecture() = name; }

const std::string& simulated_architecture() { return architecture(); }

simulated_buffers::~simulated_buffers() {
  for (void* address : registered_) api_.unregister_memory(address);
}

void simulated_buffers::add(void* address, std::size_t bytes, bool is_result) {
  if (bytes == 0) return;
  check_driver(api_, api_.register_memory(address, bytes), api_.register_memory.name,
               "giving a buffer to the simulated device");
  registered_.push_back(address);
  if (is_result)
    check_driver(api_, api_.mark_undefined(address, bytes, 1), api_.mark_undefined.name,
                 "giving a result to the simulated device");
}

void simulated_buffers::add_operand(const ffi::AnyBuffer& buffer) {
  add(buffer.untyped_data(), buffer.size_bytes(), false);
}

void simulated_buffers::add_result(ffi::AnyBuffer& buffer) {
  add(buffer.untyped_data(), buffer.size_bytes(), true);
}

ffi::Error load_on_hip(const char* family, int32_t ordinal) noexcept {
  return guarded(std::string("jax_hipkittens_") + family,
                 [&] { device_of(hip(), ordinal).load(family); });
}

}  // namespace jax_hipkittens
