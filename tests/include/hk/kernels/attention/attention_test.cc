// Attention's kernels against the float64 model, forward and backward.
#include <array>
#include <limits>

#include "tests/include/hk/kernels/attention/call.h"

namespace {

using namespace attention_test;

HK_TEST(lengths) {
  for (int64_t queries : {1, 2, 63, 65, 130})
    for (int64_t keys : {1, 2, 64, 97, 193})
      call<float>({1, queries, keys, 2, 1, 20}).check(tolerance<float>);
}

HK_TEST(head_dims) {
  for (int64_t d : {1, 8, 19, 32, 64, 72, 96, 104, 128, 256})
    call<float>({1, 70, 70, 1, 1, d}).check(tolerance<float>);
}

HK_TEST(groups_and_batches) {
  for (int64_t group : {1, 2, 3, 4, 8}) call<float>({2, 33, 40, 2 * group, 2, 16}).check(4e-6);
}

HK_TEST(types) {
  const shape s{2, 70, 101, 6, 2, 40};
  call<hk::bf16>(s).check(tolerance<hk::bf16>);
  call<hk::f16>(s).check(tolerance<hk::f16>);
  call<float>(s).check(tolerance<float>);
}

HK_TEST(masks) {
  for (causal_mask causal : {causal_mask::none, causal_mask::top_left, causal_mask::bottom_right})
    for (auto [left, right] : {std::array{-1, -1}, {0, 0}, {5, -1}, {-1, 3}, {70, 30}, {200, 300}})
      for (auto [queries, keys] : {std::array{100, 170}, {170, 100}}) {
        call<float> c({2, queries, keys, 3, 1, 16});
        c.p.causal = causal;
        c.p.window_left = left;
        c.p.window_right = right;
        c.q_lengths = {static_cast<int32_t>(queries), 77};
        c.kv_lengths = {90, static_cast<int32_t>(keys)};
        c.check(tolerance<float>);
      }
}

// With many key heads a block of the backward takes two tiles of keys.
HK_TEST(many_key_heads) {
  for (causal_mask causal : {causal_mask::none, causal_mask::top_left, causal_mask::bottom_right}) {
    call<float> c({4, 90, 250, 8, 4, 16});
    c.p.causal = causal;
    c.p.window_left = 60;
    c.kv_lengths = {250, 97, 100, 30};
    c.check(tolerance<float>);
  }
}

HK_TEST(batch_lengths) {
  call<hk::bf16> c({6, 50, 120, 4, 2, 24});
  c.q_lengths = {0, 1, 50, 20, 1000, -3};
  c.kv_lengths = {120, 0, 1, 99, 1000, 5};
  c.check(tolerance<hk::bf16>);
}

// Padding may hold anything.
HK_TEST(keys_past_the_length_are_not_read) {
  call<float> c({1, 9, 40, 1, 1, 8});
  c.kv_lengths = {7};
  c.q_lengths = {5};
  call<float> poisoned = c;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 7 * 8; i < c.k.size(); ++i) poisoned.k[i] = poisoned.v[i] = nan;
  for (size_t i = 5 * 8; i < c.q.size(); ++i) poisoned.q[i] = poisoned.dout[i] = nan;
  c.run();
  poisoned.run();
  CHECK(same_bits(c.out, poisoned.out) && same_bits(c.dq, poisoned.dq));
  CHECK(same_bits(c.dk, poisoned.dk) && same_bits(c.dv, poisoned.dv));
}

HK_TEST(empty_arrays) {
  call<float> no_keys({2, 5, 0, 2, 1, 8});
  no_keys.run();
  CHECK(all_zero(no_keys.out) && all_zero(no_keys.dq));
  CHECK_EQ(no_keys.lse[3], -std::numeric_limits<float>::infinity());

  call<float> no_queries({2, 0, 5, 2, 1, 8});
  no_queries.run();
  CHECK(all_zero(no_queries.dk) && all_zero(no_queries.dv));

  call<float> no_heads({2, 3, 5, 0, 2, 8});
  no_heads.run();
  CHECK(all_zero(no_heads.dk) && all_zero(no_heads.dv));

  call<float>({0, 3, 5, 2, 2, 8}).run();
  call<float>({2, 3, 5, 0, 0, 8}).run();
}

HK_TEST(scales) {
  for (float scale : {0.0f, -0.3f, 2.0f}) {
    call<float> c({1, 60, 80, 2, 1, 16});
    c.scale = {scale};
    c.p.causal = causal_mask::top_left;
    c.check(tolerance<float>);
  }
}

// The maximum rises by 50 in mid-sequence, or just less than what makes the running one follow.
HK_TEST(logits_that_jump) {
  for (float jump : {5.0f, 50.0f}) {
    call<float> c({1, 40, 200, 2, 1, 4});
    c.scale = {1.0f};
    for (size_t i = 0; i < c.q.size(); i += 4) c.q[i] = 1.0f;
    for (size_t s = 0; s < 200; ++s) c.k[4 * s] = s < 130 ? 0.0f : jump;
    c.check(2e-5);
  }
}

// The lse cannot tell log(S) from 0 beside logits of 1e9, but the gradients must.
HK_TEST(equal_logits_of_any_size) {
  for (float size : {0.0f, 1.0f, 30.0f, 1e4f}) {
    call<float> c({1, 10, 100, 2, 1, 8});
    c.q.assign(c.q.size(), size);
    c.k.assign(c.k.size(), size);
    c.run();
    const model::results e = c.expected();
    c.check_array(c.out, e.out, 1e-5, "out");
    c.check_array(c.dv, e.dv, 1e-5, "dv");
  }
}

HK_TEST(large_values_stay_finite) {
  call<float> c({1, 70, 150, 2, 1, 16});
  for (float& x : c.q) x *= 1e4f;
  for (float& x : c.k) x *= 1e4f;
  c.check(1e-4);
}

HK_TEST(one_visible_key_gives_no_query_gradient) {
  call<hk::bf16> one_key({2, 20, 1, 4, 2, 72});
  one_key.dlse.assign(one_key.dlse.size(), 0.0f);
  one_key.run();
  CHECK(all_zero(one_key.dq) && all_zero(one_key.dk));

  call<float> diagonal({1, 100, 100, 2, 1, 19});
  diagonal.p.window_left = diagonal.p.window_right = 0;
  diagonal.dlse.assign(diagonal.dlse.size(), 0.0f);
  diagonal.run();
  CHECK(all_zero(diagonal.dq) && all_zero(diagonal.dk));
}

// As where partial results are merged by their LSE, whose cotangent then is no number.
template <hk::element T>
void check_that_unseen_rows_count_for_nothing() {
  constexpr int64_t queries = 100, keys = 60, heads = 2, dim = 16, unseen = queries - keys;
  call<T> clean({1, queries, keys, heads, 1, dim});
  clean.p.causal = causal_mask::bottom_right;  // queries before `unseen` see no key
  call<T> poisoned = clean;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t i = 0; i < unseen * heads * dim; ++i)
    poisoned.q[i] = poisoned.dout[i] = hk::from_float<T>(nan);
  for (int64_t n = 0; n < heads; ++n)
    for (int64_t t = 0; t < unseen; ++t) poisoned.dlse[n * queries + t] = nan;
  clean.run();
  poisoned.run();
  CHECK(same_bits(clean.out, poisoned.out));
  CHECK(same_bits(clean.dq, poisoned.dq));
  CHECK(same_bits(clean.dk, poisoned.dk));
  CHECK(same_bits(clean.dv, poisoned.dv));
  for (int64_t i = 0; i < unseen * heads * dim; ++i) CHECK_EQ(hk::to_float(clean.dq[i]), 0.0f);
}

HK_TEST(rows_that_see_no_key_count_for_nothing) {
  check_that_unseen_rows_count_for_nothing<float>();
  check_that_unseen_rows_count_for_nothing<hk::bf16>();
}

HK_TEST(zero_cotangent_gives_zero_gradients) {
  call<float> c({2, 70, 90, 4, 2, 40});
  c.dout.assign(c.dout.size(), 0.0f);
  c.dlse.assign(c.dlse.size(), 0.0f);
  c.run();
  CHECK(all_zero(c.dq) && all_zero(c.dk) && all_zero(c.dv));
}

HK_TEST(any_number_of_threads_gives_the_same_bits) {
  for (causal_mask causal : {causal_mask::none, causal_mask::top_left}) {
    call<hk::bf16> one({4, 150, 400, 8, 4, 32});
    one.p.causal = causal;
    call<hk::bf16> many = one;
    one.run(1);
    many.run(5);
    CHECK(same_bits(one.out, many.out) && same_bits(one.lse, many.lse));
    CHECK(same_bits(one.dq, many.dq) && same_bits(one.dk, many.dk) && same_bits(one.dv, many.dv));
  }
}

}  // namespace
