// SIMD operations lane by lane against scalar code, for the instruction set this is compiled for.
#include "hk/arch/host/simd.h"

#include <bit>

#include "tests/include/hk/support.h"

namespace {

using hk::simd::f32;
using hk::simd::i32;
using hk::simd::lanes;

// Zeros, subnormals, limits, infinities and NaN, then numbers of every size.
std::vector<float> interesting_floats(int random_count) {
  using limits = std::numeric_limits<float>;
  std::vector<float> all = {
      0.0f,   1.0f,          1.5f,          3.0f,          0.1f, limits::denorm_min(),
      1e-40f, limits::min(), limits::max(), unit::infinity};
  std::mt19937 generator(7);
  for (int i = 0; i < random_count; ++i)
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(generator())));
  const std::size_t positive = all.size();
  for (std::size_t i = 0; i < positive; ++i) all.push_back(-all[i]);
  all.push_back(unit::nan);
  return all;
}

// Calls f(x, y, lane) for pairs of interesting floats, with op(x, y)'s lane.
template <class Op, class F>
void for_each_pair(Op op, F f) {
  const std::vector<float> values = interesting_floats(40);
  for (float x : values)
    for (std::size_t j = 0; j < values.size(); ++j) {
      f32 ys;
      for (int l = 0; l < lanes; ++l) ys[l] = values[(j + l) % values.size()];
      const f32 result = op(hk::simd::splat(x), ys);
      for (int l = 0; l < lanes; ++l) f(x, ys[l], result[l]);
    }
}

// a * b + c as the instruction set computes it: rounded once, or twice where there is no such
// instruction.
float multiply_add(float a, float b, float c) {
#if defined(HK_HOST_ISA_PLAIN)
  const float product = a * b;
  return product + c;
#else
  return std::fma(a, b, c);
#endif
}

}  // namespace

HK_TEST(splat_fills_and_iota_counts) {
  for (float x : interesting_floats(10))
    for (int l = 0; l < lanes; ++l) CHECK(unit::same(hk::simd::splat(x)[l], x));
  for (int l = 0; l < lanes; ++l) {
    CHECK_EQ(hk::simd::splat(-7)[l], -7);
    CHECK_EQ(hk::simd::iota()[l], l);
  }
}

HK_TEST(select_takes_lanes_by_mask) {
  for (int edge = 0; edge <= lanes; ++edge) {
    const f32 x = hk::simd::select(hk::simd::iota() < edge, hk::simd::splat(1.0f),
                                   hk::simd::splat(unit::nan));
    for (int l = 0; l < lanes; ++l) CHECK(unit::same(x[l], l < edge ? 1.0f : unit::nan));
  }
}

HK_TEST(select_takes_all_or_nothing_by_a_bool) {
  for (bool yes : {true, false}) {
    const f32 x = hk::simd::select(yes, hk::simd::splat(1.0f), hk::simd::splat(2.0f));
    for (int l = 0; l < lanes; ++l) CHECK_EQ(x[l], yes ? 1.0f : 2.0f);
  }
}

HK_TEST(maximum_and_minimum_take_the_second_operand_of_nan) {
  int wrong = 0;
  for_each_pair(hk::fn::max, [&](float x, float y, float result) {
    wrong += !unit::same(result, x > y ? x : y);
  });
  for_each_pair(hk::fn::min, [&](float x, float y, float result) {
    wrong += !unit::same(result, x < y ? x : y);
  });
  CHECK_EQ(wrong, 0);
}

HK_TEST(integers_become_the_nearest_floats) {
  for (std::int32_t x : {0, -1, 16777217, -16777219, INT32_MAX, INT32_MIN}) {
    const f32 floats = hk::simd::to_float(hk::simd::splat(x));
    for (int l = 0; l < lanes; ++l) CHECK_EQ(floats[l], static_cast<float>(x));
  }
}

HK_TEST(fma_multiplies_and_adds) {
  const std::vector<float> values = interesting_floats(20);
  int wrong = 0;
  for (float a : values)
    for (float b : values)
      for (float c : values) {
        const float received =
            hk::simd::fma(hk::simd::splat(a), hk::simd::splat(b), hk::simd::splat(c))[lanes - 1];
        wrong += !unit::same(received, multiply_add(a, b, c));
      }
  CHECK_EQ(wrong, 0);
}

HK_TEST(multiply_even_gives_64_bit_products) {
  std::mt19937 generator(9);
  for (int i = 0; i < 1000; ++i) {
    hk::simd::u32 a;
    for (int l = 0; l < lanes; ++l) a[l] = static_cast<std::uint32_t>(generator());
    const std::uint32_t b = i ? static_cast<std::uint32_t>(generator()) : 0xffffffffu;
    const hk::simd::u64 products = hk::simd::multiply_even(a, hk::simd::splat(b));
    for (int l = 0; l < lanes; l += 2) CHECK_EQ(products[l / 2], std::uint64_t{a[l]} * b);
  }
}

HK_TEST(widening_loads_agree_with_scalars_for_every_pattern) {
  unit::for_each_element([]<class T>() {
    if constexpr (sizeof(T) == 2) {
      int wrong = 0;
      T values[lanes];
      for (int bits = 0; bits < 65536; bits += lanes) {
        for (int l = 0; l < lanes; ++l) values[l].bits = static_cast<std::uint16_t>(bits + l);
        const f32 x = hk::simd::load(values);
        for (int l = 0; l < lanes; ++l) wrong += !unit::same(x[l], hk::to_float(values[l]));
      }
      CHECK_EQ(wrong, 0);
    }
  });
}

// Every tie between 16-bit neighbours with the floats on its two sides, and random floats.
HK_TEST(rounding_stores_agree_with_scalars) {
  unit::for_each_element([]<class T>() {
    std::vector<float> values = interesting_floats(100000);
    if constexpr (sizeof(T) == 2)
      for (std::uint32_t bits = 0; bits < 65536; ++bits) {
        const double here = hk::to_float(T{static_cast<std::uint16_t>(bits)});
        const double next = hk::to_float(T{static_cast<std::uint16_t>(bits + 1)});
        const float tie = static_cast<float>((here + next) / 2);
        values.insert(values.end(), {tie, std::nextafter(tie, unit::infinity),
                                     std::nextafter(tie, -unit::infinity)});
      }
    values.resize(values.size() / (2 * lanes) * 2 * lanes);
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); i += 2 * lanes) {
      const f32 x = hk::simd::load(values.data() + i);
      const f32 y = hk::simd::load(values.data() + i + lanes);
      T apart[2 * lanes], together[2 * lanes];
      hk::simd::store(apart, x);
      hk::simd::store(apart + lanes, y);
      hk::simd::store(together, x, y);
      for (int l = 0; l < 2 * lanes; ++l) {
        const float expected = unit::rounded<T>(values[i + l]);
        wrong += !unit::same(hk::to_float(apart[l]), expected);
        wrong += !unit::same(hk::to_float(together[l]), expected);
      }
    }
    CHECK_EQ(wrong, 0);
  });
}

HK_TEST(partial_loads_read_nothing_behind_and_give_zero) {
  unit::for_each_element([]<class T>() {
    for (int count = 0; count <= lanes + 1; ++count) {
      // Exactly as long as what may be read, so that a sanitizer sees any more.
      std::vector<T> values(count);
      for (int i = 0; i < count; ++i) values[i] = hk::from_float<T>(i + 1.0f);
      const f32 x = hk::simd::load_first(values.data(), count);
      for (int l = 0; l < lanes; ++l) CHECK_EQ(x[l], l < count ? l + 1.0f : 0.0f);
    }
  });
}

HK_TEST(partial_stores_write_nothing_behind) {
  unit::for_each_element([]<class T>() {
    for (int count = 0; count <= lanes; ++count) {
      unit::guarded<T> memory(count);
      hk::simd::store_first(memory.data(), hk::simd::splat(2.0f), count);
      CHECK(memory.intact());
      for (int i = 0; i < count; ++i) CHECK_EQ(hk::to_float(memory[i]), 2.0f);
    }
  });
}

HK_TEST(loads_and_stores_need_no_alignment) {
  unit::for_each_element([]<class T>() {
    for (int shift = 0; shift < lanes; ++shift) {
      unit::guarded<T> memory(2 * lanes);
      for (int i = 0; i < 2 * lanes; ++i) memory[i] = hk::from_float<T>(static_cast<float>(i));
      const f32 x = hk::simd::load(memory.data() + shift);
      hk::simd::store(memory.data() + lanes - shift, x);
      for (int l = 0; l < lanes; ++l) {
        CHECK_EQ(x[l], static_cast<float>(l + shift));
        CHECK_EQ(hk::to_float(memory[l + lanes - shift]), static_cast<float>(l + shift));
      }
    }
  });
}

// Halves are combined until one lane is left.
HK_TEST(reduce_is_a_tree_of_halves) {
  const std::vector<float> values = unit::random_array(lanes, 3);
  std::vector<float> tree = values;
  for (int half = lanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) tree[l] += tree[l + half];
  const f32 x = hk::simd::load(values.data());
  CHECK_EQ(hk::simd::reduce(x, [](f32 a, f32 b) { return a + b; }), tree[0]);
  CHECK_EQ(hk::simd::reduce(x, hk::fn::max), *std::max_element(values.begin(), values.end()));
}

HK_TEST(deinterleave_splits_and_interleave_joins) {
  f32 a, b, even, odd;
  for (int l = 0; l < lanes; ++l) a[l] = static_cast<float>(l);
  for (int l = 0; l < lanes; ++l) b[l] = static_cast<float>(l + lanes);
  hk::simd::deinterleave(even, odd, a, b);
  for (int l = 0; l < lanes; ++l) {
    CHECK_EQ(even[l], static_cast<float>(2 * l));
    CHECK_EQ(odd[l], static_cast<float>(2 * l + 1));
  }
  hk::simd::interleave(even, odd, even, odd);
  for (int l = 0; l < lanes; ++l) {
    CHECK_EQ(even[l], a[l]);
    CHECK_EQ(odd[l], b[l]);
  }
}

HK_TEST(transpose_blocks_exchanges_rows_and_lanes_of_each_block) {
  f32 x[4];
  for (int i = 0; i < 4; ++i)
    for (int l = 0; l < lanes; ++l) x[i][l] = static_cast<float>(i * lanes + l);
  hk::simd::transpose_blocks(x);
  for (int i = 0; i < 4; ++i)
    for (int l = 0; l < lanes; ++l)
      CHECK_EQ(x[i][l], static_cast<float>(l % 4 * lanes + l / 4 * 4 + i));
}

HK_TEST(transpose_exchanges_rows_and_lanes) {
  f32 x[lanes];
  for (int i = 0; i < lanes; ++i)
    for (int l = 0; l < lanes; ++l) x[i][l] = static_cast<float>(i * lanes + l);
  hk::simd::transpose(x);
  for (int i = 0; i < lanes; ++i)
    for (int l = 0; l < lanes; ++l) CHECK_EQ(x[i][l], static_cast<float>(l * lanes + i));
}

HK_TEST(transpose_keeps_any_bits) {
  std::mt19937 generator(5);
  std::uint32_t bits[lanes][lanes];
  f32 x[lanes];
  for (auto& row : bits)
    for (std::uint32_t& b : row) b = static_cast<std::uint32_t>(generator()) | 0x7f800000u;
  std::memcpy(x, bits, sizeof(x));
  hk::simd::transpose(x);
  std::uint32_t after[lanes][lanes];
  std::memcpy(after, x, sizeof(x));
  for (int i = 0; i < lanes; ++i)
    for (int l = 0; l < lanes; ++l) CHECK_EQ(after[i][l], bits[l][i]);
}

namespace {

float exp2_of(float x) { return hk::simd::exp2(hk::simd::splat(x))[0]; }

// The largest relative error of exp2 over `count` floats evenly spread over [low, high].
double exp2_error(float low, float high, int count) {
  double worst = 0.0;
  for (int i = 0; i < count; i += lanes) {
    f32 x;
    for (int l = 0; l < lanes; ++l) x[l] = low + (high - low) * (i + l) / count;
    const f32 y = hk::simd::exp2(x);
    for (int l = 0; l < lanes; ++l)
      worst = std::max(worst, std::abs(y[l] / std::exp2(static_cast<double>(x[l])) - 1.0));
  }
  return worst;
}

}  // namespace

HK_TEST(reduce_each_agrees_with_reduce) {
  const std::vector<float> values = unit::random_array<float>(lanes * lanes, 17);
  f32 x[lanes], sums;
  std::memcpy(x, values.data(), sizeof(x));
  const auto add = [](f32 a, f32 b) { return a + b; };
  for (int i = 0; i < lanes; ++i) sums[i] = hk::simd::reduce(x[i], add);
  const f32 together = hk::simd::reduce_each(x, add);
  CHECK_EQ(std::memcmp(&together, &sums, sizeof(sums)), 0);
}

HK_TEST(exp2_is_accurate_over_its_whole_range) {
  CHECK(exp2_error(-126.0f, std::nextafter(127.5f, 0.0f), 1 << 20) < 2e-7);
  CHECK(exp2_error(-1.0f, 1.0f, 1 << 18) < 2e-7);
  CHECK(exp2_error(-1e-6f, 1e-6f, 1 << 12) < 2e-7);
}

HK_TEST(exp2_of_integers_is_exact) {
  for (int n = -126; n <= 127; ++n) CHECK_EQ(exp2_of(static_cast<float>(n)), std::ldexp(1.0f, n));
}

HK_TEST(exp2_ends_in_zero_and_infinity) {
  CHECK(unit::same(exp2_of(std::nextafter(-126.5f, -200.0f)), 0.0f));
  CHECK_EQ(exp2_of(std::nextafter(127.5f, 200.0f)), unit::infinity);
  for (float x : {127.6f, 128.0f, 129.0f, 1e5f, 1e9f, 1e38f, unit::infinity}) {
    CHECK_EQ(exp2_of(x), unit::infinity);
    CHECK(unit::same(exp2_of(-x), 0.0f));
  }
  CHECK(std::isnan(exp2_of(unit::nan)));
  CHECK_EQ(exp2_of(-0.0f), 1.0f);
  CHECK_EQ(exp2_of(std::numeric_limits<float>::denorm_min()), 1.0f);
}

#if defined(HK_HOST_ISA_AVX512_BF16)
HK_TEST(dot_pairs_adds_two_products_to_each_lane) {
  const std::vector<hk::bf16> a = unit::random_array<hk::bf16>(2 * lanes, 11);
  const std::vector<hk::bf16> b = unit::random_array<hk::bf16>(2 * lanes, 12);
  i32 a_pairs, b_pairs;
  std::memcpy(&a_pairs, a.data(), sizeof(a_pairs));
  std::memcpy(&b_pairs, b.data(), sizeof(b_pairs));
  const f32 sum = hk::simd::dot_pairs(a_pairs, b_pairs, hk::simd::splat(0.5f));
  const std::vector<double> x = unit::to_double(a), y = unit::to_double(b);
  for (int l = 0; l < lanes; ++l)
    CHECK_CLOSE(sum[l], 0.5 + x[2 * l] * y[2 * l] + x[2 * l + 1] * y[2 * l + 1], 1e-6);
}
#endif
