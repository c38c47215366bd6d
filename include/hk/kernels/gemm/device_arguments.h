// What the GEMM kernels of a GPU are given: plain data, the same for the host that fills it in
// (device_plan.h) and the device that reads it. Addresses are 64-bit numbers.
#pragma once

#include <cstdint>

namespace hk {

// A product of one launch. Rows of an array are as its layout says: a is [M, K] or [K, M] and so
// on. Strides are in bytes.
struct gemm_arguments {
  uint64_t a;
  uint64_t b;
  uint64_t c;              // the result, or the workspace of partial sums, in f32, where splits > 1
  uint64_t z;              // the pre-activation, or 0
  uint64_t bias;           // or 0
  int64_t a_entry_stride;  // from one batch entry to the next; 0 where one matrix serves all
  int64_t b_entry_stride;
  int64_t bias_entry_stride;
  int32_t m;
  int32_t n;
  int32_t k;
  int32_t batch;
  int32_t row_tiles;  // of C: ceil(m / tile rows)
  int32_t col_tiles;
  int32_t splits;       // parts that K is cut into
  int32_t split_terms;  // terms of each part but the last; a multiple of 64
  int32_t grid_width;   // workgroup (x, y) has the number x + grid_width y
  int32_t chunk_log2;   // remap.h
  int32_t group;        // remap.h
  int8_t act;           // activation
  int8_t c_type;        // dtype of c, as this launch writes it, and of z
  int8_t bias_type;
  int8_t vectors;  // whether rows of c and z are aligned, and made of runs of 8 elements
  int8_t a_words;  // whether all rows of a are aligned to, and whole, words of 4 bytes
  int8_t b_words;
};

// The sum over the parts of K, in order, of partial sums [splits, batch, m, n], and the epilogue.
struct gemm_reduction_arguments {
  uint64_t partials;
  uint64_t c;
  uint64_t z;
  uint64_t bias;
  int64_t bias_entry_stride;
  int32_t m;
  int32_t n;
  int32_t batch;
  int32_t splits;
  int32_t grid_width;
  int8_t act;
  int8_t c_type;
  int8_t bias_type;
  int8_t vectors;
};

}  // namespace hk
