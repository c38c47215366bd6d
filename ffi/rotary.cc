#include "ffi/call.h"
#include "ffi/handlers.h"
#include "ffi/runtime/pages.h"

namespace jax_hipkittens {
namespace {

void set_sizes(hk::rotary_problem& problem, const ffi::AnyBuffer& x, const ffi::AnyBuffer& cos) {
  problem.type = floating_type("x", x);
  require_rank("x", x, 4, "[B,T,N,D]");
  require_rank("cos", cos, 3, "[B or 1,P,R/2]");
  problem.batch = x.dimensions()[0];
  problem.length = x.dimensions()[1];
  problem.heads = x.dimensions()[2];
  problem.head_dim = x.dimensions()[3];
  problem.positions = cos.dimensions()[1];
  require_indexable({problem.batch, problem.length, problem.heads, problem.head_dim});
  require_indexable({problem.batch, problem.positions, cos.dimensions()[2], 2});
  problem.rotary_dim = 2 * cos.dimensions()[2];
  require_attribute("rotary dimension", problem.rotary_dim, 0, problem.head_dim);
}

void set_tables(hk::rotary_problem& problem, const ffi::AnyBuffer& cos, const ffi::AnyBuffer& sin) {
  problem.broadcast_tables = cos.dimensions()[0] == 1;
  const int64_t batch = problem.broadcast_tables ? 1 : problem.batch;
  const int64_t pairs = problem.rotary_dim / 2;
  require_array("cos", cos, ffi::DataType::F32, {batch, problem.positions, pairs});
  require_array("sin", sin, ffi::DataType::F32, {batch, problem.positions, pairs});
  problem.cos = cos.typed_data<float>();
  problem.sin = sin.typed_data<float>();
}

ffi::Error rotary(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::AnyBuffer cos, ffi::AnyBuffer sin,
                  ffi::AnyBuffer offsets, ffi::Result<ffi::AnyBuffer> y, int64_t interleaved,
                  int64_t inverse) {
  return guarded("jax_hipkittens_rotary", [&] {
    require_attribute("interleaved", interleaved, 0, 1);
    require_attribute("inverse", inverse, 0, 1);
    hk::rotary_problem problem{};
    problem.interleaved = interleaved != 0;
    problem.inverse = inverse != 0;
    set_sizes(problem, x, cos);
    set_tables(problem, cos, sin);
    require_array("offsets", offsets, ffi::DataType::S32, {problem.batch});
    require_array("y", *y, x.element_type(),
                  {problem.batch, problem.length, problem.heads, problem.head_dim});
    if (is_empty(*y)) return;
    require(problem.positions > 0 || problem.rotary_dim == 0,
            "cos: expected at least 1 position, received 0");
    problem.x = x.untyped_data();
    problem.offsets = offsets.typed_data<int32_t>();
    problem.y = y->untyped_data();
    prefer_large_pages(y->untyped_data(), y->size_bytes());
    launch<&hk::host_kernels::rotary>(problem, pool);
  });
}

}  // namespace
}  // namespace jax_hipkittens

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_rotary, jax_hipkittens::rotary,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // x
                                  .Arg<xla::ffi::AnyBuffer>()  // cos
                                  .Arg<xla::ffi::AnyBuffer>()  // sin
                                  .Arg<xla::ffi::AnyBuffer>()  // offsets
                                  .Ret<xla::ffi::AnyBuffer>()  // y
                                  .Attr<int64_t>("interleaved")
                                  .Attr<int64_t>("inverse"));
