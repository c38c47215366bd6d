// What may be added to attention beyond its band of visible keys, against the float64 model: each
// extra alone, and all of them together.
#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>

#include "tests/include/hk/kernels/attention/call.h"

namespace {

using namespace attention_test;

constexpr float infinity = std::numeric_limits<float>::infinity();

// `count` ids in runs of about `run`, the first `first`.
std::vector<int32_t> runs(int64_t count, int64_t run, int32_t first = 0) {
  std::vector<int32_t> ids(count);
  for (int64_t i = 0; i < count; ++i) ids[i] = first + static_cast<int32_t>(i / run);
  return ids;
}

std::vector<int32_t> shuffled(std::vector<int32_t> ids, uint32_t seed) {
  std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
  return ids;
}

template <class T>
void add_segments(call<T>& c, int64_t run) {
  c.q_segments = runs(c.p.batch * c.p.queries, run);
  c.kv_segments = runs(c.p.batch * c.p.keys, run);
}

template <class T>
void add_positions(call<T>& c) {
  c.q_positions = shuffled(runs(c.p.batch * c.p.queries, 1, -20), 1);
  c.kv_positions = shuffled(runs(c.p.batch * c.p.keys, 1, -20), 2);
}

template <class T>
void add_everything(call<T>& c) {
  const auto& p = c.p;
  c.p.causal = causal_mask::bottom_right;
  c.p.window_left = p.keys;
  c.p.soft_cap = 1.5f;
  c.add_bias(1, p.heads, p.queries, p.keys);
  c.add_mask(p.batch, 1, p.queries, p.keys);
  c.add_dropout(0.25f);
  add_segments(c, 50);
  add_positions(c);
  c.sinks = unit::random_array<float>(p.heads, 8);
  c.slopes = unit::random_array<float>(p.batch * p.heads, 9, 0.05f);
  c.p.slopes_batch = p.batch;
  for (int64_t b = 0; b < p.batch; ++b) c.scale[b] = 0.3f - 0.5f * b;
}

HK_TEST(bias_of_every_broadcast) {
  for (int pattern = 0; pattern < 16; ++pattern) {
    call<float> c({2, 65, 127, 4, 2, 8});
    const auto size = [&](int axis, int64_t full) { return pattern >> axis & 1 ? 1 : full; };
    c.add_bias(size(0, 2), size(1, 4), size(2, 65), size(3, 127));
    c.p.causal = pattern % 3 == 0 ? causal_mask::top_left : causal_mask::none;
    c.q_lengths = {65, 40};
    c.kv_lengths = {100, 127};
    c.check(tolerance<float>);
  }
}

HK_TEST(bias_of_ragged_sizes) {
  for (int64_t queries : {1, 2, 63, 127})
    for (int64_t keys : {1, 2, 65}) {
      call<hk::bf16> c({1, queries, keys, 3, 1, 20});
      c.add_bias(1, 3, queries, keys);
      c.check(2 * tolerance<hk::bf16>);
    }
}

HK_TEST(bias_in_f32_beside_16_bit_operands) {
  call<hk::f16> c({1, 40, 70, 2, 1, 16});
  c.add_bias(1, 1, 40, 70);
  const std::vector<float> wide = unit::random_array<float>(40 * 70, 6);
  for (size_t i = 0; i < wide.size(); ++i) c.bias[i] = hk::from_float<hk::f16>(wide[i]);
  call<hk::f16> f32 = c;
  f32.bias_f32.assign(c.bias.size(), 0.0f);
  for (size_t i = 0; i < wide.size(); ++i) f32.bias_f32[i] = hk::to_float(c.bias[i]);
  c.run();
  f32.run();
  CHECK(same_results(c, f32));
}

// As the mask does, also where the score is no number, and whole rows.
HK_TEST(bias_of_minus_infinity_hides) {
  call<float> masked({1, 66, 130, 2, 1, 16});
  masked.add_mask(1, 1, 66, 130);
  std::fill_n(masked.mask.begin() + 3 * 130, 130, uint8_t{0});
  call<float> biased = masked;
  biased.mask.clear();
  biased.add_bias(1, 1, 66, 130);
  for (size_t i = 0; i < masked.mask.size(); ++i) biased.bias[i] = masked.mask[i] ? 0 : -infinity;
  biased.check(tolerance<float>);
  masked.check(tolerance<float>);
  CHECK_ALL_CLOSE(masked.out, unit::to_double(biased.out), 1e-6);
  CHECK_EQ(biased.lse[3], -infinity);
  CHECK_EQ(biased.dbias[3 * 130], 0.0f);
}

HK_TEST(masks_of_every_broadcast) {
  for (int pattern = 0; pattern < 16; ++pattern) {
    call<float> c({2, 63, 130, 4, 2, 8});
    const auto size = [&](int axis, int64_t full) { return pattern >> axis & 1 ? 1 : full; };
    c.add_mask(size(0, 2), size(1, 4), size(2, 63), size(3, 130));
    c.check(tolerance<float>);
  }
}

HK_TEST(segments) {
  for (int64_t run : {1, 7, 100, 300}) {
    for (bool sorted : {true, false}) {
      call<float> c({2, 190, 310, 4, 2, 16});
      add_segments(c, run);
      if (!sorted) c.kv_segments = shuffled(c.kv_segments, 3);
      if (!sorted) c.q_segments = shuffled(c.q_segments, 4);
      c.p.causal = run == 100 ? causal_mask::top_left : causal_mask::none;
      c.check(tolerance<float>);
    }
  }
}

// Blocks of two key tiles, some of which no query sees, and strips that see nothing.
HK_TEST(segments_of_many_heads) {
  call<hk::bf16> c({4, 260, 700, 8, 4, 16});
  c.q_segments = runs(4 * 260, 130, 1);
  c.kv_segments = runs(4 * 700, 110, -3);
  c.kv_lengths = {700, 650, 20, 0};
  c.check(tolerance<hk::bf16>);
}

template <class T>
bool all_finite(const std::vector<T>& x, size_t count) {
  return std::all_of(x.begin(), x.begin() + count, [](T e) { return std::isfinite(e); });
}

// Tiles that the queries cannot meet are left alone, whatever they hold. Runs are whole tiles of
// every instruction set.
HK_TEST(tiles_out_of_reach_are_not_read) {
  for (bool by_position : {false, true}) {
    call<float> c({1, 672, 384, 1, 1, 8});
    (by_position ? c.q_positions : c.q_segments) = runs(672, 336);
    (by_position ? c.kv_positions : c.kv_segments) = runs(384, 192);
    c.p.window_left = c.p.window_right = by_position ? 0 : -1;
    c.add_bias(1, 1, 672, 1);
    std::fill(c.v.begin() + 192 * 8, c.v.end(), garbage<float>());
    c.run();
    CHECK(all_finite(c.out, 336 * 8) && all_finite(c.dq, 336 * 8) && all_finite(c.dbias, 336));
    CHECK(all_finite(c.dk, 192 * 8) && all_finite(c.dv, 192 * 8));
    CHECK(std::isnan(c.out.back()) && std::isnan(c.dk.back()));
  }
}

HK_TEST(segments_may_be_any_numbers) {
  call<float> c({1, 70, 70, 1, 1, 8});
  for (int64_t i = 0; i < 70; ++i) {
    c.q_segments.push_back(i % 2 ? INT32_MAX : INT32_MIN);
    c.kv_segments.push_back(i % 3 ? INT32_MAX : INT32_MIN);
  }
  c.check(tolerance<float>);
}

HK_TEST(positions) {
  for (causal_mask causal : {causal_mask::none, causal_mask::top_left, causal_mask::bottom_right})
    for (auto [left, right] : {std::array{-1, -1}, {0, 0}, {30, -1}, {-1, 20}, {50, 10}}) {
      call<float> c({2, 130, 190, 2, 1, 8});
      add_positions(c);
      c.p.causal = causal;
      c.p.window_left = left;
      c.p.window_right = right;
      c.q_lengths = {130, 99};
      c.kv_lengths = {190, 150};
      c.slopes = {0.03f, -0.02f};
      c.check(tolerance<float>);
    }
}

HK_TEST(positions_may_be_any_numbers) {
  for (int64_t window : {int64_t{-1}, int64_t{5}, int64_t{1} << 40}) {
    call<float> c({1, 70, 100, 1, 1, 8});
    for (int64_t i = 0; i < 70; ++i) c.q_positions.push_back(i % 2 ? INT32_MAX - i : INT32_MIN + i);
    for (int64_t i = 0; i < 100; ++i)
      c.kv_positions.push_back(i % 3 ? INT32_MAX - i : INT32_MIN + i);
    c.slopes = {1e-9f};
    c.p.causal = causal_mask::bottom_right;
    c.p.window_left = window;
    c.check(tolerance<float>);
  }
}

// Positions in order do what indices do.
HK_TEST(positions_and_origins_agree) {
  call<float> indexed({1, 90, 140, 2, 1, 8});
  indexed.p.causal = causal_mask::top_left;
  indexed.p.window_left = 40;
  indexed.slopes = {0.1f, 0.3f};
  indexed.origin = {0, 0, 2000000050, 2000000000};
  call<float> positioned = indexed;
  positioned.q_positions = runs(90, 1, 2000000050);
  positioned.kv_positions = runs(140, 1, 2000000000);
  indexed.check(tolerance<float>);
  positioned.check(tolerance<float>);
  CHECK_ALL_CLOSE(indexed.out, unit::to_double(positioned.out), 1e-6);
}

HK_TEST(origins_may_be_any_numbers) {
  for (int32_t x : {INT32_MIN, INT32_MAX})
    for (int32_t y : {INT32_MIN, 0, INT32_MAX}) {
      call<float> c({1, 20, 70, 2, 1, 8});
      c.p.causal = causal_mask::top_left;
      c.origin = {x, y, y, x};
      c.add_dropout(0.5f);
      c.run();
      CHECK(all_finite(c.dq, c.dq.size()));
    }
}

HK_TEST(soft_caps) {
  for (float cap : {0.1f, 1.0f, 30.0f}) {
    call<float> c({1, 70, 100, 2, 1, 16});
    c.p.soft_cap = cap;
    c.scale = {-1.0f};
    c.check(tolerance<float>);
  }
  call<hk::bf16> c({1, 70, 100, 2, 1, 16});
  c.p.soft_cap = 2.0f;
  c.check(tolerance<hk::bf16>);
}

HK_TEST(sinks) {
  for (float size : {0.1f, 5.0f, 1000.0f}) {
    call<float> c({2, 70, 100, 4, 2, 16});
    c.sinks = unit::random_array<float>(8, 1, size);
    c.p.sinks_batch = 2;
    c.sinks[3] = -infinity;
    c.kv_lengths = {100, 0};
    c.check(tolerance<float>);
  }
}

// A sink may be all that a row sees; its cotangents then count for nothing.
HK_TEST(rows_that_see_a_sink_alone) {
  call<float> clean({1, 100, 60, 2, 1, 16});
  clean.p.causal = causal_mask::bottom_right;
  clean.sinks = {0.5f, 2.0f};
  clean.add_bias(1, 2, 1, 60);
  call<float> poisoned = clean;
  std::fill_n(poisoned.q.begin(), 40 * 32, garbage<float>());
  std::fill_n(poisoned.dout.begin(), 40 * 32, garbage<float>());
  for (int n = 0; n < 2; ++n) std::fill_n(poisoned.dlse.begin() + 100 * n, 40, garbage<float>());
  clean.check(tolerance<float>);
  poisoned.run();
  CHECK(same_results(clean, poisoned));
  CHECK_EQ(clean.lse[0], 0.5f);
  CHECK_EQ(clean.lse[100], 2.0f);
}

HK_TEST(scales_of_entries) {
  call<float> c({4, 60, 80, 2, 1, 16});
  c.scale = {0.5f, -0.3f, 0.0f, 2.0f};
  c.check(tolerance<float>);
}

HK_TEST(value_dims) {
  for (auto [d, e] : {std::array{8, 32}, {32, 8}, {19, 130}, {256, 40}, {1, 256}})
    call<float>({2, 70, 100, 4, 2, d, e}).check(tolerance<float>);
  call<hk::bf16>({2, 70, 100, 4, 2, 40, 24}).check(tolerance<hk::bf16>);
}

// [B, L, H, W] -> [B, H, L, W]
template <class T>
std::vector<T> heads_first(const std::vector<T>& x, int64_t batch, int64_t length, int64_t heads) {
  std::vector<T> y(x.size());
  if (x.empty()) return y;
  const int64_t width = x.size() / (batch * length * heads);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t t = 0; t < length; ++t)
      for (int64_t n = 0; n < heads; ++n)
        std::copy_n(&x[((b * length + t) * heads + n) * width], width,
                    &y[((b * heads + n) * length + t) * width]);
  return y;
}

HK_TEST(layouts_give_the_same_bits) {
  for (int64_t kv_heads : {4, 2, 1}) {
    call<hk::bf16> time_first({2, 70, 110, 4, kv_heads, 24, 40});
    add_everything(time_first);
    call<hk::bf16> c = time_first;
    c.p.layout = attention_layout::bnth;
    c.q = heads_first(c.q, 2, 70, 4);
    c.dout = heads_first(c.dout, 2, 70, 4);
    c.k = heads_first(c.k, 2, 110, kv_heads);
    c.v = heads_first(c.v, 2, 110, kv_heads);
    c.check(tolerance<hk::bf16>);
    time_first.run();
    CHECK(same_bits(c.out, heads_first(time_first.out, 2, 70, 4)));
    CHECK(same_bits(c.dq, heads_first(time_first.dq, 2, 70, 4)));
    CHECK(same_bits(c.dk, heads_first(time_first.dk, 2, 110, kv_heads)));
    CHECK(same_bits(c.dv, heads_first(time_first.dv, 2, 110, kv_heads)));
    CHECK(same_bits(c.lse, time_first.lse) && same_bits(c.dbias, time_first.dbias));
  }
}

HK_TEST(dropout) {
  for (float rate : {0.0001f, 0.1f, 0.9f, 1.0f})
    for (int32_t key : {0, 3, 101}) {
      call<float> c({2, 65, 127, 4, 2, 16});
      c.add_dropout(rate);
      c.origin = {5, 1, 7, key, 9, 2, 11, key + 1};
      c.check(8 * tolerance<float>);
    }
  call<hk::bf16> c({1, 65, 127, 4, 2, 16});
  c.add_dropout(0.2f);
  c.check(2 * tolerance<hk::bf16>);
}

// With values that name their key, and one key seen, the output tells whether it was kept.
HK_TEST(dropout_follows_its_definition) {
  call<float> c({1, 40, 40, 3, 1, 8});
  c.p.window_left = c.p.window_right = 0;
  c.v.assign(c.v.size(), 1.0f);
  c.add_dropout(0.5f);
  c.origin = {6, 10, 1000, 1000};
  c.run();
  for (int64_t t = 0; t < 40; ++t)
    for (int64_t n = 0; n < 3; ++n) {
      const uint32_t at = static_cast<uint32_t>(1000 + t);
      const bool kept = model::draw(at, at, static_cast<uint32_t>(10 + n), 6, c.seed.data()) >> 31;
      CHECK_EQ(c.out[(t * 3 + n) * 8], kept ? 2.0f : 0.0f);
    }
}

// Any part of a problem, told where it starts, drops what the whole does.
HK_TEST(dropout_of_a_part_is_that_of_the_whole) {
  call<float> whole({2, 70, 90, 4, 2, 8});
  whole.add_dropout(0.4f);
  whole.origin = {0, 0, 0, 0, 1, 0, 0, 0};
  whole.run();
  // Batch entry 1, heads 2 and 3, queries from 30 on; then all but the last 37 keys are hidden.
  call<float> part({1, 40, 90, 2, 1, 8});
  part.scale = {whole.scale[1]};
  part.add_dropout(0.4f);
  part.origin = {1, 2, 30, 0};
  for (int64_t t = 0; t < 40; ++t)
    std::copy_n(&whole.q[((70 + 30 + t) * 4 + 2) * 8], 16, &part.q[t * 16]);
  for (int64_t s = 0; s < 90; ++s) {
    std::copy_n(&whole.k[((90 + s) * 2 + 1) * 8], 8, &part.k[s * 8]);
    std::copy_n(&whole.v[((90 + s) * 2 + 1) * 8], 8, &part.v[s * 8]);
  }
  part.run();
  for (int64_t t = 0; t < 40; ++t)
    for (int64_t i = 0; i < 16; ++i)
      CHECK_CLOSE(part.out[t * 16 + i], whole.out[((70 + 30 + t) * 4 + 2) * 8 + i], 1e-5);
}

HK_TEST(dropout_of_parts_of_the_keys) {
  call<float> whole({1, 30, 90, 2, 1, 8});
  whole.add_dropout(0.4f);
  call<float> part = call<float>({1, 30, 37, 2, 1, 8});
  part.add_dropout(0.4f);
  part.origin = {0, 0, 0, 53};
  part.q = whole.q;
  std::copy(whole.k.begin() + 53 * 8, whole.k.end(), part.k.begin());
  std::copy(whole.v.begin() + 53 * 8, whole.v.end(), part.v.begin());
  whole.add_mask(1, 1, 1, 90);
  for (int64_t s = 0; s < 90; ++s) whole.mask[s] = s >= 53;
  whole.run();
  part.run();
  CHECK_ALL_CLOSE(part.out, unit::to_double(whole.out), 1e-5);
}

HK_TEST(everything_together) {
  for (auto [queries, keys] : {std::array{1, 65}, {127, 2}, {65, 300}, {130, 130}}) {
    call<float> c({2, queries, keys, 6, 2, 24, 40});
    add_everything(c);
    c.check(4 * tolerance<float>);
    call<hk::bf16> half({2, queries, keys, 6, 2, 24, 40});
    add_everything(half);
    half.check(2 * tolerance<hk::bf16>);
  }
}

HK_TEST(any_number_of_threads_gives_the_same_bits) {
  call<hk::bf16> one({4, 150, 400, 8, 4, 32, 16});
  add_everything(one);
  call<hk::bf16> many = one;
  one.run(1);
  many.run(3);
  CHECK(same_results(one, many));
}

HK_TEST(zero_cotangent_gives_zero_gradients) {
  call<float> c({2, 70, 90, 4, 2, 24, 40});
  add_everything(c);
  c.dout.assign(c.dout.size(), 0.0f);
  c.dlse.assign(c.dlse.size(), 0.0f);
  c.run();
  CHECK(all_zero(c.dq) && all_zero(c.dk) && all_zero(c.dv) && all_zero(c.dbias));
}

HK_TEST(one_visible_key_gives_no_query_gradient) {
  call<hk::bf16> c({2, 20, 1, 4, 2, 72});
  c.add_bias(2, 4, 20, 1);
  c.slopes = {1.0f, 2.0f, 3.0f, 4.0f};
  c.p.soft_cap = 5.0f;
  c.dlse.assign(c.dlse.size(), 0.0f);
  c.run();
  CHECK(all_zero(c.dq) && all_zero(c.dk) && all_zero(c.dbias));
}

// A logit that is no number makes its row none, and no other row.
HK_TEST(nan_stays_in_its_row) {
  call<float> c({1, 60, 70, 2, 1, 8});
  c.add_bias(1, 1, 60, 70);
  c.p.soft_cap = 3.0f;
  c.bias[7 * 70 + 69] = garbage<float>();
  c.run();
  for (int64_t t = 0; t < 60; ++t) CHECK_EQ(std::isnan(c.out[t * 16]), t == 7);
  CHECK(std::isnan(c.lse[7]) && std::isnan(c.dq[7 * 16]) && std::isfinite(c.dq[8 * 16]));
}

HK_TEST(extras_of_empty_arrays) {
  call<float> no_keys({2, 5, 0, 2, 1, 8});
  no_keys.add_bias(1, 2, 5, 1);
  no_keys.sinks = {1.0f, 2.0f};
  no_keys.run();
  CHECK(all_zero(no_keys.out) && all_zero(no_keys.dq) && all_zero(no_keys.dbias));
  CHECK_EQ(no_keys.lse[5], 2.0f);

  call<float> no_heads({2, 3, 5, 0, 2, 8});
  no_heads.add_bias(1, 1, 3, 5);
  no_heads.run();
  CHECK(all_zero(no_heads.dk) && all_zero(no_heads.dbias));
}

}  // namespace
