// Buffer descriptors and the formats of typed buffer accesses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace hipsim {

// The four words of a V#.
struct BufferDescriptor {
  explicit BufferDescriptor(const uint32_t words[4]);

  uint64_t base = 0;         // 48 bits
  uint32_t stride = 0;       // bytes of a record
  uint64_t num_records = 0;  // records, or bytes
  bool swizzle = false;
  bool add_tid = false;  // the lane is added to the index
  uint32_t index_stride = 8;
  uint32_t data_format = 0, number_format = 0;
  uint32_t select = 0;  // 3 bits a component

  // Where a byte lies from the base, the scalar offset apart.
  uint64_t Offset(bool structured, uint64_t index, uint64_t offset) const;

  // How many of `bytes` the range check lets through, from the first on. A structured buffer
  // compares the record's index; a raw one the offset of each dword, the scalar offset included.
  uint32_t ValidBytes(bool structured, uint64_t index, uint64_t offset, uint32_t soffset,
                      uint32_t bytes) const;

  // Components in the order that the descriptor selects.
  std::array<uint32_t, 4> Select(const std::array<uint32_t, 4>& values, bool integer) const;
};

class BufferFormat {
 public:
  BufferFormat(uint32_t data_format, uint32_t number_format);

  bool Known() const { return count_ != 0 && number_ <= 7 && number_ != 6; }
  uint32_t bytes() const { return bytes_; }
  bool IsInteger() const { return number_ == 4 || number_ == 5; }

  // Registers' values of the components in memory; missing ones are 0, 0, 0, 1.
  std::array<uint32_t, 4> Unpack(const uint8_t* memory) const;
  void Pack(const std::array<uint32_t, 4>& values, uint8_t* memory) const;

  // A component as d16 forms hold it: an integer's low half, or a half-precision float.
  uint32_t ToHalf(uint32_t value) const;
  uint32_t FromHalf(uint32_t half) const;

 private:
  uint32_t Decode(uint32_t bits, uint32_t width) const;
  uint32_t Encode(uint32_t value, uint32_t width) const;

  uint32_t number_;
  uint32_t count_ = 0;
  uint32_t bytes_ = 0;
  std::array<uint8_t, 4> widths_{};  // bits, from the lowest
};

}  // namespace hipsim
