// Orders of shared tiles: bijective, invertible, as the readers address them, and without bank
// conflicts for each instruction that fills or reads them.
#include "hk/arch/cdna/swizzle.h"

#include "tests/include/hk/arch/cdna/banks.h"
#include "tests/unit.h"

namespace {

using namespace hk::cdna;
using lanes = std::array<uint32_t, 64>;

template <class F>
lanes addresses(F f) {
  lanes all;
  for (int lane = 0; lane < 64; ++lane)
    all[static_cast<size_t>(lane)] = static_cast<uint32_t>(f(lane));
  return all;
}

template <class F>
void check_free(const banks::form& form, int bytes, F address) {
  CHECK_EQ(banks::most_words(form, addresses(address), bytes), 1);
}

// Chunks of outer x chunks go to distinct places, and at() finds them again.
template <class Order>
void check_order(int outer, int chunks) {
  std::vector<int> hits(static_cast<size_t>(outer * chunks), 0);
  for (int o = 0; o < outer; ++o)
    for (int c = 0; c < chunks; ++c) {
      const int byte = Order::offset(o, c);
      CHECK_EQ(byte % 16, 0);
      CHECK(byte >= 0 && byte < outer * chunks * 16);
      ++hits[static_cast<size_t>(byte / 16)];
      const place at = Order::at(byte);
      CHECK_EQ(Order::terms_adjacent ? at.row : at.col, o);
      CHECK_EQ(Order::terms_adjacent ? at.col : at.row, 8 * c);
    }
  for (const int n : hits) CHECK_EQ(n, 1);
}

template <int Rows>
void check_transposing_reads() {
  using order = row_major<Rows>;
  for (int pair = 0; pair < Rows / 16; ++pair)
    for (int half = 0; half < 2; ++half)
      for (int upper = 0; upper < 2; ++upper) {
        const auto address = [=](int lane) {
          const place at = transposing_read_place(lane);
          const int k = 32 * half + 8 * (lane / 16) + 4 * upper + at.row;
          const int row = 16 * pair + at.col;
          return order::offset(k, row / 8) + row % 8 * 2;
        };
        check_free(banks::transposing_read, 8, address);
        // As tiles.h writes it: an XOR of the pair, and constants for half and upper.
        for (int lane = 0; lane < 64; ++lane) {
          const place at = transposing_read_place(lane);
          const int k = 8 * (lane / 16) + at.row;
          const int base = k * order::term_bytes + 2 * at.col;
          CHECK_EQ(base + ((32 * pair) ^ (32 * order::f(k))) +
                       (32 * half + 4 * upper) * order::term_bytes,
                   address(lane));
        }
      }
}

}  // namespace

HK_TEST(orders_are_bijective_and_invertible) {
  check_order<term_major>(256, 8);
  check_order<row_major<64>>(64, 8);
  check_order<row_major<128>>(64, 16);
}

HK_TEST(reads_of_adjacent_terms_meet_on_no_bank) {
  for (int first = 0; first < 256; first += 16)
    for (int half = 0; half < 2; ++half) {
      const auto address = [=](int lane) {
        return term_major::offset(first + lane % 16, lane / 16 + 4 * half);
      };
      check_free(banks::read_b128, 16, address);
      check_free(banks::old_read_b128, 16, address);
      check_free(banks::old_read_b128_by_quads, 16, address);
    }
}

HK_TEST(two_address_registers_serve_all_fragments) {
  for (int first = 0; first < 256; first += 16)
    for (int lane = 0; lane < 64; ++lane) {
      const int even = term_major::offset(first + lane % 16, lane / 16);
      for (int i = 0; i < 8; ++i)
        for (int half = 0; half < 2; ++half)
          CHECK_EQ(((i & 1) == half ? even : even ^ 64) + i * 16 * term_major::row_bytes,
                   term_major::offset(first + 16 * i + lane % 16, lane / 16 + 4 * half));
    }
}

HK_TEST(transposing_reads_meet_on_no_bank) {
  check_transposing_reads<64>();
  check_transposing_reads<128>();
}

HK_TEST(staged_writes_meet_on_no_bank) {
  for (int wave = 0; wave < 8; ++wave) {
    // Terms adjacent: 8 threads a row.
    check_free(banks::write_b128, 16, [=](int lane) {
      const int thread = 64 * wave + lane;
      return term_major::offset(thread / 8, thread % 8);
    });
    // Rows adjacent: 4 terms of 4 or 8 rows a thread.
    for (const int width : {4, 8})
      for (int r = 0; r < width; ++r)
        check_free(banks::write_b64, 8, [=](int lane) {
          const int row = (lane % 4 + wave * 4) * width + r, term = lane / 4 * 4;
          return term_major::offset(row, term / 8) + term % 8 * 2;
        });
  }
}

HK_TEST(strips_of_an_epilogue_meet_on_no_bank) {
  for (int j = 0; j < 4; ++j) {
    const auto write = [=](int lane) { return result_strip::offset(lane % 16, 4 * j + lane / 16); };
    check_free(banks::write_b128, 16, write);
    check_free(banks::in_order(64, 16), 16, write);
  }
  for (int first = 0; first < 64; first += 8)
    for (int h = 0; h < 2; ++h) {
      const auto read = [=](int lane) {
        return result_strip::offset(first + lane / 8, lane % 8 * 2 + h);
      };
      check_free(banks::read_b128, 16, read);
      check_free(banks::old_read_b128, 16, read);
    }
}
