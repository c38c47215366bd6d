#include "hk/kernels/random/philox.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hk/kernels/norm/dropout.h"
#include "tests/include/hk/kernels/norm/oracle.h"
#include "tests/unit.h"

namespace {

using hk::philox::key;

struct known_answer {
  std::uint32_t counter[4];
  std::uint32_t key[2];
  std::uint32_t random[4];
};

// Published with the authors' Random123 library for philox4x32-10.
constexpr known_answer known_answers[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

HK_TEST(philox_known_answers) {
  for (const known_answer& known : known_answers) {
    std::uint64_t c[4];
    std::copy_n(known.counter, 4, c);
    hk::philox::generate(c, key{{known.key[0], known.key[1]}});
    for (int i = 0; i < 4; ++i) CHECK_EQ(static_cast<std::uint32_t>(c[i]), known.random[i]);
  }
}

HK_TEST(philox_known_answers_in_every_lane) {
  for (const known_answer& known : known_answers) {
    hk::fragment::u64 c[4];
    for (int i = 0; i < 4; ++i) c[i] = (hk::fragment::u64)hk::fragment::splat(known.counter[i]);
    hk::philox::generate(c, key{{known.key[0], known.key[1]}});
    for (int i = 0; i < 4; ++i)
      for (int lane = 0; lane < hk::fragment::lanes / 2; ++lane)
        CHECK_EQ(static_cast<std::uint32_t>(c[i][lane]), known.random[i]);
  }
}

// The lowest groups, and those where the counter's low word overflows inside a piece.
HK_TEST(draws_are_in_the_elements_order) {
  const std::uint32_t seed[2] = {0x243f6a88, 0x85a308d3};
  for (const std::uint64_t group : {0ull, 5ull, 0xfffffffeull, 0x1ffffffffull}) {
    hk::fragment::u32 draws[4];
    hk::norm::draw(draws, group, key{{seed[0], seed[1]}});
    for (int j = 0; j < hk::norm::piece; ++j) {
      const std::uint32_t expected = norm_oracle::philox(group + j / 4, seed)[j % 4];
      CHECK_EQ(draws[j / hk::fragment::lanes][j % hk::fragment::lanes], expected);
    }
  }
}

HK_TEST(dropout_of_rows_that_start_inside_a_group) {
  const std::uint32_t seed[2] = {1, 2};
  for (const std::int64_t first : {0ll, 1ll, 2ll, 3ll, 4ll, 17179869180ll}) {
    hk::norm::dropout mask(seed, 0.3f, first);
    for (int call = 0; call < 3; ++call) {
      hk::norm::vec v;
      hk::one(v);
      mask.apply(v);
      for (int j = 0; j < hk::norm::piece; ++j) {
        const std::int64_t i = first + call * hk::norm::piece + j;
        CHECK_CLOSE(v[j], norm_oracle::dropout_factor(i, 0.3f, seed), 1e-7);
      }
    }
  }
}

// Neither a rate of 1 nor an infinite input makes NaN of a dropped element.
HK_TEST(dropout_of_everything_is_zero) {
  const std::uint32_t seed[2] = {1, 2};
  hk::norm::dropout mask(seed, 1.0f, 0);
  hk::norm::vec v;
  hk::pos_infinity(v);
  mask.apply(v);
  for (int j = 0; j < hk::norm::piece; ++j) CHECK_EQ(v[j], 0.0f);
}

}  // namespace
