// Register vectors: element j is lane j % lanes of fragment j / lanes, whatever the length.
#include "hk/types/register_vector.h"

#include "tests/include/hk/support.h"

namespace {

using hk::simd::lanes;

template <int N>
void check_vector() {
  hk::rv<float, N> v;
  static_assert(hk::register_vector<hk::rv<float, N>>);
  CHECK_EQ(v.length, N);
  CHECK_EQ(v.fragments, (N + lanes - 1) / lanes);
  for (int i = 0; i < v.fragments; ++i) v.set(i, hk::simd::splat(static_cast<float>(i)));
  for (int j = 0; j < N; ++j) CHECK_EQ(v[j], static_cast<float>(j / lanes));
  for (int j = 0; j < N; ++j) v[j] = static_cast<float>(j);
  for (int j = 0; j < N; ++j) CHECK_EQ(v.get(j / lanes)[j % lanes], static_cast<float>(j));
  CHECK(v.elements() == &v[0]);
}

template <int N>
void check_index_vector() {
  hk::iv<N> v;
  CHECK_EQ(v.fragments, (N + lanes - 1) / lanes);
  for (int i = 0; i < v.fragments; ++i) v.set(i, hk::simd::splat(i));
  for (int j = 0; j < N; ++j) CHECK_EQ(v[j], j / lanes);
  for (int j = 0; j < N; ++j) v[j] = INT32_MAX - j;
  for (int j = 0; j < N; ++j) CHECK_EQ(v.get(j / lanes)[j % lanes], INT32_MAX - j);
}

}  // namespace

static_assert(!hk::register_vector<hk::rt<float, 4, 16>> && !hk::register_vector<float>);

HK_TEST(elements_are_lanes_of_fragments) {
  check_vector<1>();
  check_vector<lanes - 1>();
  check_vector<lanes>();
  check_vector<lanes + 1>();
  check_vector<5 * lanes - 2>();
}

HK_TEST(indices_are_lanes_of_fragments) {
  check_index_vector<1>();
  check_index_vector<lanes>();
  check_index_vector<5 * lanes - 2>();
}
