#include <array>
#include <optional>

#include "ffi/call.h"
#include "ffi/handlers.h"

namespace jax_hipkittens {
namespace {

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

ffi::Error gemm(ffi::ThreadPool pool, ffi::AnyBuffer a, ffi::AnyBuffer b, ffi::AnyBuffer bias,
                ffi::Result<ffi::AnyBuffer> c, std::optional<ffi::Result<ffi::AnyBuffer>> z,
                int64_t trans_a, int64_t trans_b, int64_t activation) {
  return guarded("jax_hipkittens_gemm", [&] {
    require_attribute("trans_a", trans_a, 0, 1);
    require_attribute("trans_b", trans_b, 0, 1);
    require_attribute("activation", activation, 0, 3);
    hk::gemm_problem problem{};
    problem.trans_a = trans_a != 0;
    problem.trans_b = trans_b != 0;
    problem.act = static_cast<hk::activation>(activation);
    set_sizes(problem, a, *c);
    set_matrices(problem, a, b);
    set_bias(problem, bias);
    problem.out_type = floating_type("c", *c);
    if (z) require_array("z", **z, c->element_type(), {problem.batch, problem.m, problem.n});
    if (is_empty(*c)) return;
    problem.c = c->untyped_data();
    problem.z = z ? (*z)->untyped_data() : nullptr;
    launch<&hk::host_kernels::gemm>(problem, pool);
  });
}

}  // namespace
}  // namespace jax_hipkittens

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_gemm, jax_hipkittens::gemm,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()          // a
                                  .Arg<xla::ffi::AnyBuffer>()          // b
                                  .Arg<xla::ffi::AnyBuffer>()          // bias
                                  .Ret<xla::ffi::AnyBuffer>()          // c
                                  .OptionalRet<xla::ffi::AnyBuffer>()  // z
                                  .Attr<int64_t>("trans_a")
                                  .Attr<int64_t>("trans_b")
                                  .Attr<int64_t>("activation"));
