#include <algorithm>
#include <limits>

#include "ffi/call.h"
#include "ffi/handlers.h"

namespace jax_hipkittens {
namespace {

constexpr int64_t kMaxHeadDim = 256;

// The operands that forward and backward share, under the names that messages use.
struct attention_operands {
  ffi::AnyBuffer query, key, value, q_lengths, kv_lengths, scale;
};

struct attention_attributes {
  int64_t causal, window_left, window_right;
};

// A window that reaches past every key is as good as any wider one, and cannot overflow.
int64_t clamp_window(std::string_view name, int64_t window, int64_t reach) {
  require_attribute(name, window, -1, std::numeric_limits<int64_t>::max());
  return std::min(window, reach);
}

void set_attributes(hk::attention_problem& problem, const attention_attributes& attributes) {
  require_attribute("causal", attributes.causal, 0, 2);
  const int64_t reach = problem.queries + problem.keys;
  problem.causal = static_cast<hk::causal_mask>(attributes.causal);
  problem.window_left = clamp_window("window_left", attributes.window_left, reach);
  problem.window_right = clamp_window("window_right", attributes.window_right, reach);
}

void set_sizes(hk::attention_problem& problem, const ffi::AnyBuffer& query,
               const ffi::AnyBuffer& key) {
  problem.type = floating_type("query", query);
  require_rank("query", query, 4, "[B,T,N,D]");
  require_rank("key", key, 4, "[B,S,K,D]");
  problem.batch = query.dimensions()[0];
  problem.queries = query.dimensions()[1];
  problem.heads = query.dimensions()[2];
  problem.head_dim = query.dimensions()[3];
  problem.keys = key.dimensions()[1];
  problem.kv_heads = key.dimensions()[2];
  require_indexable({problem.batch, problem.queries, problem.heads, problem.head_dim});
  require_indexable({problem.batch, problem.keys, problem.kv_heads, problem.head_dim});
  require_attribute("head dimension", problem.head_dim, 1, kMaxHeadDim);
  const bool grouped =
      problem.kv_heads == 0 ? problem.heads == 0 : problem.heads % problem.kv_heads == 0;
  require(grouped, "query heads: expected a multiple of the " + std::to_string(problem.kv_heads) +
                       " key heads, received " + std::to_string(problem.heads));
}

// Checks what both directions take, and describes it.
hk::attention_problem make_problem(const attention_operands& in,
                                   const attention_attributes& attributes) {
  hk::attention_problem problem{};
  set_sizes(problem, in.query, in.key);
  set_attributes(problem, attributes);
  const ffi::DataType type = in.query.element_type();
  require_array("key", in.key, type,
                {problem.batch, problem.keys, problem.kv_heads, problem.head_dim});
  require_array("value", in.value, type,
                {problem.batch, problem.keys, problem.kv_heads, problem.head_dim});
  require_array("q_lengths", in.q_lengths, ffi::DataType::S32, {problem.batch});
  require_array("kv_lengths", in.kv_lengths, ffi::DataType::S32, {problem.batch});
  require_array("scale", in.scale, ffi::DataType::F32, {});
  problem.scale = *in.scale.typed_data<float>();
  problem.q = in.query.untyped_data();
  problem.k = in.key.untyped_data();
  problem.v = in.value.untyped_data();
  problem.q_lengths = in.q_lengths.typed_data<int32_t>();
  problem.kv_lengths = in.kv_lengths.typed_data<int32_t>();
  return problem;
}

void require_query_like(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                        const hk::attention_problem& p) {
  require_array(name, buffer, type, {p.batch, p.queries, p.heads, p.head_dim});
}

void require_key_like(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                      const hk::attention_problem& p) {
  require_array(name, buffer, type, {p.batch, p.keys, p.kv_heads, p.head_dim});
}

void require_row_like(std::string_view name, const ffi::AnyBuffer& buffer,
                      const hk::attention_problem& p) {
  require_array(name, buffer, ffi::DataType::F32, {p.batch, p.heads, p.queries});
}

ffi::Error attention_forward(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key,
                             ffi::AnyBuffer value, ffi::AnyBuffer q_lengths,
                             ffi::AnyBuffer kv_lengths, ffi::AnyBuffer scale,
                             ffi::Result<ffi::AnyBuffer> out, ffi::Result<ffi::AnyBuffer> lse,
                             int64_t causal, int64_t window_left, int64_t window_right) {
  return guarded("jax_hipkittens_attention_forward", [&] {
    hk::attention_problem problem = make_problem({query, key, value, q_lengths, kv_lengths, scale},
                                                 {causal, window_left, window_right});
    require_query_like("out", *out, query.element_type(), problem);
    require_row_like("lse", *lse, problem);
    if (is_empty(*out)) return;
    problem.out = out->untyped_data();
    problem.lse = lse->typed_data<float>();
    launch(&hk::host_kernels::attention_forward, problem, pool);
  });
}

ffi::Error attention_backward(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key,
                              ffi::AnyBuffer value, ffi::AnyBuffer out, ffi::AnyBuffer lse,
                              ffi::AnyBuffer dout, ffi::AnyBuffer dlse, ffi::AnyBuffer q_lengths,
                              ffi::AnyBuffer kv_lengths, ffi::AnyBuffer scale,
                              ffi::Result<ffi::AnyBuffer> dq, ffi::Result<ffi::AnyBuffer> dk,
                              ffi::Result<ffi::AnyBuffer> dv, int64_t causal, int64_t window_left,
                              int64_t window_right) {
  return guarded("jax_hipkittens_attention_backward", [&] {
    hk::attention_problem problem = make_problem({query, key, value, q_lengths, kv_lengths, scale},
                                                 {causal, window_left, window_right});
    const ffi::DataType type = query.element_type();
    require_query_like("out", out, type, problem);
    require_row_like("lse", lse, problem);
    require_query_like("dout", dout, type, problem);
    require_row_like("dlse", dlse, problem);
    require_query_like("dq", *dq, type, problem);
    require_key_like("dk", *dk, type, problem);
    require_key_like("dv", *dv, type, problem);
    if (is_empty(*dq)) {  // Without a query no key has a gradient.
      fill_zero(*dk);
      fill_zero(*dv);
      return;
    }
    problem.out = out.untyped_data();
    problem.lse = lse.typed_data<float>();
    problem.dout = dout.untyped_data();
    problem.dlse = dlse.typed_data<float>();
    problem.dq = dq->untyped_data();
    problem.dk = dk->untyped_data();
    problem.dv = dv->untyped_data();
    launch(&hk::host_kernels::attention_backward, problem, pool);
  });
}

}  // namespace
}  // namespace jax_hipkittens

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_attention_forward, jax_hipkittens::attention_forward,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // query
                                  .Arg<xla::ffi::AnyBuffer>()  // key
                                  .Arg<xla::ffi::AnyBuffer>()  // value
                                  .Arg<xla::ffi::AnyBuffer>()  // q_lengths
                                  .Arg<xla::ffi::AnyBuffer>()  // kv_lengths
                                  .Arg<xla::ffi::AnyBuffer>()  // scale
                                  .Ret<xla::ffi::AnyBuffer>()  // out
                                  .Ret<xla::ffi::AnyBuffer>()  // lse
                                  .Attr<int64_t>("causal")
                                  .Attr<int64_t>("window_left")
                                  .Attr<int64_t>("window_right"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_attention_backward, jax_hipkittens::attention_backward,
                              xla::ffi::Ffi::Bind()
                                  .Ctx<xla::ffi::ThreadPool>()
                                  .Arg<xla::ffi::AnyBuffer>()  // query
                                  .Arg<xla::ffi::AnyBuffer>()  // key
                                  .Arg<xla::ffi::AnyBuffer>()  // value
                                  .Arg<xla::ffi::AnyBuffer>()  // out
                                  .Arg<xla::ffi::AnyBuffer>()  // lse
                                  .Arg<xla::ffi::AnyBuffer>()  // dout
                                  .Arg<xla::ffi::AnyBuffer>()  // dlse
                                  .Arg<xla::ffi::AnyBuffer>()  // q_lengths
                                  .Arg<xla::ffi::AnyBuffer>()  // kv_lengths
                                  .Arg<xla::ffi::AnyBuffer>()  // scale
                                  .Ret<xla::ffi::AnyBuffer>()  // dq
                                  .Ret<xla::ffi::AnyBuffer>()  // dk
                                  .Ret<xla::ffi::AnyBuffer>()  // dv
                                  .Attr<int64_t>("causal")
                                  .Attr<int64_t>("window_left")
                                  .Attr<int64_t>("window_right"));
