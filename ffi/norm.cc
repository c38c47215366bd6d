#include <cmath>
#include <utility>

#include "ffi/call.h"
#include "ffi/handlers.h"
#include "ffi/runtime/pages.h"

namespace jax_hipkittens {
namespace {

// Checks what both directions take; `rows` is x in the forward and h in the backward.
hk::norm_problem make_problem(std::string_view name, const ffi::AnyBuffer& rows,
                              const ffi::AnyBuffer& weight, const ffi::AnyBuffer& seed,
                              int64_t kind, float dropout_rate) {
  require_attribute("kind", kind, 0, 1);
  require(dropout_rate >= 0.0f && dropout_rate <= 1.0f,
          "dropout_rate: expected 0 to 1, received " + std::to_string(dropout_rate));
  hk::norm_problem problem{};
  problem.type = floating_type(name, rows);
  problem.kind = static_cast<hk::norm_kind>(kind);
  problem.dropout_rate = dropout_rate;
  require_rank(name, rows, 2, "[R,H]");
  problem.rows = rows.dimensions()[0];
  problem.cols = rows.dimensions()[1];
  require_indexable({problem.rows, problem.cols});
  require_array("seed", seed, ffi::DataType::U32, {2});
  problem.seed = seed.typed_data<uint32_t>();
  problem.weight = static_cast<const float*>(
      optional_array("weight", weight, ffi::DataType::F32, {problem.cols}));
  return problem;
}

// The mean is there for layer norm alone.
float* mean_array(const ffi::AnyBuffer& mean, const hk::norm_problem& problem) {
  const int64_t size = problem.kind == hk::norm_kind::layer ? problem.rows : 0;
  require_array("mean", mean, ffi::DataType::F32, {size});
  return size == 0 ? nullptr : mean.typed_data<float>();
}

ffi::Error norm_forward(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer residual,
                        ffi::AnyBuffer weight, ffi::AnyBuffer bias, ffi::AnyBuffer seed,
                        ffi::Result<ffi::AnyBuffer> y, ffi::Result<ffi::AnyBuffer> h,
                        ffi::Result<ffi::AnyBuffer> mean, ffi::Result<ffi::AnyBuffer> rstd,
                        int64_t kind, float epsilon, float dropout_rate) {
  return guarded("jax_hipkittens_norm_forward", [&] {
    hk::norm_problem problem = make_problem("x", x, weight, seed, kind, dropout_rate);
    require(std::isfinite(epsilon) && epsilon >= 0.0f,
            "epsilon: expected a finite number of at least 0, received " + std::to_string(epsilon));
    problem.epsilon = epsilon;
    const auto [rows, cols] = std::pair{problem.rows, problem.cols};
    const ffi::DataType type = x.element_type();
    problem.x = x.untyped_data();
    problem.residual = optional_array("residual", residual, type, {rows, cols});
    problem.bias =
        static_cast<const float*>(optional_array("bias", bias, ffi::DataType::F32, {cols}));
    require_array("y", *y, type, {rows, cols});
    problem.y = y->untyped_data();
    problem.h = optional_array("h", *h, type, {rows, cols});
    problem.mean = mean_array(*mean, problem);
    require_array("rstd", *rstd, ffi::DataType::F32, {rows});
    problem.rstd = rstd->typed_data<float>();
    if (is_empty(*y)) {  // A row without elements has no statistics; nobody can use them either.
      fill_zero(*mean);
      fill_zero(*rstd);
      return;
    }
    const bool h_differs = problem.residual != nullptr || dropout_rate > 0.0f;
    require(h_differs == (problem.h != nullptr),
            h_differs ? "h: expected an array, as residual or dropout make it differ from x"
                      : "h: expected none, as it equals x without residual and dropout");
    for (ffi::AnyBuffer* result : {&*y, &*h})
      prefer_large_pages(result->untyped_data(), result->size_bytes());
    launch(&hk::host_kernels::norm_forward, problem, pool);
  });
}

ffi::Error norm_backward(ffi::ThreadPool pool, ffi::AnyBuffer h, ffi::AnyBuffer weight,
                         ffi::AnyBuffer mean, ffi::AnyBuffer rstd, ffi::AnyBuffer dy,
                         ffi::AnyBuffer dh, ffi::AnyBuffer seed, ffi::Result<ffi::AnyBuffer> dx,
                         ffi::Result<ffi::AnyBuffer> dresidual, ffi::Result<ffi::AnyBuffer> dweight,
                         ffi::Result<ffi::AnyBuffer> dbias, int64_t kind, float dropout_rate) {
  return guarded("jax_hipkittens_norm_backward", [&] {
    hk::norm_problem problem = make_problem("h", h, weight, seed, kind, dropout_rate);
    const auto [rows, cols] = std::pair{problem.rows, problem.cols};
    const ffi::DataType type = h.element_type();
    problem.h = h.untyped_data();
    problem.mean = mean_array(mean, problem);
    require_array("rstd", rstd, ffi::DataType::F32, {rows});
    problem.rstd = rstd.typed_data<float>();
    require_array("dy", dy, type, {rows, cols});
    problem.dy = dy.untyped_data();
    problem.dh = optional_array("dh", dh, type, {rows, cols});
    require_array("dx", *dx, type, {rows, cols});
    problem.dx = dx->untyped_data();
    problem.dresidual = optional_array("dresidual", *dresidual, type, {rows, cols});
    problem.dweight =
        static_cast<float*>(optional_array("dweight", *dweight, ffi::DataType::F32, {cols}));
    problem.dbias =
        static_cast<float*>(optional_array("dbias", *dbias, ffi::DataType::F32, {cols}));
    if (is_empty(*dx)) {  // A sum over no rows.
      fill_zero(*dweight);
      fill_zero(*dbias);
      return;
    }
    for (ffi::AnyBuffer* result : {&*dx, &*dresidual})
      prefer_large_pages(result->untyped_data(), result->size_bytes());
    launch(&hk::host_kernels::norm_backward, problem, pool);
  });
}

}  // namespace
}  // namespace jax_hipkittens

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_norm_forward, jax_hipkittens::norm_forward,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Arg<xla::ffi::AnyBuffer>()  // residual
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Arg<xla::ffi::AnyBuffer>()  // bias
                                  .Arg<xla::ffi::AnyBuffer>()  // seed
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // h
                                  .Ret<xla::ffi::AnyBuffer>()  // mean
                                  .Ret<xla::ffi::AnyBuffer>()  // rstd
                                  .Attr<int64_t>("kind")
                                  .Attr<float>("epsilon")
                                  .Attr<float>("dropout_rate"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_norm_backward, jax_hipkittens::norm_backward,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // h
                                  .Arg<xla::ffi::AnyBuffer>()  // weight
                                  .Arg<xla::ffi::AnyBuffer>()  // mean
                                  .Arg<xla::ffi::AnyBuffer>()  // rstd
                                  .Arg<xla::ffi::AnyBuffer>()  // dy
                                  .Arg<xla::ffi::AnyBuffer>()  // dh
                                  .Arg<xla::ffi::AnyBuffer>()  // seed
                                  .Ret<xla::ffi::AnyBuffer>()  // dx
                                  .Ret<xla::ffi::AnyBuffer>()  // dresidual
                                  .Ret<xla::ffi::AnyBuffer>()  // dweight
                                  .Ret<xla::ffi::AnyBuffer>()  // dbias
                                  .Attr<int64_t>("kind")
                                  .Attr<float>("dropout_rate"));
