#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ffi/call.h"
#include "ffi/gpu_call.h"
#include "ffi/handlers.h"
#include "hk/kernels/gemm/device_plan.h"

namespace jax_hipkittens {
namespace {

constexpr char kName[] = "jax_hipkittens_gemm";
constexpr char kFamily[] = "gemm";

// The sizes follow from the result and, for the contracted axis, from a.
void set_sizes(hk::gemm_problem& problem, const ffi::AnyBuffer& a, const ffi::AnyBuffer& c) {
  require_rank("a", a, 3, problem.trans_a ? "[Ba,K,M]" : "[Ba,M,K]");
  require_rank("c", c, 3, "[B,M,N]");
  problem.batch = c.dimensions()[0];
  problem.m = c.dimensions()[1];
  problem.n = c.dimensions()[2];
  problem.k = a.dimensions()[problem.trans_a ? 1 : 2];
  require_indexable({problem.batch, problem.m, problem.n});
  require_indexable({problem.batch, problem.m, problem.k});
  require_indexable({problem.batch, problem.k, problem.n});
}

// Checks an operand of [Ba, rows, cols], where Ba is B or 1. Returns whether one matrix serves all.
bool require_matrix(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                    int64_t batch, int64_t rows, int64_t cols) {
  require_rank(name, buffer, 3, "three dimensions");
  const bool single = buffer.dimensions()[0] == 1;
  require_array(name, buffer, type, {single ? 1 : batch, rows, cols});
  return single;
}

void set_matrices(hk::gemm_problem& problem, const ffi::AnyBuffer& a, const ffi::AnyBuffer& b) {
  problem.in_type = floating_type("a", a);
  const auto [m, n, k] = std::array{problem.m, problem.n, problem.k};
  const ffi::DataType type = a.element_type();
  problem.broadcast_a = problem.trans_a ? require_matrix("a", a, type, problem.batch, k, m)
                                        : require_matrix("a", a, type, problem.batch, m, k);
  problem.broadcast_b = problem.trans_b ? require_matrix("b", b, type, problem.batch, n, k)
                                        : require_matrix("b", b, type, problem.batch, k, n);
  problem.a = a.untyped_data();
  problem.b = b.untyped_data();
}

// The bias is one row for each batch entry, [B,N], one for all, [1,N] or [N], or absent.
void set_bias(hk::gemm_problem& problem, const ffi::AnyBuffer& bias) {
  problem.bias_type = floating_type("bias", bias);
  const ffi::DataType type = bias.element_type();
  const auto dims = bias.dimensions();
  if (dims.size() != 2) {
    problem.bias = optional_array("bias", bias, type, {problem.n});
    return;
  }
  const bool single = dims[0] == 1;
  problem.bias = optional_array("bias", bias, type, {single ? 1 : problem.batch, problem.n});
  problem.bias_rows = single ? 0 : problem.m;
}

// What XLA gives a handler for one product.
struct gemm_call {
  ffi::AnyBuffer a;
  ffi::AnyBuffer b;
  ffi::AnyBuffer bias;
  ffi::Result<ffi::AnyBuffer> c;
  std::optional<ffi::Result<ffi::AnyBuffer>> z;
  int64_t trans_a;
  int64_t trans_b;
  int64_t activation;
};

// The checked problem; nothing if the result is empty.
std::optional<hk::gemm_problem> decode(gemm_call& call) {
  require_attribute("trans_a", call.trans_a, 0, 1);
  require_attribute("trans_b", call.trans_b, 0, 1);
  require_attribute("activation", call.activation, 0, 3);
  hk::gemm_problem problem{};
  problem.trans_a = call.trans_a != 0;
  problem.trans_b = call.trans_b != 0;
  problem.act = static_cast<hk::activation>(call.activation);
  set_sizes(problem, call.a, *call.c);
  set_matrices(problem, call.a, call.b);
  set_bias(problem, call.bias);
  problem.out_type = floating_type("c", *call.c);
  if (call.z)
    require_array("z", **call.z, call.c->element_type(), {problem.batch, problem.m, problem.n});
  if (is_empty(*call.c)) return std::nullopt;
  problem.c = call.c->untyped_data();
  problem.z = call.z ? (*call.z)->untyped_data() : nullptr;
  return problem;
}

// The results of a product on a GPU: c, z if it is asked for, and the workspace.
struct gpu_results {
  ffi::Result<ffi::AnyBuffer> c;
  std::optional<ffi::Result<ffi::AnyBuffer>> z;
  ffi::Result<ffi::AnyBuffer> workspace;
};

gpu_results results_of(ffi::Result<ffi::AnyBuffer> c, const ffi::RemainingRets& others) {
  const std::size_t count = others.size();
  require(count == 1 || count == 2,
          "expected 2 or 3 results, received " + std::to_string(1 + count));
  const auto other = [&](std::size_t i) { return *others.get<ffi::AnyBuffer>(i); };
  std::optional<ffi::Result<ffi::AnyBuffer>> z;
  if (count == 2) z = other(0);
  return {c, z, other(count - 1)};
}

void launch_on_gpu(const hk::gemm_problem& problem, const gpu_queue& queue,
                   ffi::AnyBuffer& workspace) {
  launches<&hk::host_kernels::gemm>.fetch_add(1, std::memory_order_relaxed);
  const hk::gemm_device chip{chip_of(queue.on, kFamily), queue.on.facts().compute_units,
                             static_cast<int64_t>(workspace.size_bytes())};
  hk::gemm_plan plan = hk::plan_gemm(problem, chip);
  launch_plan(queue, kFamily, plan, workspace);
}

ffi::Error gemm(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::AnyBuffer bias,
                ffi::Result<ffi::AnyBuffer> c, std::optional<ffi::Result<ffi::AnyBuffer>> z,
                int64_t trans_a, int64_t trans_b, int64_t activation) {
  return guarded(kName, [&] {
    gemm_call call{a, b, bias, c, z, trans_a, trans_b, activation};
    if (const auto problem = decode(call)) launch<&hk::host_kernels::gemm>(*problem, pool);
  });
}

ffi::Error gemm_on_hip(void* stream, int32_t ordinal, ffi::AnyBuffer a, ffi::AnyBuffer b,
                       ffi::AnyBuffer bias, ffi::Result<ffi::AnyBuffer> c,
                       ffi::RemainingRets others, int64_t trans_a, int64_t trans_b,
                       int64_t activation) {
  return guarded(kName, [&] {
    gpu_results results = results_of(c, others);
    gemm_call call{a, b, bias, c, results.z, trans_a, trans_b, activation};
    const auto problem = decode(call);
    if (!problem) return;
    const gpu_queue queue{hip(), device_of(hip(), ordinal), stream};
    launch_on_gpu(*problem, queue, *results.workspace);
  });
}

ffi::Error gemm_simulated(int32_t ordinal, ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::AnyBuffer bias,
                          ffi::Result<ffi::AnyBuffer> c, ffi::RemainingRets others, int64_t trans_a,
                          int64_t trans_b, int64_t activation) {
  return guarded(kName, [&] {
    gpu_results results = results_of(c, others);
    gemm_call call{a, b, bias, c, results.z, trans_a, trans_b, activation};
    const auto problem = decode(call);
    if (!problem) return;
    on_simulated_device(ordinal, [&](const gpu_queue& queue) {
      simulated_buffers buffers(queue.api);
      for (const auto& operand : {a, b, bias}) buffers.add_operand(operand);
      buffers.add_result(*c);
      if (results.z) buffers.add_result(**results.z);
      buffers.add_result(*results.workspace);
      launch_on_gpu(*problem, queue, *results.workspace);
      queue.wait();
    });
  });
}

ffi::Error load_gemm(int32_t ordinal, ffi::RemainingArgs, ffi::RemainingRets, ffi::Dictionary) {
  return load_on_hip(kFamily, ordinal);
}

// The operands and the result that all handlers have, and the attributes.
template <class Binding>
auto with_operands(Binding&& binding) {
  return std::move(binding)
      .template Arg<ffi::AnyBuffer>()   // a
      .template Arg<ffi::AnyBuffer>()   // b
      .template Arg<ffi::AnyBuffer>()   // bias
      .template Ret<ffi::AnyBuffer>();  // c
}
template <class Binding>
auto with_attributes(Binding&& binding) {
  return std::move(binding)
      .template Attr<int64_t>("trans_a")
      .template Attr<int64_t>("trans_b")
      .template Attr<int64_t>("activation");
}
template <class Binding>
auto bind_host(Binding&& binding) {
  return with_attributes(
      with_operands(std::move(binding)).template OptionalRet<ffi::AnyBuffer>());  // z
}
template <class Binding>
auto bind_gpu(Binding&& binding) {
  return with_attributes(with_operands(std::move(binding)).RemainingRets());  // z?, workspace
}

}  // namespace

int64_t gemm_workspace(int64_t batch, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b,
                       bool broadcast_a, bool broadcast_b) {
  hk::gemm_problem problem{};
  problem.in_type = problem.out_type = hk::dtype::bf16;
  problem.batch = batch;
  problem.m = m;
  problem.n = n;
  problem.k = k;
  problem.trans_a = trans_a;
  problem.trans_b = trans_b;
  problem.broadcast_a = broadcast_a;
  problem.broadcast_b = broadcast_b;
  using hk::cdna::chip;
  constexpr int units_942 = hk::cdna::traits<chip::gfx942>::compute_units;
  constexpr int units_950 = hk::cdna::traits<chip::gfx950>::compute_units;
  return static_cast<int64_t>(
      std::max(hk::plan_gemm(problem, {chip::gfx942, units_942}).workspace_bytes,
               hk::plan_gemm(problem, {chip::gfx950, units_950}).workspace_bytes));
}

}  // namespace jax_hipkittens

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    jax_hipkittens_gemm, jax_hipkittens::gemm,
    jax_hipkittens::bind_host(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()));

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_gemm_on_hip, jax_hipkittens::gemm_on_hip,
                              jax_hipkittens::bind_gpu(xla::ffi::Ffi::Bind()
                                                           .Ctx<xla::ffi::PlatformStream<void*>>()
                                                           .Ctx<xla::ffi::DeviceOrdinal>()),
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_gemm_load, jax_hipkittens::load_gemm,
                              xla::ffi::Ffi::Bind<xla::ffi::ExecutionStage::kInitialize>()
                                  .Ctx<xla::ffi::DeviceOrdinal>()
                                  .RemainingArgs()
                                  .RemainingRets()
                                  .Attrs());

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    jax_hipkittens_gemm_simulated, jax_hipkittens::gemm_simulated,
    jax_hipkittens::bind_gpu(xla::ffi::Ffi::Bind().Ctx<xla::ffi::DeviceOrdinal>()));
