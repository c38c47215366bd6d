// Matrix instructions: D = A B + C on one or several blocks held across the lanes of a wave.
//
// With one block, lanes form G = 64 / dim groups; lane l holds row (of A) or column (of B) l % dim
// and K / G consecutive elements of k from group l / dim on. With several blocks each group of
// lanes belongs to one block and holds all its k.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tests/hipsim/exec/lanes.h"
#include "tests/hipsim/exec/small_float.h"
#include "tests/hipsim/isa/opcodes.h"

namespace hipsim {

namespace {

enum class Element : uint8_t { kF64, kF32, kXf32, kF16, kBf16, kI8, kFp8, kBf8, kByFormat };

struct Shape {
  int dim = 0;
  int k = 0;
  int blocks = 1;
  Element a = Element::kF32;
  Element b = Element::kF32;
  bool sparse = false;
};

constexpr int kMaxDim = 32, kMaxK = 128;

// A as [k][row], B as [k][column], C and D as [row][column].
struct Operands {
  alignas(64) float a[kMaxDim * kMaxK];
  alignas(64) float b[kMaxK * kMaxDim];
  alignas(64) float c[kMaxDim * kMaxDim];
};

// c[i][j] += sum over k of a[k][i] * b[k][j].
HIPSIM_INLINE void multiply32_body(const float* a, const float* b, float* c, int k_count) {
  for (int i = 0; i < 32; i += 2) {
    float sum0[32], sum1[32];
    std::memcpy(sum0, c + i * 32, sizeof sum0);
    std::memcpy(sum1, c + i * 32 + 32, sizeof sum1);
    for (int k = 0; k < k_count; ++k) {
      const float x = a[k * 32 + i], y = a[k * 32 + i + 1];
      for (int j = 0; j < 32; ++j) sum0[j] += x * b[k * 32 + j];
      for (int j = 0; j < 32; ++j) sum1[j] += y * b[k * 32 + j];
    }
    std::memcpy(c + i * 32, sum0, sizeof sum0);
    std::memcpy(c + i * 32 + 32, sum1, sizeof sum1);
  }
}

HIPSIM_INLINE void multiply16_body(const float* a, const float* b, float* c, int k_count) {
  for (int i = 0; i < 16; i += 2) {
    float sum0[16], sum1[16];
    std::memcpy(sum0, c + i * 16, sizeof sum0);
    std::memcpy(sum1, c + i * 16 + 16, sizeof sum1);
    for (int k = 0; k < k_count; ++k) {
      const float x = a[k * 16 + i], y = a[k * 16 + i + 1];
      for (int j = 0; j < 16; ++j) sum0[j] += x * b[k * 16 + j];
      for (int j = 0; j < 16; ++j) sum1[j] += y * b[k * 16 + j];
    }
    std::memcpy(c + i * 16, sum0, sizeof sum0);
    std::memcpy(c + i * 16 + 16, sum1, sizeof sum1);
  }
}

HIPSIM_FAST(multiply32, (const float* a, const float* b, float* c, int k_count), (a, b, c, k_count))
HIPSIM_FAST(multiply16, (const float* a, const float* b, float* c, int k_count), (a, b, c, k_count))

void multiply4(const float* a, const float* b, float* c, int k_count) {
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < k_count; ++k)
      for (int j = 0; j < 4; ++j) c[i * 4 + j] += a[k * 4 + i] * b[k * 4 + j];
}

void multiply(const float* a, const float* b, float* c, int dim, int k_count) {
  if (dim == 32) return multiply32(a, b, c, k_count);
  return dim == 16 ? multiply16(a, b, c, k_count) : multiply4(a, b, c, k_count);
}

// ---------------------------------------------------------------------------------------------
// What a name says: v_mfma_f32_32x32x4_2b_f16, v_smfmac_f32_16x16x64_bf8_fp8, ...

Element element_named(std::string_view name) {
  if (name == "f64") return Element::kF64;
  if (name == "f32") return Element::kF32;
  if (name == "xf32") return Element::kXf32;
  if (name == "f16") return Element::kF16;
  if (name == "bf16") return Element::kBf16;
  if (name == "i8") return Element::kI8;
  if (name == "fp8") return Element::kFp8;
  return name == "bf8" ? Element::kBf8 : Element::kByFormat;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

Shape shape_named(std::string_view name) {
  const std::vector<std::string> parts = split(name, '_');
  Shape shape;
  shape.sparse = parts[1] == "smfmac";
  size_t next = parts[2] == "scale" ? 4 : 3;
  const std::vector<std::string> sizes = split(parts[next++], 'x');
  shape.dim = std::stoi(sizes[0]);
  shape.k = std::stoi(sizes[2]);
  if (parts[next].back() == 'b') shape.blocks = std::stoi(parts[next++]);
  shape.a = element_named(parts[next]);
  shape.b = next + 1 < parts.size() ? element_named(parts[next + 1]) : shape.a;
  return shape;
}

// ---------------------------------------------------------------------------------------------
// Elements

const SmallFormat& small_format(const Wave& wave, Element element, int format) {
  static constexpr SmallFormat kFormats[] = {kE4M3, kE5M2, kE2M3, kE3M2, kE2M1};
  const bool fnuz = wave.chip == Chip::kGfx942;
  if (element == Element::kFp8) return fnuz ? kE4M3Fnuz : kE4M3;
  if (element == Element::kBf8) return fnuz ? kE5M2Fnuz : kE5M2;
  if (format > 4) throw Fault("matrix format " + std::to_string(format) + " does not exist");
  return kFormats[format];
}

// Rounds to xf32's 10 bits of mantissa, ties to even.
float to_xf32(uint32_t bits) {
  if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
  return bits_as<float>(bits);
}

// Where an operand's elements come from.
struct Elements {
  const Wave* wave;
  uint16_t base;  // first register
  Element element;
  const float* values = nullptr;  // of a small format
  int bits = 0;

  // Bits [e * bits, (e + 1) * bits) of the lane's registers.
  uint32_t raw(int lane, int e) const {
    const int first = e * bits, shift = first & 31;
    const VectorRegister* registers = &wave->vgpr[base + first / 32];
    uint64_t pair = registers[0][lane];
    if (shift + bits > 32) pair |= uint64_t{registers[1][lane]} << 32;
    return static_cast<uint32_t>(pair >> shift) & static_cast<uint32_t>((uint64_t{1} << bits) - 1);
  }

  // Element e of every lane.
  void load(int e, float* out) const;
};

// Halves of registers to f32, without branches: a denormal is scaled like any number.
HIPSIM_INLINE void load_halves_body(const uint32_t* words, int shift, float* out) {
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t half = words[lane] >> shift;
    const float scaled = bits_as<float>((half & 0x7fff) << 13) * 0x1p112f;
    const uint32_t special = (half & 0x7c00) == 0x7c00 ? 0x7f800000 : 0;
    out[lane] = bits_as<float>(bits_as<uint32_t>(scaled) | special | (half & 0x8000) << 16);
  }
}

HIPSIM_FAST(load_halves, (const uint32_t* words, int shift, float* out), (words, shift, out))

void load_bf16(const uint32_t* words, bool high, float* out) {
  for (int lane = 0; lane < kLanes; ++lane)
    out[lane] = bits_as<float>(high ? words[lane] & 0xffff0000 : words[lane] << 16);
}

void Elements::load(int e, float* out) const {
  const uint32_t* words = wave->vgpr[base + e * bits / 32].lane.data();
  switch (element) {
    case Element::kF32:
      std::memcpy(out, words, kLanes * sizeof(float));
      return;
    case Element::kF16:
      return load_halves(words, 16 * (e & 1), out);
    case Element::kBf16:
      return load_bf16(words, e & 1, out);
    case Element::kXf32:
      for (int lane = 0; lane < kLanes; ++lane) out[lane] = to_xf32(words[lane]);
      return;
    case Element::kI8:
      for (int lane = 0; lane < kLanes; ++lane)
        out[lane] = static_cast<int8_t>(words[lane] >> (8 * (e & 3)));
      return;
    default:
      for (int lane = 0; lane < kLanes; ++lane) out[lane] = values[raw(lane, e)];
  }
}

int element_bits(Element element) {
  switch (element) {
    case Element::kF64:
      return 64;
    case Element::kF32:
    case Element::kXf32:
      return 32;
    case Element::kF16:
    case Element::kBf16:
      return 16;
    default:
      return 8;
  }
}

Elements elements_of(const Wave& wave, const Operand& operand, Element element, int format) {
  Elements elements{&wave, operand.index, element};
  elements.bits = element_bits(element);
  if (element == Element::kFp8 || element == Element::kBf8 || element == Element::kByFormat) {
    const SmallFormat& small = small_format(wave, element, format);
    elements.values = small_values(small).data();
    elements.bits = small.bits();
  }
  return elements;
}

// k of a lane group's element. The 8-bit rows of f8f6f4 come as two runs of 16.
int k_of(const Shape& shape, int group, int groups, int e, int bits) {
  const int each = shape.k / groups;
  if (bits == 8 && shape.a == Element::kByFormat)
    return 16 * groups * (e / 16) + 16 * group + e % 16;
  return group * each + e;
}

// B's lanes as blgp permutes them.
int b_lane(int lane, int blgp) {
  switch (blgp) {
    case 0:
      return lane;
    case 1:
      return lane & 31;
    case 2:
      return lane | 32;
    case 3:
      return (lane + 16) & 63;
    default:
      return (lane & 15) + 16 * (blgp - 4);
  }
}

// Lanes of one block that hold one of its operands, and the k they hold.
struct Placement {
  int first_lane;
  int groups;
};

Placement place(const Shape& shape, int block) {
  if (shape.blocks == 1) return {0, kLanes / shape.dim};
  return {block * shape.dim, 1};
}

// Writes one block as [k][row]: the lanes of a group hold a run of rows.
void gather(const Shape& shape, Placement where, const Elements& elements, int blgp, float* out) {
  alignas(64) float lanes[kLanes], moved[kLanes];
  const int each = shape.k / where.groups;
  for (int e = 0; e < each; ++e) {
    elements.load(e, lanes);
    if (blgp) {
      for (int lane = 0; lane < kLanes; ++lane) moved[lane] = lanes[b_lane(lane, blgp)];
    }
    const float* source = (blgp ? moved : lanes) + where.first_lane;
    for (int g = 0; g < where.groups; ++g) {
      const int k = k_of(shape, g, where.groups, e, elements.bits);
      std::memcpy(out + k * shape.dim, source + g * shape.dim, sizeof(float) * shape.dim);
    }
  }
}

// ---------------------------------------------------------------------------------------------
// C and D

// Row of a block that register r holds in a lane; the column is lane % dim.
int row_of(int dim, int r, int lane) {
  if (dim == 32) return 8 * (r % 16 / 4) + 4 * (lane / 32) + r % 4;
  return dim == 16 ? 4 * (lane / 16) + r % 4 : r;
}

int block_of(const Shape& shape, int r, int lane) {
  if (shape.dim == 32) return r / 16;
  return shape.dim == 16 ? r / 4 : lane / 4;
}

// Calls f(r, first lane, place of that lane's element in its block, block) for runs of `dim` lanes.
template <typename F>
void for_each_run(const Shape& shape, int registers, F f) {
  for (int r = 0; r < registers; ++r)
    for (int lane = 0; lane < kLanes; lane += shape.dim)
      f(r, lane, row_of(shape.dim, r, lane) * shape.dim, block_of(shape, r, lane));
}

uint32_t constant_c(const Wave& wave, const Operand& operand) {
  return static_cast<uint32_t>(wave.read_scalar(operand));
}

// Rows of A and columns of B with an undefined element make their results undefined.
uint64_t undefined_rows(const Wave& wave, const Shape& shape, const Operand& operand, int block) {
  uint64_t lanes = 0, rows = 0;
  for (int d = 0; d < operand.dwords; ++d) lanes |= wave.vgpr_undefined[operand.index + d];
  if (!lanes) return 0;
  const Placement where = place(shape, block);
  for (int lane = 0; lane < where.groups * shape.dim; ++lane)
    rows |= (lanes >> (where.first_lane + lane) & 1) << (lane % shape.dim);
  return rows;
}

struct Undefined {
  uint64_t rows[16] = {};
  uint64_t columns[16] = {};
  bool any = false;
};

Undefined undefined_inputs(const Wave& wave, const Instruction& in, const Shape& shape) {
  Undefined undefined;
  for (int block = 0; block < shape.blocks; ++block) {
    undefined.rows[block] = undefined_rows(wave, shape, in.src[0], block);
    undefined.columns[block] = undefined_rows(wave, shape, in.src[1], block);
    undefined.any |= undefined.rows[block] || undefined.columns[block];
  }
  return undefined;
}

uint64_t undefined_result(const Undefined& undefined, const Shape& shape, int r) {
  if (!undefined.any) return 0;
  uint64_t lanes = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int block = block_of(shape, r, lane);
    const bool bad = undefined.rows[block] >> row_of(shape.dim, r, lane) & 1 ||
                     undefined.columns[block] >> (lane % shape.dim) & 1;
    lanes |= uint64_t{bad} << lane;
  }
  return lanes;
}

const Operand& c_operand(const Instruction& in, const Shape& shape) {
  return shape.sparse ? in.dst : in.src[2];
}

template <typename T>
void load_c(const Wave& wave, const Instruction& in, const Shape& shape, int block, T* c) {
  const Operand& operand = c_operand(in, shape);
  if (operand.kind != OperandKind::kVector) {
    std::fill_n(c, shape.dim * shape.dim, bits_as<T>(constant_c(wave, operand)));
    return;
  }
  for_each_run(shape, in.dst.dwords, [&](int r, int lane, int place, int run_block) {
    if (run_block == block)
      std::memcpy(c + place, &wave.vgpr[operand.index + r].lane[lane], 4 * shape.dim);
  });
}

template <typename T>
void store_d(Wave& wave, const Instruction& in, const Shape& shape, int block, const T* c) {
  for_each_run(shape, in.dst.dwords, [&](int r, int lane, int place, int run_block) {
    if (run_block == block)
      std::memcpy(&wave.vgpr[in.dst.index + r].lane[lane], c + place, 4 * shape.dim);
  });
}

// C's undefined lanes stay so; those of A and B spread along rows and columns.
void set_undefined(Wave& wave, const Instruction& in, const Shape& shape,
                   const Undefined& undefined) {
  const Operand& c = c_operand(in, shape);
  for (int r = 0; r < in.dst.dwords; ++r) {
    const uint64_t from_c = c.kind == OperandKind::kVector ? wave.vgpr_undefined[c.index + r] : 0;
    wave.vgpr_undefined[in.dst.index + r] = from_c | undefined_result(undefined, shape, r);
  }
}

// ---------------------------------------------------------------------------------------------

const Shape& shape_of(const Instruction& in) {
  static const auto shapes = [] {
    std::unordered_map<const Opcode*, Shape> all;
    for (std::span<const Opcode> rows : {kMaiOpcodes, kScaledMaiOpcodes})
      for (const Opcode& row : rows)
        if (std::string_view(row.name).find("fma") != std::string_view::npos)
          all.emplace(&row, shape_named(row.name));
    return all;
  }();
  return shapes.find(in.opcode)->second;
}

// Blocks of A that cbsz broadcasts, the one that abid names.
int a_block(const Instruction& in, int block) {
  return (block >> in.cbsz << in.cbsz) + (in.cbsz ? in.abid : 0);
}

// Multiplies all blocks before any is stored: D may overlap A or B.
template <typename T, typename Product>
void for_each_block(Wave& wave, const Instruction& in, const Shape& shape, Product product) {
  thread_local std::array<T, kLanes * 32> results;
  const Undefined undefined = undefined_inputs(wave, in, shape);
  const int size = shape.dim * shape.dim;
  for (int block = 0; block < shape.blocks; ++block) {
    load_c(wave, in, shape, block, results.data() + block * size);
    product(block, results.data() + block * size);
  }
  set_undefined(wave, in, shape, undefined);
  for (int block = 0; block < shape.blocks; ++block)
    store_d(wave, in, shape, block, results.data() + block * size);
}

void float_product(Wave& wave, const Instruction& in) {
  const Shape& shape = shape_of(in);
  thread_local Operands m;
  const bool by_format = shape.a == Element::kByFormat;
  const Elements a = elements_of(wave, in.src[0], shape.a, in.cbsz);
  const Elements b = elements_of(wave, in.src[1], shape.b, in.blgp);
  const int blgp = by_format ? 0 : in.blgp;
  for_each_block<float>(wave, in, shape, [&](int block, float* c) {
    const int from = by_format ? block : a_block(in, block);
    gather(shape, place(shape, from), a, 0, m.a);
    gather(shape, place(shape, block), b, blgp, m.b);
    multiply(m.a, m.b, c, shape.dim, shape.k);
  });
}

void integer_product(Wave& wave, const Instruction& in) {
  const Shape& shape = shape_of(in);
  thread_local Operands m;
  const Elements a = elements_of(wave, in.src[0], shape.a, 0);
  const Elements b = elements_of(wave, in.src[1], shape.b, 0);
  for_each_block<uint32_t>(wave, in, shape, [&](int block, uint32_t* c) {
    gather(shape, place(shape, a_block(in, block)), a, 0, m.a);
    gather(shape, place(shape, block), b, in.blgp, m.b);
    // At most 128 products below 2^14: exact in f32.
    std::fill_n(m.c, shape.dim * shape.dim, 0.0f);
    multiply(m.a, m.b, m.c, shape.dim, shape.k);
    for (int i = 0; i < shape.dim * shape.dim; ++i)
      c[i] += static_cast<uint32_t>(static_cast<int32_t>(m.c[i]));
  });
}

// ---------------------------------------------------------------------------------------------
// Scaled products: 32 consecutive k share an exponent, held by lane row + dim * (k / 32).

int scale_byte(const Instruction& in, int which) {
  return (in.scale_op_sel >> which & 1) | (in.scale_op_sel_hi >> which & 1) << 1;
}

void load_scales(const Wave& wave, const Instruction& in, int which, double* scales) {
  VectorRegister room;
  const VectorRegister& source = wave.read_vector(in.src[3 + which], 0, room);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int exponent = source[lane] >> (8 * scale_byte(in, which)) & 255;
    scales[lane] = exponent == 255 ? std::numeric_limits<double>::quiet_NaN()
                                   : std::ldexp(1.0, exponent - 127);
  }
}

void require_scales(const Wave& wave, const Instruction& in) {
  for (int which = 0; which < 2; ++which)
    if (wave.read_vector_undefined(in.src[3 + which], 0))
      throw Fault("a scale of the matrix product was never written");
}

void scaled_product(Wave& wave, const Instruction& in) {
  const Shape& shape = shape_of(in);
  thread_local Operands m;
  double a_scale[kLanes], b_scale[kLanes];
  require_scales(wave, in);
  load_scales(wave, in, 0, a_scale);
  load_scales(wave, in, 1, b_scale);
  const Elements a = elements_of(wave, in.src[0], shape.a, in.cbsz);
  const Elements b = elements_of(wave, in.src[1], shape.b, in.blgp);
  const int dim = shape.dim;
  for_each_block<float>(wave, in, shape, [&](int, float* c) {
    gather(shape, place(shape, 0), a, 0, m.a);
    gather(shape, place(shape, 0), b, 0, m.b);
    std::array<double, kMaxDim * kMaxDim> sum;
    std::copy_n(c, dim * dim, sum.data());
    for (int part = 0; part < shape.k / 32; ++part) {
      std::fill_n(m.c, dim * dim, 0.0f);
      multiply(m.a + 32 * part * dim, m.b + 32 * part * dim, m.c, dim, 32);
      for (int i = 0; i < dim; ++i)
        for (int j = 0; j < dim; ++j)
          sum[i * dim + j] +=
              m.c[i * dim + j] * (a_scale[i + dim * part] * b_scale[j + dim * part]);
    }
    for (int i = 0; i < dim * dim; ++i) c[i] = static_cast<float>(sum[i]);
  });
}

// ---------------------------------------------------------------------------------------------
// Sparse A: of four consecutive k two are stored; the index register holds their places, two bits
// each. abid selects the part of the register when one holds several sets.

void expand_sparse(const Wave& wave, const Instruction& in, const Shape& shape, const float* stored,
                   float* out) {
  const int groups = kLanes / shape.dim, kept = shape.k / 2 / groups;
  const VectorRegister& index = wave.vgpr[in.src[2].index];
  const int set_bits = 2 * kept, sets = 32 / set_bits;
  std::fill_n(out, shape.dim * shape.k, 0.0f);
  for (int row = 0; row < shape.dim; ++row)
    for (int g = 0; g < groups; ++g) {
      const int set = sets > 1 ? in.abid % sets : 0;
      const uint32_t places = index[g * shape.dim + row] >> (set * set_bits);
      for (int e = 0; e < kept; ++e) {
        const int k = 2 * (g * kept + e / 2 * 2) + (places >> (2 * e) & 3);
        out[k * shape.dim + row] = stored[(g * kept + e) * shape.dim + row];
      }
    }
}

void sparse_product(Wave& wave, const Instruction& in) {
  const Shape& shape = shape_of(in);
  thread_local Operands m;
  thread_local std::array<float, kMaxDim * kMaxK> stored;
  if (wave.read_vector_undefined(in.src[2], 0))
    throw Fault("the index of a sparse product was never written");
  Shape half = shape;
  half.k = shape.k / 2;
  const Elements a = elements_of(wave, in.src[0], shape.a, 0);
  const Elements b = elements_of(wave, in.src[1], shape.b, 0);
  for_each_block<float>(wave, in, shape, [&](int, float* c) {
    gather(half, place(half, 0), a, 0, stored.data());
    gather(shape, place(shape, 0), b, 0, m.b);
    expand_sparse(wave, in, shape, stored.data(), m.a);
    if (shape.a != Element::kI8) return multiply(m.a, m.b, c, shape.dim, shape.k);
    const int size = shape.dim * shape.dim;
    std::fill_n(m.c, size, 0.0f);
    multiply(m.a, m.b, m.c, shape.dim, shape.k);
    for (int i = 0; i < size; ++i)
      c[i] = bits_as<float>(bits_as<uint32_t>(c[i]) +
                            static_cast<uint32_t>(static_cast<int32_t>(m.c[i])));
  });
}

// ---------------------------------------------------------------------------------------------
// f64: lane l holds of A row l % dim, of B column l % dim, both of k = l / 16 and, of the 4x4x4
// instruction, of block l / 4 % 4. Of D, lane l holds column l % dim and row 4 r + l / 16, or, of
// 4x4x4, row l / 4 % 4 of block l / 16.

double read_double(const Wave& wave, const Operand& operand, int element, int lane) {
  if (operand.kind != OperandKind::kVector) return bits_as<double>(wave.read_scalar(operand));
  const int base = operand.index + 2 * element;
  return bits_as<double>(wave.vgpr[base][lane] | uint64_t{wave.vgpr[base + 1][lane]} << 32);
}

uint64_t undefined_double(const Wave& wave, const Operand& operand, int element) {
  if (operand.kind != OperandKind::kVector) return 0;
  const int base = operand.index + 2 * element;
  return wave.vgpr_undefined[base] | wave.vgpr_undefined[base + 1];
}

double signed_by(const Instruction& in, int source, double value) {
  return in.neg >> source & 1 ? -value : value;
}

void double_product(Wave& wave, const Instruction& in) {
  const int dim = shape_of(in).dim, elements = in.dst.dwords / 2;
  double results[4][kLanes];
  uint64_t undefined[4] = {};
  const uint64_t a_undefined = undefined_double(wave, in.src[0], 0);
  const uint64_t b_undefined = undefined_double(wave, in.src[1], 0);
  for (int r = 0; r < elements; ++r)
    for (int lane = 0; lane < kLanes; ++lane) {
      const int block = dim == 4 ? lane / 16 * 4 : 0, j = lane % dim;
      const int i = dim == 4 ? lane / 4 % 4 : 4 * r + lane / 16;
      double sum = signed_by(in, 2, read_double(wave, in.src[2], r, lane));
      bool bad = undefined_double(wave, in.src[2], r) >> lane & 1;
      for (int k = 0; k < 4; ++k) {
        const int a = 16 * k + block + i, b = 16 * k + block + j;
        sum = std::fma(signed_by(in, 0, read_double(wave, in.src[0], 0, a)),
                       signed_by(in, 1, read_double(wave, in.src[1], 0, b)), sum);
        bad |= (a_undefined >> a & 1) || (b_undefined >> b & 1);
      }
      results[r][lane] = sum;
      undefined[r] |= uint64_t{bad} << lane;
    }
  for (int r = 0; r < elements; ++r)
    for (int half = 0; half < 2; ++half) {
      const int target = in.dst.index + 2 * r + half;
      for (int lane = 0; lane < kLanes; ++lane)
        wave.vgpr[target][lane] =
            static_cast<uint32_t>(bits_as<uint64_t>(results[r][lane]) >> (32 * half));
      wave.vgpr_undefined[target] = undefined[r];
    }
}

}  // namespace

Execute find_matrix(const Instruction& in) {
  const std::string_view name = in.name();
  if (in.kind != Class::kMfma) return nullptr;
  if (name.starts_with("v_smfmac")) return sparse_product;
  if (in.size == 16) return scaled_product;
  if (name.starts_with("v_mfma_f64")) return double_product;
  return name.starts_with("v_mfma_i32") ? integer_product : float_product;
}

}  // namespace hipsim
