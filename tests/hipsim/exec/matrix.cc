// Matrix instructions: D = A B + C over all lanes, whatever EXEC says.
//
// An instruction multiplies `blocks` matrices of dim x depth and depth x dim. With G = 64 / (dim
// blocks) groups of lanes per block, lane l holds of A
//   row i = l % dim, block b = l / dim % blocks, terms of group g = l / dim / blocks,
// and of B column i likewise. Element e of a lane is term g (depth / G) + e; fp8 operands of the
// f8f6f4 instructions come in two runs of 16: term 16 G (e / 16) + 16 g + e % 16.
//
// Of D, H = 4 successive rows (1 for f64) lie in successive registers. Blocks that fit beside each
// other in the lanes number P = ceil(64 H / dim^2); they leave S = 64 / P / dim groups for rows:
//   register  i % H + H (i / (H S) + dim / (H S) (b / P))
//   lane      j + dim (i / H % S + S (b % P))
//
// Products are exact in the type that they are summed in (f32, or f64 for f32 operands); their
// order is the terms', which no chip promises.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "tests/hipsim/exec/half.h"
#include "tests/hipsim/exec/small_float.h"
#include "tests/hipsim/exec/wave.h"

namespace hipsim {
namespace {

enum class Type : uint8_t { kF64, kF32, kXf32, kF16, kBf16, kFp8, kBf8, kFp6, kBf6, kFp4, kI8 };

constexpr int kBits[] = {64, 32, 32, 16, 16, 8, 8, 6, 6, 4, 8};
int bits_of(Type type) { return kBits[static_cast<int>(type)]; }

struct Shape {
  int dim;
  int depth;
  int blocks;

  int groups() const { return kLanes / (dim * blocks); }
  int elements() const { return depth / groups(); }  // of a lane
};

// The value of an 8-bit or smaller pattern on a chip.
const SmallTable& table_of(Type type, Chip chip) {
  static const SmallTable ocp[] = {MakeSmallTable(kE4m3Ocp), MakeSmallTable(kE5m2Ocp),
                                   MakeSmallTable(kE2m3), MakeSmallTable(kE3m2),
                                   MakeSmallTable(kE2m1)};
  static const SmallTable fnuz[] = {MakeSmallTable(kE4m3Fnuz), MakeSmallTable(kE5m2Fnuz)};
  const int i = static_cast<int>(type) - static_cast<int>(Type::kFp8);
  return chip == Chip::kGfx942 && i < 2 ? fnuz[i] : ocp[i];
}

// Rounds to the 10 mantissa bits that xf32 products are made of, ties to even.
float to_xf32(uint32_t bits) {
  if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// `count` bits of a lane's registers, from bit `at` on; count is at most 32.
uint32_t bits_at(const uint32_t* dwords, int at, int count) {
  const int word = at / 32, shift = at % 32;
  uint64_t both = dwords[word] >> shift;
  if (shift + count > 32) both |= uint64_t{dwords[word + 1]} << (32 - shift);
  return static_cast<uint32_t>(both & ((uint64_t{1} << count) - 1));
}

template <typename Value>
inline __attribute__((always_inline)) Value element_of(Type type, const uint32_t* dwords, int e,
                                                       Chip chip) {
  const int bits = bits_of(type);
  if (type == Type::kF64) {
    double value;
    std::memcpy(&value, dwords + 2 * e, sizeof value);
    return static_cast<Value>(value);
  }
  const uint32_t pattern = bits_at(dwords, e * bits, bits);
  switch (type) {
    case Type::kF32: {
      float value;
      std::memcpy(&value, &pattern, sizeof value);
      return static_cast<Value>(value);
    }
    case Type::kXf32:
      return static_cast<Value>(to_xf32(pattern));
    case Type::kF16:
      return static_cast<Value>(HalfToFloat(static_cast<uint16_t>(pattern)));
    case Type::kBf16:
      return static_cast<Value>(Bf16ToFloat(static_cast<uint16_t>(pattern)));
    case Type::kI8:
      return static_cast<Value>(static_cast<int8_t>(pattern));
    default:
      return static_cast<Value>(table_of(type, chip)[pattern]);
  }
}

int term_of(Type type, const Shape& shape, int group, int e, bool in_runs) {
  if (in_runs && bits_of(type) == 8) return 16 * shape.groups() * (e / 16) + 16 * group + e % 16;
  return group * shape.elements() + e;
}

// The lane that lane l's part of an operand really comes from: CBSZ repeats one block of A for
// 2^CBSZ, BLGP moves lanes of B.
int source_of_a(const Instruction& in, const Shape& shape, int l) {
  if (in.cbsz == 0 || shape.blocks == 1) return l;
  const int block = l / shape.dim % shape.blocks;
  const int from = (block & ~((1 << in.cbsz) - 1)) + (in.abid & ((1 << in.cbsz) - 1));
  return l + (from - block) * shape.dim;
}

int source_of_b(const Instruction& in, int l) {
  switch (in.blgp) {
    case 1:
      return l % 32;
    case 2:
      return 32 + l % 32;
    case 3:
      return (l + 16) % kLanes;
    case 4:
    case 5:
    case 6:
    case 7:
      return 16 * (in.blgp - 4) + l % 16;
    default:
      return l;
  }
}

// One operand: value of (row or column, term) of each block, and which rows are undefined.
template <typename Value>
struct Matrix {
  std::vector<Value> value;        // [blocks][depth][dim]
  std::vector<uint8_t> undefined;  // [blocks][dim]
};

template <typename Value, typename Source>
inline __attribute__((always_inline)) void load_matrix(const Wave& wave, const Operand& operand,
                                                       Type type, const Shape& shape, bool in_runs,
                                                       Source source, Matrix<Value>& out) {
  const int dwords = shape.elements() * bits_of(type) / 32;
  out.value.resize(size_t{1} * shape.blocks * shape.depth * shape.dim);
  out.undefined.assign(size_t{1} * shape.blocks * shape.dim, 0);
  std::array<const VectorRegister*, 16> registers;
  std::array<VectorRegister, 2> room;
  uint64_t undefined = 0;
  for (int d = 0; d < dwords; ++d) {
    registers[d] = &wave.read_vector(operand, d, room[d % 2]);
    undefined |= wave.read_vector_undefined(operand, d);
  }
  for (int l = 0; l < kLanes; ++l) {
    const int from = source(l), row = l % shape.dim, block = l / shape.dim % shape.blocks;
    const int group = l / shape.dim / shape.blocks;
    uint32_t lane[17];
    for (int d = 0; d < dwords; ++d) lane[d] = (*registers[d])[from];
    lane[dwords] = 0;
    Value* const to = &out.value[size_t{1} * block * shape.depth * shape.dim + row];
    for (int e = 0; e < shape.elements(); ++e)
      to[term_of(type, shape, group, e, in_runs) * shape.dim] =
          element_of<Value>(type, lane, e, wave.chip);
    if (undefined >> from & 1) out.undefined[block * shape.dim + row] = 1;
  }
}

// d[i][j] += sum over k of a[k][i] b[k][j].
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void multiply(float* d, const float* a, const float* b, int dim, int depth) {
  for (int i = 0; i < dim; ++i)
    for (int k = 0; k < depth; ++k) {
      const float factor = a[k * dim + i];
      for (int j = 0; j < dim; ++j) d[i * dim + j] += factor * b[k * dim + j];
    }
}

void multiply(double* d, const double* a, const double* b, int dim, int depth) {
  for (int i = 0; i < dim; ++i)
    for (int k = 0; k < depth; ++k) {
      const double factor = a[k * dim + i];
      for (int j = 0; j < dim; ++j)
        d[i * dim + j] = std::fma(factor, b[k * dim + j], d[i * dim + j]);
    }
}

void multiply(int32_t* d, const int32_t* a, const int32_t* b, int dim, int depth) {
  for (int i = 0; i < dim; ++i)
    for (int k = 0; k < depth; ++k)
      for (int j = 0; j < dim; ++j)
        d[i * dim + j] =
            static_cast<int32_t>(static_cast<uint32_t>(d[i * dim + j]) +
                                 static_cast<uint32_t>(a[k * dim + i] * b[k * dim + j]));
}

// Where an element of the result lies.
struct Place {
  int element;  // of the lane's, each of one or two dwords
  int lane;
};

Place place_of(const Shape& shape, int rows_together, int block, int i, int j) {
  const int beside = std::max(1, kLanes * rows_together / (shape.dim * shape.dim));
  const int spread = kLanes / beside / shape.dim;
  const int height = rows_together * spread;
  return {i % rows_together + rows_together * (i / height + shape.dim / height * (block / beside)),
          j + shape.dim * (i / rows_together % spread + spread * (block % beside))};
}

// Reads C, which may be a constant, or writes D; as Result, 4 or 8 bytes.
template <typename Result>
Result read_result(const Wave& wave, const Operand& c, const Place& at) {
  Result value;
  if (c.kind == OperandKind::kVector) {
    uint32_t dwords[2];
    constexpr int kDwords = sizeof(Result) / 4;
    for (int d = 0; d < kDwords; ++d)
      dwords[d] = wave.vgpr[c.index + at.element * kDwords + d][at.lane];
    std::memcpy(&value, dwords, sizeof value);
  } else {
    const uint64_t bits = wave.read_scalar(c);
    std::memcpy(&value, &bits, sizeof value);
  }
  return value;
}

template <typename Result>
bool result_is_undefined(const Wave& wave, const Operand& c, const Place& at) {
  if (c.kind != OperandKind::kVector) return false;
  uint64_t undefined = 0;
  for (size_t d = 0; d < sizeof(Result) / 4; ++d)
    undefined |= wave.vgpr_undefined[c.index + at.element * (sizeof(Result) / 4) + d];
  return undefined >> at.lane & 1;
}

template <typename Result>
void write_result(Wave& wave, const Operand& dst, const Place& at, Result value, bool undefined) {
  uint32_t dwords[2];
  std::memcpy(dwords, &value, sizeof value);
  for (size_t d = 0; d < sizeof(Result) / 4; ++d) {
    const size_t index = dst.index + at.element * (sizeof(Result) / 4) + d;
    wave.vgpr[index][at.lane] = dwords[d];
    const uint64_t bit = uint64_t{1} << at.lane;
    wave.vgpr_undefined[index] =
        undefined ? wave.vgpr_undefined[index] | bit : wave.vgpr_undefined[index] & ~bit;
  }
}

// The places of all elements, block by block and row by row.
template <int kDim, int kBlocks, int kTogether>
const std::array<Place, kBlocks * kDim * kDim>& places() {
  static const auto table = [] {
    std::array<Place, kBlocks * kDim * kDim> all;
    for (int n = 0; n < kBlocks * kDim * kDim; ++n)
      all[n] =
          place_of({kDim, 0, kBlocks}, kTogether, n / (kDim * kDim), n / kDim % kDim, n % kDim);
    return all;
  }();
  return table;
}

// Sums are kept in Sum while Result is what the registers hold.
template <typename Result, int kDim, int kDepth, int kBlocks, typename Sum>
void accumulate(Wave& wave, const Instruction& in, const Matrix<Sum>& a, const Matrix<Sum>& b) {
  constexpr int kPlane = kDim * kDim, kPanel = kDim * kDepth, kCount = kBlocks * kPlane;
  const auto& place = places<kDim, kBlocks, sizeof(Result) == 8 ? 1 : 4>();
  const bool negated = std::is_same_v<Result, double> && in.blgp & 4;
  alignas(64) std::array<Sum, kCount> d;
  std::array<uint8_t, kCount> undefined;
  for (int n = 0; n < kCount; ++n) {
    const auto c = static_cast<Sum>(read_result<Result>(wave, in.src[2], place[n]));
    d[n] = negated ? -c : c;
    undefined[n] = result_is_undefined<Result>(wave, in.src[2], place[n]) ||
                   a.undefined[n / kDim] || b.undefined[n / kPlane * kDim + n % kDim];
  }
  for (int block = 0; block < kBlocks; ++block)
    multiply(&d[block * kPlane], &a.value[block * kPanel], &b.value[block * kPanel], kDim, kDepth);
  for (int n = 0; n < kCount; ++n)
    write_result(wave, in.dst, place[n], static_cast<Result>(d[n]), undefined[n] != 0);
}

template <typename Sum, typename Result, Type kType, int kDim, int kDepth, int kBlocks,
          Type kOther = kType>
void mfma(Wave& wave, const Instruction& in) {
  constexpr Shape shape{kDim, kDepth, kBlocks};
  thread_local Matrix<Sum> a, b;
  const bool is_f64 = kType == Type::kF64;
  const auto from_b = [&](int l) { return is_f64 ? l : source_of_b(in, l); };
  load_matrix(
      wave, in.src[0], kType, shape, false, [&](int l) { return source_of_a(in, shape, l); }, a);
  load_matrix(wave, in.src[1], kOther, shape, false, from_b, b);
  if (is_f64 && in.blgp & 1)
    for (Sum& x : a.value) x = -x;
  if (is_f64 && in.blgp & 2)
    for (Sum& x : b.value) x = -x;
  accumulate<Result, kDim, kDepth, kBlocks>(wave, in, a, b);
}

// ---- f8f6f4, with or without scales of 32 terms each

Type small_type(int format) {
  constexpr Type kTypes[] = {Type::kFp8, Type::kBf8, Type::kFp6, Type::kBf6, Type::kFp4};
  if (format > 4) throw Fault("matrix format " + std::to_string(format) + " does not exist");
  return kTypes[format];
}

// 2^(byte - 127) of the scale of each row (or column) and 32 terms; 255 is NaN.
template <int kDim>
void scale_rows(const Wave& wave, const Operand& operand, int byte, int depth,
                Matrix<float>& matrix) {
  VectorRegister room;
  const VectorRegister& scales = wave.read_vector(operand, 0, room);
  const uint64_t undefined = wave.read_vector_undefined(operand, 0);
  for (int l = 0; l < kLanes; ++l) {
    const uint32_t exponent = scales[l] >> (8 * byte) & 255;
    const float scale = exponent == 255 ? std::numeric_limits<float>::quiet_NaN()
                                        : std::ldexp(1.0f, static_cast<int>(exponent) - 127);
    const int row = l % kDim, first = 32 * (l / kDim);
    for (int k = first; k < std::min(first + 32, depth); ++k) matrix.value[k * kDim + row] *= scale;
    if (undefined >> l & 1) matrix.undefined[row] = true;
  }
}

template <int kDim, int kDepth, bool kScaled>
void mfma_small(Wave& wave, const Instruction& in) {
  constexpr Shape shape{kDim, kDepth, 1};
  thread_local Matrix<float> a, b;
  const auto as_is = [](int l) { return l; };
  load_matrix(wave, in.src[0], small_type(in.cbsz), shape, true, as_is, a);
  load_matrix(wave, in.src[1], small_type(in.blgp), shape, true, as_is, b);
  if (kScaled) {
    const auto byte = [&](int i) {
      return (in.scale_op_sel >> i & 1) | (in.scale_op_sel_hi >> i & 1) << 1;
    };
    scale_rows<kDim>(wave, in.src[3], byte(0), kDepth, a);
    scale_rows<kDim>(wave, in.src[4], byte(1), kDepth, b);
  }
  accumulate<float, kDim, kDepth, 1>(wave, in, a, b);
}

// ---- Which instruction does what

struct Entry {
  std::string_view name;
  Execute execute;
};

template <int kDim, int kDepth, int kBlocks = 1>
constexpr Execute f16 = mfma<float, float, Type::kF16, kDim, kDepth, kBlocks>;
template <int kDim, int kDepth, int kBlocks = 1>
constexpr Execute bf16 = mfma<float, float, Type::kBf16, kDim, kDepth, kBlocks>;
template <int kDim, int kDepth, int kBlocks = 1>
constexpr Execute f32 = mfma<double, float, Type::kF32, kDim, kDepth, kBlocks>;
template <int kDim, int kDepth>
constexpr Execute xf32 = mfma<double, float, Type::kXf32, kDim, kDepth, 1>;
template <int kDim, int kDepth, int kBlocks = 1>
constexpr Execute i8 = mfma<int32_t, int32_t, Type::kI8, kDim, kDepth, kBlocks>;
template <int kDim, int kDepth, int kBlocks = 1>
constexpr Execute f64 = mfma<double, double, Type::kF64, kDim, kDepth, kBlocks>;
template <Type kA, Type kB, int kDim, int kDepth>
constexpr Execute f8 = mfma<float, float, kA, kDim, kDepth, 1, kB>;

const Entry kEntries[] = {
    {"v_mfma_f32_16x16x128_f8f6f4", mfma_small<16, 128, false>},
    {"v_mfma_f32_32x32x64_f8f6f4", mfma_small<32, 64, false>},
    {"v_mfma_scale_f32_16x16x128_f8f6f4", mfma_small<16, 128, true>},
    {"v_mfma_scale_f32_32x32x64_f8f6f4", mfma_small<32, 64, true>},
    {"v_mfma_f32_16x16x32_bf16", bf16<16, 32>},
    {"v_mfma_f32_32x32x16_bf16", bf16<32, 16>},
    {"v_mfma_f32_32x32x8_bf16", bf16<32, 8>},
    {"v_mfma_f32_16x16x16_bf16", bf16<16, 16>},
    {"v_mfma_f32_32x32x4_2b_bf16", bf16<32, 4, 2>},
    {"v_mfma_f32_16x16x4_4b_bf16", bf16<16, 4, 4>},
    {"v_mfma_f32_4x4x4_16b_bf16", bf16<4, 4, 16>},
    {"v_mfma_f32_16x16x32_f16", f16<16, 32>},
    {"v_mfma_f32_32x32x16_f16", f16<32, 16>},
    {"v_mfma_f32_32x32x8_f16", f16<32, 8>},
    {"v_mfma_f32_16x16x16_f16", f16<16, 16>},
    {"v_mfma_f32_32x32x4_2b_f16", f16<32, 4, 2>},
    {"v_mfma_f32_16x16x4_4b_f16", f16<16, 4, 4>},
    {"v_mfma_f32_4x4x4_16b_f16", f16<4, 4, 16>},
    {"v_mfma_f32_32x32x1_2b_f32", f32<32, 1, 2>},
    {"v_mfma_f32_16x16x1_4b_f32", f32<16, 1, 4>},
    {"v_mfma_f32_4x4x1_16b_f32", f32<4, 1, 16>},
    {"v_mfma_f32_32x32x2_f32", f32<32, 2>},
    {"v_mfma_f32_16x16x4_f32", f32<16, 4>},
    {"v_mfma_f32_16x16x8_xf32", xf32<16, 8>},
    {"v_mfma_f32_32x32x4_xf32", xf32<32, 4>},
    {"v_mfma_i32_16x16x64_i8", i8<16, 64>},
    {"v_mfma_i32_32x32x32_i8", i8<32, 32>},
    {"v_mfma_i32_32x32x16_i8", i8<32, 16>},
    {"v_mfma_i32_16x16x32_i8", i8<16, 32>},
    {"v_mfma_i32_32x32x4_2b_i8", i8<32, 4, 2>},
    {"v_mfma_i32_16x16x4_4b_i8", i8<16, 4, 4>},
    {"v_mfma_i32_4x4x4_16b_i8", i8<4, 4, 16>},
    {"v_mfma_f64_16x16x4_f64", f64<16, 4>},
    {"v_mfma_f64_4x4x4_4b_f64", f64<4, 4, 4>},
    {"v_mfma_f32_16x16x32_bf8_bf8", f8<Type::kBf8, Type::kBf8, 16, 32>},
    {"v_mfma_f32_16x16x32_bf8_fp8", f8<Type::kBf8, Type::kFp8, 16, 32>},
    {"v_mfma_f32_16x16x32_fp8_bf8", f8<Type::kFp8, Type::kBf8, 16, 32>},
    {"v_mfma_f32_16x16x32_fp8_fp8", f8<Type::kFp8, Type::kFp8, 16, 32>},
    {"v_mfma_f32_32x32x16_bf8_bf8", f8<Type::kBf8, Type::kBf8, 32, 16>},
    {"v_mfma_f32_32x32x16_bf8_fp8", f8<Type::kBf8, Type::kFp8, 32, 16>},
    {"v_mfma_f32_32x32x16_fp8_bf8", f8<Type::kFp8, Type::kBf8, 32, 16>},
    {"v_mfma_f32_32x32x16_fp8_fp8", f8<Type::kFp8, Type::kFp8, 32, 16>},
};

}  // namespace

Execute find_matrix(const Instruction& instruction) {
  if (instruction.kind != Class::kMfma) return nullptr;
  for (const Entry& entry : kEntries)
    if (entry.name == instruction.name()) return entry.execute;
  return nullptr;
}

}  // namespace hipsim
