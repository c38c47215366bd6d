// The handler that XLA calls on an AMD GPU, called as XLA does, with the simulated device as HIP: a
// stream of its own, the Initialize stage first, no scratch, and a workspace among the results.
//
//   gemm_handler     with device/gemm.<chip>.co in its folder and JAX_HIPKITTENS_HIP_LIBRARY set
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ffi/gpu_call.h"
#include "ffi/handlers.h"
#include "ffi/runtime/isa.h"
#include "hk/core/element.h"
#include "tests/ffi/fuzz/call.h"

namespace jax_hipkittens {

// No host kernel is called here.
host_isa choose_host_isa() { return {"none", nullptr}; }

}  // namespace jax_hipkittens

namespace {

int failures = 0;

void check(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
}

// The simulated device, which the launcher opens by itself as HIP.
struct simulator {
  void* library = dlopen(std::getenv("JAX_HIPKITTENS_HIP_LIBRARY"), RTLD_NOW);

  template <class Function>
  Function* find(const char* name) const {
    void* const found = library ? dlsym(library, name) : nullptr;
    if (!found) std::fprintf(stderr, "no %s in JAX_HIPKITTENS_HIP_LIBRARY\n", name), std::exit(2);
    return reinterpret_cast<Function*>(found);
  }
};

struct arrays {
  std::vector<fuzz::memory> operands, results;
};

fuzz::call make_call(int64_t m, int64_t n, int64_t k, int64_t workspace) {
  constexpr auto bf16 = XLA_FFI_DataType_BF16, f32 = XLA_FFI_DataType_F32;
  fuzz::call c;
  c.operands = {{"a", bf16, {1, m, k}}, {"b", bf16, {1, k, n}}, {"bias", f32, {n}}};
  c.results = {{"c", f32, {1, m, n}}, {"workspace", XLA_FFI_DataType_U8, {workspace}}};
  const int64_t none = 0;
  c.attributes = {{"trans_a", none}, {"trans_b", none}, {"activation", none}};
  return c;
}

arrays make_arrays(const fuzz::call& c, const simulator& sim) {
  auto* const register_memory = sim.find<int(void*, size_t)>("hipsim_register");
  auto* const mark_undefined = sim.find<int(void*, size_t, int)>("hipsim_mark_undefined");
  arrays all;
  for (const fuzz::array& a : c.operands) all.operands.emplace_back(a, true);
  for (const fuzz::array& a : c.results) all.results.emplace_back(a, true);
  fuzz::random r(7);
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    auto* const at = all.operands[i].data();
    for (int64_t j = 0; j < all.operands[i].bytes(); ++j) at[j] = 0;
    const int64_t width = fuzz::bytes_of(c.operands[i].type);
    for (int64_t j = 0; j < all.operands[i].bytes(); j += width) {
      const float x = static_cast<float>(fuzz::pick(r, -8, 8)) / 8;  // exact in bf16
      const hk::bf16 narrow = hk::to_bf16(x);
      std::memcpy(at + j, width == 2 ? static_cast<const void*>(&narrow) : &x, width);
    }
    register_memory(at, all.operands[i].bytes());
  }
  for (const fuzz::memory& result : all.results) {
    register_memory(result.data(), result.bytes());
    mark_undefined(result.data(), result.bytes(), 1);
  }
  return all;
}

float number(const fuzz::memory& from, int64_t i, bool narrow) {
  hk::bf16 b;
  float f;
  std::memcpy(narrow ? static_cast<void*>(&b) : &f, from.data() + i * (narrow ? 2 : 4),
              narrow ? 2 : 4);
  return narrow ? hk::to_float(b) : f;
}

// The largest error of c = a b + bias. All products and sums are exact in f32.
double error_of(const arrays& all, int64_t m, int64_t n, int64_t k) {
  double worst = 0;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double exact = number(all.operands[2], j, false);
      for (int64_t t = 0; t < k; ++t)
        exact +=
            number(all.operands[0], i * k + t, true) * number(all.operands[1], t * n + j, true);
      worst = std::max(worst, std::abs(exact - number(all.results[0], i * n + j, false)));
    }
  return worst;
}

std::string message_of(XLA_FFI_Error* error) {
  const std::unique_ptr<XLA_FFI_Error> held(error);
  return held ? held->message : "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// One product; its error message, empty if all went well.
std::string multiply(const simulator& sim, fuzz::context& now, int64_t m, int64_t n, int64_t k,
                     int64_t workspace) {
  fuzz::call c = make_call(m, n, k, workspace);
  const arrays all = make_arrays(c, sim);
  fuzz::frame f(c, all.operands, all.results);
  std::string said = message_of(f.run(jax_hipkittens_gemm_on_hip, now));
  const int waited = sim.find<int(void*)>("hipStreamSynchronize")(now.stream);
  if (said.empty()) {
    check(waited == 0, "the stream ends well");
    check(error_of(all, m, n, k) == 0, "the product of " + std::to_string(m) + " x " +
                                           std::to_string(n) + " x " + std::to_string(k));
  }
  for (const auto* each : {&all.operands, &all.results})
    for (const fuzz::memory& x : *each) sim.find<int(void*)>("hipsim_unregister")(x.data());
  return said;
}

}  // namespace

int main() {
  const simulator sim;
  fuzz::workers pool;
  fuzz::context now{1, fuzz::scheduling::at_once, &pool};
  sim.find<int(void**)>("hipStreamCreate")(&now.stream);

  fuzz::call c = make_call(4, 4, 4, 16);
  const arrays all = make_arrays(c, sim);
  fuzz::frame f(c, all.operands, all.results);
  const auto initialize = XLA_FFI_ExecutionStage_INITIALIZE;
  check(message_of(f.run(jax_hipkittens_gemm_load, now, initialize)).empty(), "the module loads");

  const int64_t split = jax_hipkittens::gemm_workspace(1, 24, 40, 2048, false, false, true, true);
  check(split > 0, "a long product is split");
  for (const int64_t workspace : {split, int64_t{16}})
    check(multiply(sim, now, 24, 40, 2048, workspace).empty(), "a long product runs");
  check(multiply(sim, now, 70, 9, 100, 16).empty(), "a ragged product runs");

  auto* const fail = sim.find<int(const char*, int, int)>("hipsim_fail");
  fail("hipModuleLaunchKernel", 1, 719);
  check(contains(multiply(sim, now, 8, 8, 8, 16), "hipModuleLaunchKernel failed with hipError"),
        "a failed launch is named");
  now.device = 3;
  check(contains(multiply(sim, now, 8, 8, 8, 16), "expected a device of number 3"),
        "a missing device is named");
  now.device = 0;
  check(multiply(sim, now, 8, 8, 8, 16).empty(), "the next call succeeds");
  std::printf("%d failed checks\n", failures);
  return failures != 0;
}
