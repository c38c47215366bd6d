#include <algorithm>
#include <cmath>
#include <limits>

#include "ffi/call.h"
#include "ffi/handlers.h"

namespace jax_hipkittens {
namespace {

constexpr int64_t kMaxHeadDim = 256;

// Beyond all distances of two 32-bit positions, and far from overflow when added to one.
constexpr int64_t kMaxWindow = int64_t{1} << 40;

// The operands that forward and backward share, under the names that messages use.
struct attention_operands {
  ffi::AnyBuffer query, key, value;
  ffi::AnyBuffer q_lengths, kv_lengths, scale, origin;
  ffi::AnyBuffer bias, mask;
  ffi::AnyBuffer q_segments, kv_segments, q_positions, kv_positions;
  ffi::AnyBuffer sinks, slopes, seed;
};

struct attention_attributes {
  int64_t causal, window_left, window_right, layout;
  float soft_cap, dropout_rate;
};

// A window that reaches past every key is as good as any wider one, and cannot overflow.
int64_t clamp_window(std::string_view name, int64_t window) {
  require_attribute(name, window, -1, std::numeric_limits<int64_t>::max());
  return std::min(window, kMaxWindow);
}

void set_attributes(hk::attention_problem& problem, const attention_attributes& attributes) {
  require_attribute("causal", attributes.causal, 0, 2);
  require_attribute("layout", attributes.layout, 0, 1);
  require(std::isfinite(attributes.soft_cap) && attributes.soft_cap >= 0.0f,
          "soft_cap: expected a finite number of at least 0, received " +
              std::to_string(attributes.soft_cap));
  require(attributes.dropout_rate >= 0.0f && attributes.dropout_rate <= 1.0f,
          "dropout_rate: expected 0 to 1, received " + std::to_string(attributes.dropout_rate));
  problem.causal = static_cast<hk::causal_mask>(attributes.causal);
  problem.layout = static_cast<hk::attention_layout>(attributes.layout);
  problem.window_left = clamp_window("window_left", attributes.window_left);
  problem.window_right = clamp_window("window_right", attributes.window_right);
  problem.soft_cap = attributes.soft_cap;
  problem.dropout_rate = attributes.dropout_rate;
}

bool heads_last(const hk::attention_problem& problem) {
  return problem.layout == hk::attention_layout::btnh;
}

void set_sizes(hk::attention_problem& problem, const attention_operands& in) {
  const bool btnh = heads_last(problem);
  const int time = btnh ? 1 : 2, heads = btnh ? 2 : 1;
  problem.type = floating_type("query", in.query);
  require_rank("query", in.query, 4, btnh ? "[B,T,N,D]" : "[B,N,T,D]");
  require_rank("key", in.key, 4, btnh ? "[B,S,K,D]" : "[B,K,S,D]");
  require_rank("value", in.value, 4, btnh ? "[B,S,K,E]" : "[B,K,S,E]");
  problem.batch = in.query.dimensions()[0];
  problem.queries = in.query.dimensions()[time];
  problem.heads = in.query.dimensions()[heads];
  problem.head_dim = in.query.dimensions()[3];
  problem.keys = in.key.dimensions()[time];
  problem.kv_heads = in.key.dimensions()[heads];
  problem.value_dim = in.value.dimensions()[3];
  require_attribute("head dimension", problem.head_dim, 1, kMaxHeadDim);
  require_attribute("value head dimension", problem.value_dim, 1, kMaxHeadDim);
  const int64_t widest = std::max(problem.head_dim, problem.value_dim);
  require_indexable({problem.batch, problem.queries, problem.heads, widest});
  require_indexable({problem.batch, problem.keys, problem.kv_heads, widest});
  const bool grouped =
      problem.kv_heads == 0 ? problem.heads == 0 : problem.heads % problem.kv_heads == 0;
  require(grouped, "query heads: expected a multiple of the " + std::to_string(problem.kv_heads) +
                       " key heads, received " + std::to_string(problem.heads));
}

void require_query_like(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                        const hk::attention_problem& p, int64_t width) {
  const int64_t outer = heads_last(p) ? p.queries : p.heads;
  const int64_t inner = heads_last(p) ? p.heads : p.queries;
  require_array(name, buffer, type, {p.batch, outer, inner, width});
}

void require_key_like(std::string_view name, const ffi::AnyBuffer& buffer, ffi::DataType type,
                      const hk::attention_problem& p, int64_t width) {
  const int64_t outer = heads_last(p) ? p.keys : p.kv_heads;
  const int64_t inner = heads_last(p) ? p.kv_heads : p.keys;
  require_array(name, buffer, type, {p.batch, outer, inner, width});
}

void require_row_like(std::string_view name, const ffi::AnyBuffer& buffer,
                      const hk::attention_problem& p) {
  require_array(name, buffer, ffi::DataType::F32, {p.batch, p.heads, p.queries});
}

// An array over the scores, each of whose sizes is full or 1; absent without data.
template <class T>
hk::score_array<T> score_array(std::string_view name, const ffi::AnyBuffer& buffer,
                               ffi::DataType type, const hk::attention_problem& p) {
  void* data = optional_repeated_array(name, buffer, type, {p.batch, p.heads, p.queries, p.keys});
  hk::score_array<T> array{static_cast<T*>(data), {}};
  std::copy_n(buffer.dimensions().begin(), 4, array.sizes);
  return array;
}

void set_bias_and_mask(hk::attention_problem& problem, const attention_operands& in) {
  problem.bias_is_f32 = in.bias.element_type() == ffi::DataType::F32;
  const ffi::DataType type = problem.bias_is_f32 ? ffi::DataType::F32 : in.query.element_type();
  problem.bias = score_array<const void>("bias", in.bias, type, problem);
  problem.mask = score_array<const uint8_t>("mask", in.mask, ffi::DataType::PRED, problem);
}

// Numbers of all queries and of all keys: both or neither.
void set_ids(const int32_t*& of_queries, const int32_t*& of_keys, const std::string& names,
             const ffi::AnyBuffer& q, const ffi::AnyBuffer& kv, const hk::attention_problem& p) {
  of_queries = static_cast<const int32_t*>(
      optional_array("q_" + names, q, ffi::DataType::S32, {p.batch, p.queries}));
  of_keys = static_cast<const int32_t*>(
      optional_array("kv_" + names, kv, ffi::DataType::S32, {p.batch, p.keys}));
  require(p.batch == 0 || is_absent(q) == is_absent(kv),
          names + ": expected those of queries and of keys or neither, received one of them");
}

// An f32 array [B, N] or [1, N] and its first size.
const float* head_array(std::string_view name, const ffi::AnyBuffer& buffer, int64_t& batch,
                        const hk::attention_problem& p) {
  require_rank(name, buffer, 2, "[B,N]");
  batch = buffer.dimensions()[0];
  const int64_t expected = batch == 1 ? 1 : p.batch;
  return static_cast<const float*>(
      optional_array(name, buffer, ffi::DataType::F32, {expected, p.heads}));
}

void set_seed(hk::attention_problem& problem, const ffi::AnyBuffer& seed) {
  require_rank("seed", seed, 2, "[B,2]");
  problem.seed_batch = seed.dimensions()[0];
  const int64_t expected = problem.seed_batch == 1 ? 1 : problem.batch;
  problem.seed =
      static_cast<const uint32_t*>(optional_array("seed", seed, ffi::DataType::U32, {expected, 2}));
  require(is_absent(seed) == (problem.dropout_rate == 0.0f),
          "seed: expected one with dropout and none without, received a dropout_rate of " +
              std::to_string(problem.dropout_rate) +
              (is_absent(seed) ? " and no seed" : " and a seed"));
}

void set_entry_arrays(hk::attention_problem& problem, const attention_operands& in) {
  require_array("q_lengths", in.q_lengths, ffi::DataType::S32, {problem.batch});
  require_array("kv_lengths", in.kv_lengths, ffi::DataType::S32, {problem.batch});
  require_array("scale", in.scale, ffi::DataType::F32, {problem.batch});
  require_array("origin", in.origin, ffi::DataType::S32, {problem.batch, 4});
  problem.q_lengths = in.q_lengths.typed_data<int32_t>();
  problem.kv_lengths = in.kv_lengths.typed_data<int32_t>();
  problem.scale = in.scale.typed_data<float>();
  problem.origin = in.origin.typed_data<int32_t>();
}

// Checks what both directions take, and describes it.
hk::attention_problem make_problem(const attention_operands& in,
                                   const attention_attributes& attributes) {
  hk::attention_problem problem{};
  set_attributes(problem, attributes);
  set_sizes(problem, in);
  const ffi::DataType type = in.query.element_type();
  require_query_like("query", in.query, type, problem, problem.head_dim);
  require_key_like("key", in.key, type, problem, problem.head_dim);
  require_key_like("value", in.value, type, problem, problem.value_dim);
  problem.q = in.query.untyped_data();
  problem.k = in.key.untyped_data();
  problem.v = in.value.untyped_data();
  set_entry_arrays(problem, in);
  set_bias_and_mask(problem, in);
  set_ids(problem.q_segments, problem.kv_segments, "segments", in.q_segments, in.kv_segments,
          problem);
  set_ids(problem.q_positions, problem.kv_positions, "positions", in.q_positions, in.kv_positions,
          problem);
  problem.sinks = head_array("sinks", in.sinks, problem.sinks_batch, problem);
  problem.slopes = head_array("slopes", in.slopes, problem.slopes_batch, problem);
  set_seed(problem, in.seed);
  return problem;
}

// The gradient of the bias has its shape, if it is asked for.
void set_bias_gradient(hk::attention_problem& problem, const ffi::AnyBuffer& bias,
                       const ffi::AnyBuffer& dbias) {
  const auto* sizes = problem.bias.sizes;
  void* data =
      optional_array("dbias", dbias, ffi::DataType::F32, {sizes[0], sizes[1], sizes[2], sizes[3]});
  require(is_absent(dbias) || !is_absent(bias),
          "dbias: expected none without a bias, received one");
  problem.dbias = {static_cast<float*>(data), {sizes[0], sizes[1], sizes[2], sizes[3]}};
}

ffi::Error attention_forward(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key,
                             ffi::AnyBuffer value, ffi::AnyBuffer q_lengths,
                             ffi::AnyBuffer kv_lengths, ffi::AnyBuffer scale, ffi::AnyBuffer origin,
                             ffi::AnyBuffer bias, ffi::AnyBuffer mask, ffi::AnyBuffer q_segments,
                             ffi::AnyBuffer kv_segments, ffi::AnyBuffer q_positions,
                             ffi::AnyBuffer kv_positions, ffi::AnyBuffer sinks,
                             ffi::AnyBuffer slopes, ffi::AnyBuffer seed,
                             ffi::Result<ffi::AnyBuffer> out, ffi::Result<ffi::AnyBuffer> lse,
                             int64_t causal, int64_t window_left, int64_t window_right,
                             int64_t layout, float soft_cap, float dropout_rate) {
  return guarded("jax_hipkittens_attention_forward", [&] {
    hk::attention_problem problem =
        make_problem({query, key, value, q_lengths, kv_lengths, scale, origin, bias, mask,
                      q_segments, kv_segments, q_positions, kv_positions, sinks, slopes, seed},
                     {causal, window_left, window_right, layout, soft_cap, dropout_rate});
    require_query_like("out", *out, query.element_type(), problem, problem.value_dim);
    require_row_like("lse", *lse, problem);
    if (is_empty(*out)) return;
    problem.out = out->untyped_data();
    problem.lse = lse->typed_data<float>();
    launch<&hk::host_kernels::attention_forward>(problem, pool);
  });
}

ffi::Error attention_backward(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key,
                              ffi::AnyBuffer value, ffi::AnyBuffer out, ffi::AnyBuffer lse,
                              ffi::AnyBuffer dout, ffi::AnyBuffer dlse, ffi::AnyBuffer q_lengths,
                              ffi::AnyBuffer kv_lengths, ffi::AnyBuffer scale,
                              ffi::AnyBuffer origin, ffi::AnyBuffer bias, ffi::AnyBuffer mask,
                              ffi::AnyBuffer q_segments, ffi::AnyBuffer kv_segments,
                              ffi::AnyBuffer q_positions, ffi::AnyBuffer kv_positions,
                              ffi::AnyBuffer sinks, ffi::AnyBuffer slopes, ffi::AnyBuffer seed,
                              ffi::Result<ffi::AnyBuffer> dq, ffi::Result<ffi::AnyBuffer> dk,
                              ffi::Result<ffi::AnyBuffer> dv, ffi::Result<ffi::AnyBuffer> dbias,
                              int64_t causal, int64_t window_left, int64_t window_right,
                              int64_t layout, float soft_cap, float dropout_rate) {
  return guarded("jax_hipkittens_attention_backward", [&] {
    hk::attention_problem problem =
        make_problem({query, key, value, q_lengths, kv_lengths, scale, origin, bias, mask,
                      q_segments, kv_segments, q_positions, kv_positions, sinks, slopes, seed},
                     {causal, window_left, window_right, layout, soft_cap, dropout_rate});
    const ffi::DataType type = query.element_type();
    require_query_like("out", out, type, problem, problem.value_dim);
    require_row_like("lse", lse, problem);
    require_query_like("dout", dout, type, problem, problem.value_dim);
    require_row_like("dlse", dlse, problem);
    require_query_like("dq", *dq, type, problem, problem.head_dim);
    require_key_like("dk", *dk, type, problem, problem.head_dim);
    require_key_like("dv", *dv, type, problem, problem.value_dim);
    set_bias_gradient(problem, bias, *dbias);
    if (is_empty(*dq)) {  // Without a query no key and no bias has a gradient.
      fill_zero(*dk);
      fill_zero(*dv);
      fill_zero(*dbias);
      return;
    }
    problem.out = out.untyped_data();
    problem.lse = lse.typed_data<float>();
    problem.dout = dout.untyped_data();
    problem.dlse = dlse.typed_data<float>();
    problem.dq = dq->untyped_data();
    problem.dk = dk->untyped_data();
    problem.dv = dv->untyped_data();
    launch<&hk::host_kernels::attention_backward>(problem, pool);
  });
}

// What both directions have: query, key and value first, the other operands after what a direction
// adds, and the attributes last.
template <class Binding>
auto with_inputs(Binding&& binding) {
  return std::move(binding)
      .template Arg<ffi::AnyBuffer>()   // query
      .template Arg<ffi::AnyBuffer>()   // key
      .template Arg<ffi::AnyBuffer>();  // value
}
template <class Binding>
auto with_scores(Binding&& binding) {
  return std::move(binding)
      .template Arg<ffi::AnyBuffer>()   // q_lengths
      .template Arg<ffi::AnyBuffer>()   // kv_lengths
      .template Arg<ffi::AnyBuffer>()   // scale
      .template Arg<ffi::AnyBuffer>()   // origin
      .template Arg<ffi::AnyBuffer>()   // bias
      .template Arg<ffi::AnyBuffer>()   // mask
      .template Arg<ffi::AnyBuffer>()   // q_segments
      .template Arg<ffi::AnyBuffer>()   // kv_segments
      .template Arg<ffi::AnyBuffer>()   // q_positions
      .template Arg<ffi::AnyBuffer>()   // kv_positions
      .template Arg<ffi::AnyBuffer>()   // sinks
      .template Arg<ffi::AnyBuffer>()   // slopes
      .template Arg<ffi::AnyBuffer>();  // seed
}
template <class Binding>
auto with_attributes(Binding&& binding) {
  return std::move(binding)
      .template Attr<int64_t>("causal")
      .template Attr<int64_t>("window_left")
      .template Attr<int64_t>("window_right")
      .template Attr<int64_t>("layout")
      .template Attr<float>("soft_cap")
      .template Attr<float>("dropout_rate");
}

auto bind_forward() {
  return with_attributes(with_scores(with_inputs(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()))
                             .template Ret<ffi::AnyBuffer>()    // out
                             .template Ret<ffi::AnyBuffer>());  // lse
}

auto bind_backward() {
  auto inputs = with_inputs(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>())
                    .template Arg<ffi::AnyBuffer>()   // out
                    .template Arg<ffi::AnyBuffer>()   // lse
                    .template Arg<ffi::AnyBuffer>()   // dout
                    .template Arg<ffi::AnyBuffer>();  // dlse
  return with_attributes(with_scores(std::move(inputs))
                             .template Ret<ffi::AnyBuffer>()    // dq
                             .template Ret<ffi::AnyBuffer>()    // dk
                             .template Ret<ffi::AnyBuffer>()    // dv
                             .template Ret<ffi::AnyBuffer>());  // dbias
}

}  // namespace
}  // namespace jax_hipkittens

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_attention_forward, jax_hipkittens::attention_forward,
                              jax_hipkittens::bind_forward());

XLA_FFI_DEFINE_HANDLER_SYMBOL(jax_hipkittens_attention_backward, jax_hipkittens::attention_backward,
                              jax_hipkittens::bind_backward());
