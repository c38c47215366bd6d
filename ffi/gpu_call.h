// What every handler does around its launches on a GPU, or on a simulated one.
//
// A handler decodes and checks its operands as the host's does, plans its launches (a plan names
// kernels and fills in their arguments; see hk/kernels/*/device_plan.h), and hands the plan to
// launch_plan. Nothing is allocated on a device, and nothing waits, except for a simulated device,
// whose results are XLA's CPU buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ffi/call.h"
#include "ffi/runtime/device.h"
#include "hk/arch/cdna/chip.h"

namespace jax_hipkittens {

// Where launches go.
struct gpu_queue {
  const driver& api;
  device& on;
  void* stream;

  // Until a simulated device has done all that was launched; a GPU is never waited for.
  void wait() const;
};

// The chip that plans are made for. Throws driver_error for one that there are no kernels for.
hk::cdna::chip chip_of(const device& on, const std::string& family);

// Runs a plan's launches in order. The workspace is a result of the call: scratch from XLA would be
// free again when the handler returns, though a command buffer may replay the launches later.
template <class Plan>
void launch_plan(const gpu_queue& queue, const std::string& family, Plan& plan,
                 ffi::AnyBuffer& workspace) {
  if (plan.refusal) throw std::invalid_argument(plan.refusal);
  require(plan.workspace_bytes <= workspace.size_bytes(),
          "workspace: expected " + std::to_string(plan.workspace_bytes) + " bytes, received " +
              std::to_string(workspace.size_bytes()));
  if (plan.workspace_bytes) plan.set_workspace(workspace.untyped_data());
  for (int i = 0; i < plan.count; ++i) queue.on.launch(family, plan.launches[i], queue.stream);
}

// Which architecture this process simulates, empty if none. Set once, before any call.
void simulate(const std::string& architecture);
const std::string& simulated_architecture();

// XLA's CPU buffers as memory of the simulated device, for the length of a call. Results count as
// not written, and hold NaN, until a kernel writes them.
class simulated_buffers {
 public:
  explicit simulated_buffers(const driver& api) : api_(api) {}
  ~simulated_buffers();
  simulated_buffers(const simulated_buffers&) = delete;
  simulated_buffers& operator=(const simulated_buffers&) = delete;

  void add_operand(const ffi::AnyBuffer& buffer);
  void add_result(ffi::AnyBuffer& buffer);

 private:
  void add(void* address, std::size_t bytes, bool is_result);

  const driver& api_;
  std::vector<void*> registered_;
};

// Calls body(queue) for the simulated device that stands for XLA's CPU device `ordinal`.
template <class Body>
void on_simulated_device(int32_t ordinal, Body&& body) {
  const driver& api = simulated_hip(simulated_architecture());
  int count = 0;
  check_driver(api, api.count_devices(&count), api.count_devices.name, "looking for devices");
  if (count < 1) throw driver_error("expected a simulated device, but there are none");
  body(gpu_queue{api, device_of(api, ordinal % count), nullptr});
}

// Bytes of workspace, at most, that a product of these sizes is worth on any GPU.
int64_t gemm_workspace(int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,
                       bool broadcast_a, bool broadcast_b);

// Loads a family's kernels ahead of any capture: what the Initialize stage of its handlers does.
ffi::Error load_on_hip(const char* family, int32_t ordinal) noexcept;

}  // namespace jax_hipkittens
