#include "tests/hipsim/msgpack.h"

namespace hipsim {
namespace {

constexpr int kMaxDepth = 32;

class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  bool Read(MsgpackValue& value, int depth) {
    uint64_t tag;
    if (depth > kMaxDepth || !Unsigned(1, tag)) return false;
    if (tag < 0x80) return Integer(value, static_cast<int64_t>(tag));
    if (tag < 0x90) return Map(value, tag & 15, depth);
    if (tag < 0xA0) return Array(value, tag & 15, depth);
    if (tag < 0xC0) return String(value, tag & 31);
    if (tag >= 0xE0) return Integer(value, static_cast<int64_t>(tag) - 256);
    return ReadTagged(value, tag, depth);
  }

 private:
  bool ReadTagged(MsgpackValue& value, uint64_t tag, int depth) {
    uint64_t n = 0;
    switch (tag) {
      case 0xC0:
        return true;
      case 0xC2:
      case 0xC3:
        value.kind = MsgpackValue::Kind::kBool;
        value.integer = static_cast<int64_t>(tag & 1);
        return true;
      case 0xC4:
      case 0xC5:
      case 0xC6:
        return Unsigned(1 << (tag - 0xC4), n) && String(value, n);
      case 0xCA:
      case 0xCB:  // No field of the metadata is a float.
        value.kind = MsgpackValue::Kind::kFloat;
        return Unsigned(tag == 0xCA ? 4 : 8, n);
      case 0xCC:
      case 0xCD:
      case 0xCE:
      case 0xCF:
        return Unsigned(1 << (tag - 0xCC), n) && Integer(value, static_cast<int64_t>(n));
      case 0xD0:
      case 0xD1:
      case 0xD2:
      case 0xD3: {
        const int size = 1 << (tag - 0xD0);
        if (!Unsigned(size, n)) return false;
        const int shift = 64 - 8 * size;
        return Integer(value, static_cast<int64_t>(n << shift) >> shift);
      }
      case 0xD9:
      case 0xDA:
      case 0xDB:
        return Unsigned(1 << (tag - 0xD9), n) && String(value, n);
      case 0xDC:
      case 0xDD:
        return Unsigned(2 << (tag - 0xDC), n) && Array(value, n, depth);
      case 0xDE:
      case 0xDF:
        return Unsigned(2 << (tag - 0xDE), n) && Map(value, n, depth);
      default:
        return false;
    }
  }

  bool Unsigned(int size, uint64_t& value) {
    if (bytes_.size() - at_ < static_cast<size_t>(size)) return false;
    value = 0;
    for (int i = 0; i < size; ++i) value = value << 8 | bytes_[at_++];
    return true;
  }

  static bool Integer(MsgpackValue& value, int64_t integer) {
    value.kind = MsgpackValue::Kind::kInteger;
    value.integer = integer;
    return true;
  }

  bool String(MsgpackValue& value, uint64_t size) {
    if (bytes_.size() - at_ < size) return false;
    value.kind = MsgpackValue::Kind::kString;
    value.string.assign(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return true;
  }

  bool Array(MsgpackValue& value, uint64_t count, int depth) {
    if (count > bytes_.size() - at_) return false;  // Each element takes a byte at least.
    value.kind = MsgpackValue::Kind::kArray;
    for (uint64_t i = 0; i < count; ++i) {
      if (!Read(value.array.emplace_back(), depth + 1)) return false;
    }
    return true;
  }

  bool Map(MsgpackValue& value, uint64_t count, int depth) {
    if (count > bytes_.size() - at_) return false;
    value.kind = MsgpackValue::Kind::kMap;
    for (uint64_t i = 0; i < count; ++i) {
      MsgpackValue key, element;
      if (!Read(key, depth + 1) || !Read(element, depth + 1)) return false;
      if (key.kind == MsgpackValue::Kind::kString) {
        value.map.emplace_back(std::move(key.string), std::move(element));
      }
    }
    return true;
  }

  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

}  // namespace

const MsgpackValue* MsgpackValue::Find(std::string_view key) const {
  for (const auto& [name, value] : map) {
    if (name == key) return &value;
  }
  return nullptr;
}

int64_t MsgpackValue::IntegerOr(std::string_view key, int64_t otherwise) const {
  const MsgpackValue* value = Find(key);
  return value != nullptr && value->kind == Kind::kInteger ? value->integer : otherwise;
}

std::string MsgpackValue::StringOr(std::string_view key, std::string_view otherwise) const {
  const MsgpackValue* value = Find(key);
  return value != nullptr && value->kind == Kind::kString ? value->string : std::string(otherwise);
}

std::optional<MsgpackValue> ReadMsgpack(std::span<const uint8_t> bytes) {
  MsgpackValue value;
  if (!Reader(bytes).Read(value, 0)) return std::nullopt;
  return value;
}

}  // namespace hipsim
