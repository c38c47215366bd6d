// Lane maps of the matrix instructions: bijective, as the instruction set's manual has them, and
// consistent with the product that they are for.
#include "hk/arch/cdna/lane_map.h"

#include "hk/arch/cdna/gfx942.h"
#include "hk/arch/cdna/gfx950.h"
#include "tests/unit.h"

namespace {

using namespace hk::cdna;

// Calls map(lane, element) for all, and checks that every place of rows x cols is hit once.
template <class Map>
void check_bijective(Map map, int elements, int rows, int cols) {
  std::vector<int> hits(static_cast<size_t>(rows * cols), 0);
  for (int lane = 0; lane < wave_lanes; ++lane)
    for (int e = 0; e < elements; ++e) {
      const place at = map(lane, e);
      CHECK(at.row >= 0 && at.row < rows && at.col >= 0 && at.col < cols);
      ++hits[static_cast<size_t>(at.row * cols + at.col)];
    }
  for (const int n : hits) CHECK_EQ(n, 1);
}

// What an instruction of `terms` terms computes, from the manual's maps alone: adds to d.
void execute(int terms, const std::vector<double>& a, const std::vector<double>& b,
             std::vector<double>& d) {
  const int elements = terms / 4;
  double matrix_a[16][32] = {}, matrix_b[16][32] = {};
  for (int lane = 0; lane < wave_lanes; ++lane)
    for (int e = 0; e < elements; ++e) {
      const place at = instruction_operand_place(terms, lane, e);
      matrix_a[at.row][at.col] = a[static_cast<size_t>(lane * elements + e)];
      matrix_b[at.row][at.col] = b[static_cast<size_t>(lane * elements + e)];
    }
  for (int lane = 0; lane < wave_lanes; ++lane)
    for (int reg = 0; reg < 4; ++reg) {
      const place at = result_place(lane, reg);
      for (int k = 0; k < terms; ++k)
        d[static_cast<size_t>(lane * 4 + reg)] += matrix_a[at.row][k] * matrix_b[at.col][k];
    }
}

double value(int row, int term, int salt) { return (row * 37 + term * 11 + salt) % 19 - 9; }

// Elements [first, first + count) of each lane's 8 of a fragment of the matrix value(., ., salt).
std::vector<double> fragment(int first, int count, int salt) {
  std::vector<double> all;
  for (int lane = 0; lane < wave_lanes; ++lane)
    for (int e = first; e < first + count; ++e) {
      const place at = operand_place(lane, e);
      all.push_back(value(at.row, at.col, salt));
    }
  return all;
}

// C = A B^T of one pair of fragments, computed as multiply_add does on the chip.
template <chip c>
void check_product() {
  constexpr int terms = traits<c>::mfma_k, elements = terms / 4;
  std::vector<double> d(256, 0.0);
  for (int first = 0; first < fragment_elements; first += elements)
    execute(terms, fragment(first, elements, 5), fragment(first, elements, 3), d);
  for (int lane = 0; lane < wave_lanes; ++lane)
    for (int reg = 0; reg < 4; ++reg) {
      const place at = accumulator_place(lane, reg);  // B is the instruction's first operand
      double expected = 0;
      for (int k = 0; k < fragment_terms; ++k)
        expected += value(at.row, k, 3) * value(at.col, k, 5);
      CHECK_EQ(d[static_cast<size_t>(lane * 4 + reg)], expected);
    }
}

}  // namespace

HK_TEST(every_map_is_a_bijection) {
  check_bijective(operand_place, fragment_elements, fragment_rows, fragment_terms);
  check_bijective(result_place, 4, 16, 16);
  check_bijective(accumulator_place, 4, 16, 16);
  for (const int terms : {16, 32})
    check_bijective([=](int lane, int e) { return instruction_operand_place(terms, lane, e); },
                    terms / 4, 16, terms);
}

HK_TEST(maps_are_those_of_the_manual) {
  for (int lane = 0; lane < wave_lanes; ++lane) {
    for (int e = 0; e < 8; ++e) {
      CHECK(operand_place(lane, e) == instruction_operand_place(32, lane, e));
      CHECK_EQ(operand_place(lane, e).row, lane % 16);
      CHECK_EQ(operand_place(lane, e).col, 8 * (lane / 16) + e);
    }
    for (int e = 0; e < 4; ++e)
      CHECK_EQ(instruction_operand_place(16, lane, e).col, 4 * (lane / 16) + e);
    for (int reg = 0; reg < 4; ++reg) {
      CHECK_EQ(result_place(lane, reg).row, 4 * (lane / 16) + reg);
      CHECK_EQ(result_place(lane, reg).col, lane % 16);
    }
  }
}

HK_TEST(fragments_multiply_to_the_product) {
  check_product<chip::gfx942>();
  check_product<chip::gfx950>();
}

HK_TEST(a_transposing_read_gives_each_lane_four_terms_of_its_row) {
  for (int lane = 0; lane < wave_lanes; ++lane)
    for (int n = 0; n < 4; ++n) {
      const transposed_source from = transposing_read_source(lane, n);
      CHECK_EQ(from.lane / 16, lane / 16);
      const place read = transposing_read_place(from.lane);
      CHECK_EQ(read.row, n);                         // the term
      CHECK_EQ(read.col + from.element, lane % 16);  // the row
    }
}
