#include "tests/hipsim/exec/buffer_format.h"

#include <cmath>
#include <cstring>

#include "tests/hipsim/exec/half.h"

namespace hipsim {
namespace {

struct Layout {
  uint8_t count;
  std::array<uint8_t, 4> widths;
};

// By data format.
constexpr Layout kLayouts[16] = {
    {0, {}},
    {1, {8}},
    {1, {16}},
    {2, {8, 8}},
    {1, {32}},
    {2, {16, 16}},
    {3, {11, 11, 10}},
    {3, {10, 11, 11}},
    {4, {2, 10, 10, 10}},
    {4, {10, 10, 10, 2}},
    {4, {8, 8, 8, 8}},
    {2, {32, 32}},
    {4, {16, 16, 16, 16}},
    {3, {32, 32, 32}},
    {4, {32, 32, 32, 32}},
    {0, {}},
};

enum Number : uint32_t { kUnorm, kSnorm, kUscaled, kSscaled, kUint, kSint, kFloat = 7 };

uint32_t Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float Value(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

int32_t Extend(uint32_t bits, uint32_t width) {
  const uint32_t shift = 32 - width;
  return static_cast<int32_t>(bits << shift) >> shift;
}

uint64_t Mask(uint32_t width) { return (uint64_t{1} << width) - 1; }

}  // namespace

BufferDescriptor::BufferDescriptor(const uint32_t words[4])
    : base(words[0] | uint64_t{words[1] & 0xFFFF} << 32),
      stride(words[1] >> 16 & 0x3FFF),
      num_records(words[2]),
      swizzle((words[1] >> 31) != 0),
      add_tid((words[3] >> 23 & 1) != 0),
      index_stride(8u << (words[3] >> 21 & 3)),
      data_format(words[3] >> 15 & 15),
      number_format(words[3] >> 12 & 7),
      select(words[3] & 0xFFF) {
  if (add_tid) stride |= data_format << 14;
}

uint64_t BufferDescriptor::Offset(bool structured, uint64_t index, uint64_t offset) const {
  if (!structured || !swizzle) return index * stride + offset;
  constexpr uint64_t kElement = 4;
  const uint64_t block = index / index_stride * stride + offset / kElement * kElement;
  return block * index_stride + index % index_stride * kElement + offset % kElement;
}

uint32_t BufferDescriptor::ValidBytes(bool structured, uint64_t index, uint64_t offset,
                                      uint32_t soffset, uint32_t bytes) const {
  if (structured && stride != 0) {
    const bool inside = index < num_records && (!swizzle || offset < stride);
    return inside ? bytes : 0;
  }
  const uint64_t at = offset + soffset;
  if (at >= num_records) return 0;
  const uint64_t dwords = (num_records - at + 3) / 4;
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, 4 * dwords));
}

std::array<uint32_t, 4> BufferDescriptor::Select(const std::array<uint32_t, 4>& values,
                                                 bool integer) const {
  std::array<uint32_t, 4> result{};
  for (int c = 0; c < 4; ++c) {
    const uint32_t from = select >> (3 * c) & 7;
    if (from == 1) result[c] = integer ? 1 : Bits(1.0f);
    if (from >= 4) result[c] = values[from - 4];
  }
  return result;
}

BufferFormat::BufferFormat(uint32_t data_format, uint32_t number_format) : number_(number_format) {
  const Layout& layout = kLayouts[data_format & 15];
  count_ = layout.count;
  widths_ = layout.widths;
  uint32_t bits = 0;
  for (const uint8_t width : widths_) bits += width;
  bytes_ = bits / 8;
}

std::array<uint32_t, 4> BufferFormat::Unpack(const uint8_t* memory) const {
  std::array<uint32_t, 4> values{0, 0, 0, IsInteger() ? 1 : Bits(1.0f)};
  uint32_t bit = 0;
  for (uint32_t c = 0; c < count_; ++c) {
    uint64_t bits = 0;
    std::memcpy(&bits, memory + bit / 8, std::min(8u, bytes_ - bit / 8));
    values[c] = Decode(static_cast<uint32_t>(bits >> (bit % 8) & Mask(widths_[c])), widths_[c]);
    bit += widths_[c];
  }
  return values;
}

void BufferFormat::Pack(const std::array<uint32_t, 4>& values, uint8_t* memory) const {
  uint32_t bit = 0;
  for (uint32_t c = 0; c < count_; ++c) {
    const uint32_t size = std::min(8u, bytes_ - bit / 8);
    uint64_t bits = 0;
    std::memcpy(&bits, memory + bit / 8, size);
    const uint64_t mask = Mask(widths_[c]) << (bit % 8);
    bits = (bits & ~mask) | (uint64_t{Encode(values[c], widths_[c])} << (bit % 8) & mask);
    std::memcpy(memory + bit / 8, &bits, size);
    bit += widths_[c];
  }
}

uint32_t BufferFormat::Decode(uint32_t bits, uint32_t width) const {
  const auto most = static_cast<float>(Mask(width)), half = static_cast<float>(Mask(width - 1));
  switch (number_) {
    case kUnorm:
      return Bits(static_cast<float>(bits) / most);
    case kSnorm:
      return Bits(std::max(-1.0f, static_cast<float>(Extend(bits, width)) / half));
    case kUscaled:
      return Bits(static_cast<float>(bits));
    case kSscaled:
      return Bits(static_cast<float>(Extend(bits, width)));
    case kSint:
      return static_cast<uint32_t>(Extend(bits, width));
    case kFloat:
      if (width == 16) return Bits(HalfToFloat(static_cast<uint16_t>(bits)));
      // Floats of 11 and 10 bits are halves without a sign and the last mantissa bits.
      if (width < 16) return Bits(HalfToFloat(static_cast<uint16_t>(bits << (15 - width))));
      return bits;
    default:
      return bits;
  }
}

uint32_t BufferFormat::Encode(uint32_t value, uint32_t width) const {
  const float f = Value(value);
  const auto most = static_cast<float>(Mask(width)), half = static_cast<float>(Mask(width - 1));
  const auto round = [](float x) { return static_cast<uint32_t>(std::lrint(x)); };
  switch (number_) {
    case kUnorm:
      return round(std::clamp(std::isnan(f) ? 0.0f : f, 0.0f, 1.0f) * most);
    case kSnorm:
      return round(std::clamp(std::isnan(f) ? 0.0f : f, -1.0f, 1.0f) * half);
    case kUscaled:
      return round(std::clamp(std::isnan(f) ? 0.0f : f, 0.0f, most));
    case kSscaled:
      return round(std::clamp(std::isnan(f) ? 0.0f : f, -half - 1, half));
    case kUint:
      return static_cast<uint32_t>(std::min<uint64_t>(value, Mask(width)));
    case kSint: {
      const auto limit = static_cast<int64_t>(Mask(width - 1));
      return static_cast<uint32_t>(
          std::clamp<int64_t>(static_cast<int32_t>(value), -limit - 1, limit));
    }
    default:
      if (width == 16) return FloatToHalf(f);
      if (width < 16) return FloatToHalf(std::max(f, 0.0f)) >> (15 - width);
      return value;
  }
}

uint32_t BufferFormat::ToHalf(uint32_t value) const {
  return IsInteger() ? value & 0xFFFF : FloatToHalf(Value(value));
}

uint32_t BufferFormat::FromHalf(uint32_t half) const {
  if (number_ == kSint) return static_cast<uint32_t>(Extend(half, 16));
  if (number_ == kUint) return half;
  return Bits(HalfToFloat(static_cast<uint16_t>(half)));
}

}  // namespace hipsim
