// A reader of MessagePack, the format of a code object's metadata.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hipsim {

// A value; maps keep the order of the file, and only string keys are kept.
struct MsgpackValue {
  enum class Kind { kNil, kBool, kInteger, kFloat, kString, kArray, kMap };

  Kind kind = Kind::kNil;
  int64_t integer = 0;  // also kBool
  std::string string;   // also binary
  std::vector<MsgpackValue> array;
  std::vector<std::pair<std::string, MsgpackValue>> map;

  // The value of a map's key; null if this is no map or has no such key.
  const MsgpackValue* Find(std::string_view key) const;
  int64_t IntegerOr(std::string_view key, int64_t otherwise) const;
  std::string StringOr(std::string_view key, std::string_view otherwise) const;
};

// Reads one value; nothing if the bytes are malformed, end early or nest deeper than 32.
std::optional<MsgpackValue> ReadMsgpack(std::span<const uint8_t> bytes);

}  // namespace hipsim
