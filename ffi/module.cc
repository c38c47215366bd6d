// The extension module jax_hipkittens._hk: the handlers as capsules, and what they were built for.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ffi/call.h"
#include "ffi/gpu_call.h"
#include "ffi/handlers.h"
#include "ffi/runtime/isa.h"

namespace nb = nanobind;

namespace jax_hipkittens {
namespace {

nb::capsule capsule(XLA_FFI_Handler* handler) {
  return nb::capsule(reinterpret_cast<void*>(handler));
}

nb::dict handlers() {
  nb::dict table;
  table["jax_hipkittens_attention_forward"] = capsule(jax_hipkittens_attention_forward);
  table["jax_hipkittens_attention_backward"] = capsule(jax_hipkittens_attention_backward);
  table["jax_hipkittens_gemm"] = capsule(jax_hipkittens_gemm);
  table["jax_hipkittens_norm_forward"] = capsule(jax_hipkittens_norm_forward);
  table["jax_hipkittens_norm_backward"] = capsule(jax_hipkittens_norm_backward);
  table["jax_hipkittens_rotary"] = capsule(jax_hipkittens_rotary);
  return table;
}

nb::dict hip_handlers() {
  nb::dict gemm;
  gemm["initialize"] = capsule(jax_hipkittens_gemm_load);
  gemm["execute"] = capsule(jax_hipkittens_gemm_on_hip);
  nb::dict table;
  table["jax_hipkittens_gemm"] = gemm;
  return table;
}

nb::dict simulated_handlers(const std::string& architecture) {
  simulate(architecture);
  nb::dict table;
  table["jax_hipkittens_gemm"] = capsule(jax_hipkittens_gemm_simulated);
  return table;
}

// Why HIP cannot be used, empty if it can.
std::string hip_problem() {
  try {
    hip();
    return "";
  } catch (const driver_error& error) {
    return error.what();
  }
}

template <auto entry>
int64_t launched() {
  return launches<entry>.load(std::memory_order_relaxed);
}

nb::dict launch_counts() {
  using table = hk::host_kernels;
  nb::dict counts;
  counts["jax_hipkittens_attention_forward"] = launched<&table::attention_forward>();
  counts["jax_hipkittens_attention_backward"] = launched<&table::attention_backward>();
  counts["jax_hipkittens_gemm"] = launched<&table::gemm>();
  counts["jax_hipkittens_norm_forward"] = launched<&table::norm_forward>();
  counts["jax_hipkittens_norm_backward"] = launched<&table::norm_backward>();
  counts["jax_hipkittens_rotary"] = launched<&table::rotary>();
  return counts;
}

std::vector<std::string> host_isas() {
  std::vector<std::string> names;
  for (const host_isa& isa : supported_host_isas()) names.emplace_back(isa.name);
  return names;
}

}  // namespace
}  // namespace jax_hipkittens

NB_MODULE(_hk, module) {
  module.doc() =
      "The compiled part of jax_hipkittens: XLA FFI handlers, and what they were built for.";
  module.def("handlers", jax_hipkittens::handlers, nb::sig("def handlers() -> dict[str, object]"),
             "Capsules for jax.ffi.register_ffi_target, by target name.");
  module.def("hip_handlers", jax_hipkittens::hip_handlers,
             nb::sig("def hip_handlers() -> dict[str, dict[str, object]]"),
             "Bundles for the platform ROCM, by target name.");
  module.def("simulated_handlers", jax_hipkittens::simulated_handlers, nb::arg("architecture"),
             nb::sig("def simulated_handlers(architecture: str) -> dict[str, object]"),
             "Capsules that run an architecture's kernels on the simulated device.");
  module.def("architectures", jax_hipkittens::architectures_of, nb::arg("family"),
             "GPU architectures that this build has kernels of a family for.");
  module.def("gemm_workspace", jax_hipkittens::gemm_workspace, nb::arg("batch"), nb::arg("m"),
             nb::arg("n"), nb::arg("k"), nb::arg("trans_a"), nb::arg("trans_b"),
             nb::arg("broadcast_a"), nb::arg("broadcast_b"),
             "Bytes of the workspace that a product on a GPU has as its last result.");
  module.def("hip_problem", jax_hipkittens::hip_problem,
             "Why the HIP library cannot be used; empty if it can.");
  module.def("package_folder", jax_hipkittens::package_folder,
             "Where the extension module and the package's data lie.");
  module.def(
      "ffi_api_version", [] { return std::pair<int, int>(XLA_FFI_API_MAJOR, XLA_FFI_API_MINOR); },
      "(major, minor) of the XLA FFI headers that the handlers are built with.");
  module.def("host_isas", jax_hipkittens::host_isas,
             "Instruction sets that this build and this CPU have, best first.");
  module.def("launches", jax_hipkittens::launch_counts, nb::sig("def launches() -> dict[str, int]"),
             "How often this process has launched each target's kernel, by target name.");
  // std::invalid_argument becomes ValueError.
  module.def(
      "host_isa", [] { return std::string(jax_hipkittens::choose_host_isa().name); },
      "The instruction set in use; ValueError if the environment names one not here.");
}
