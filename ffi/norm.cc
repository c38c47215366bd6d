// Both handlers take R rows of H elements as G = `groups` groups of R / G rows each (what that
// means: hk/kernels/norm/problem.h). T is bf16, f16 or f32; absent operands and results have sizes
// of 0.
//
//   x, residual, y, h, dy, dh, dx, dresidual   T[R,H]; absent may be residual, dh and dresidual,
//   and
//                                              h of the forward has to be where h equals x
//   mean, rstd                                 f32[R]; mean is f32[0] for rms norm
//   weight, bias, dweight, dbias               f32[G,H], or f32[1,H]: one for all groups; or absent
//   seed                                       u32[G,2] or u32[1,2]
//   origin                                     u32[G,2] or u32[1,2]: low and high word of an index
#include <cmath>
#include <utility>

#include "ffi/call.h"
#include "ffi/handlers.h"
#include "ffi/runtime/pages.h"

namespace jax_hipkittens {
namespace {

// How many parts an array [groups or 1, ...] has.
int64_t parts_of(const ffi::AnyBuffer& buffer, int64_t groups) {
  const auto dims = buffer.dimensions();
  return dims.size() > 0 && dims[0] == 1 ? 1 : groups;
}

// An f32 array [groups or 1, H], or an absent one.
template <class T>
hk::per_group<T> row_of_groups(std::string_view name, const ffi::AnyBuffer& buffer,
                               const hk::norm_problem& problem) {
  const int64_t parts = parts_of(buffer, problem.groups);
  void* const data = optional_array(name, buffer, ffi::DataType::F32, {parts, problem.cols});
  return {static_cast<T*>(data), parts == 1 ? 0 : problem.cols};
}

// An array u32[groups or 1, 2].
hk::per_group<const uint32_t> words_of_groups(std::string_view name, const ffi::AnyBuffer& buffer,
                                              const hk::norm_problem& problem) {
  const int64_t parts = parts_of(buffer, problem.groups);
  require_array(name, buffer, ffi::DataType::U32, {parts, 2});
  return {buffer.typed_data<uint32_t>(), parts == 1 ? 0 : 2};
}

void set_sizes(hk::norm_problem& problem, std::string_view name, const ffi::AnyBuffer& rows,
               int64_t groups) {
  require_rank(name, rows, 2, "[R,H]");
  problem.rows = rows.dimensions()[0];
  problem.cols = rows.dimensions()[1];
  problem.groups = groups;
  require_indexable({problem.rows, problem.cols});
  require(groups >= 1 && problem.rows % groups == 0,
          "groups: expected a divisor of the " + std::to_string(problem.rows) + " rows, received " +
              std::to_string(groups));
  require_indexable({groups, problem.cols});
  problem.group_rows = problem.rows / groups;
}

// What both directions take; `rows` is x in the forward and h in the backward.
struct norm_operands {
  std::string_view name;
  ffi::AnyBuffer rows, weight, seed, origin;
};

struct norm_attributes {
  int64_t kind, groups;
  float dropout_rate;
};

hk::norm_problem make_problem(const norm_operands& in, const norm_attributes& attributes) {
  require_attribute("kind", attributes.kind, 0, 1);
  const float rate = attributes.dropout_rate;
  require(rate >= 0.0f && rate <= 1.0f,
          "dropout_rate: expected 0 to 1, received " + std::to_string(rate));
  hk::norm_problem problem{};
  problem.type = floating_type(in.name, in.rows);
  problem.kind = static_cast<hk::norm_kind>(attributes.kind);
  problem.dropout_rate = rate;
  set_sizes(problem, in.name, in.rows, attributes.groups);
  problem.seed = words_of_groups("seed", in.seed, problem);
  problem.origin = words_of_groups("origin", in.origin, problem);
  problem.weight = row_of_groups<const float>("weight", in.weight, problem);
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
                        ffi::AnyBuffer origin, ffi::Result<ffi::AnyBuffer> y,
                        ffi::Result<ffi::AnyBuffer> h, ffi::Result<ffi::AnyBuffer> mean,
                        ffi::Result<ffi::AnyBuffer> rstd, int64_t kind, int64_t groups,
                        float epsilon, float dropout_rate) {
  return guarded("jax_hipkittens_norm_forward", [&] {
    hk::norm_problem problem =
        make_problem({"x", x, weight, seed, origin}, {kind, groups, dropout_rate});
    require(std::isfinite(epsilon) && epsilon >= 0.0f,
            "epsilon: expected a finite number of at least 0, received " + std::to_string(epsilon));
    problem.epsilon = epsilon;
    const auto [rows, cols] = std::pair{problem.rows, problem.cols};
    const ffi::DataType type = x.element_type();
    problem.x = x.untyped_data();
    problem.residual = optional_array("residual", residual, type, {rows, cols});
    problem.bias = row_of_groups<const float>("bias", bias, problem);
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
    launch<&hk::host_kernels::norm_forward>(problem, pool);
  });
}

ffi::Error norm_backward(ffi::ThreadPool pool, ffi::AnyBuffer h, ffi::AnyBuffer weight,
                         ffi::AnyBuffer mean, ffi::AnyBuffer rstd, ffi::AnyBuffer dy,
                         ffi::AnyBuffer dh, ffi::AnyBuffer seed, ffi::AnyBuffer origin,
                         ffi::Result<ffi::AnyBuffer> dx, ffi::Result<ffi::AnyBuffer> dresidual,
                         ffi::Result<ffi::AnyBuffer> dweight, ffi::Result<ffi::AnyBuffer> dbias,
                         int64_t kind, int64_t groups, float dropout_rate) {
  return guarded("jax_hipkittens_norm_backward", [&] {
    hk::norm_problem problem =
        make_problem({"h", h, weight, seed, origin}, {kind, groups, dropout_rate});
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
    problem.dweight = row_of_groups<float>("dweight", *dweight, problem);
    problem.dbias = row_of_groups<float>("dbias", *dbias, problem);
    if (is_empty(*dx)) {  // A sum over no rows.
      fill_zero(*dweight);
      fill_zero(*dbias);
      return;
    }
    for (ffi::AnyBuffer* result : {&*dx, &*dresidual})
      prefer_large_pages(result->untyped_data(), result->size_bytes());
    launch<&hk::host_kernels::norm_backward>(problem, pool);
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
                                  .Arg<xla::ffi::AnyBuffer>()  // origin
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Ret<xla::ffi::AnyBuffer>()  // h
                                  .Ret<xla::ffi::AnyBuffer>()  // mean
                                  .Ret<xla::ffi::AnyBuffer>()  // rstd
                                  .Attr<int64_t>("kind")
                                  .Attr<int64_t>("groups")
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
                                  .Arg<xla::ffi::AnyBuffer>()  // origin
                                  .Ret<xla::ffi::AnyBuffer>()  // dx
                                  .Ret<xla::ffi::AnyBuffer>()  // dresidual
                                  .Ret<xla::ffi::AnyBuffer>()  // dweight
                                  .Ret<xla::ffi::AnyBuffer>()  // dbias
                                  .Attr<int64_t>("kind")
                                  .Attr<int64_t>("groups")
                                  .Attr<float>("dropout_rate"));
