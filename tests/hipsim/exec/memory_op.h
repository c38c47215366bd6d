// What a memory instruction does, read from its name once.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hipsim {

enum class AtomicOp : uint8_t {
  kNone,
  kSwap,
  kCompareSwap,   // the register pair holds {new, compared}
  kCompareStore,  // LDS: data0 is compared, data1 is new
  kAdd,
  kSubtract,
  kReverseSubtract,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kIncrement,
  kDecrement,
  kMaskedOr,  // LDS: data0 is the mask, data1 the bits
  kWrap,      // LDS: minus data0, or plus data1 below data0
};

enum class ElementType : uint8_t { kUnsigned, kSigned, kFloat, kPackedHalf, kPackedBf16 };

enum class Half : uint8_t { kNone, kLow, kHigh };  // of the register, for d16 forms

enum class MemoryKind : uint8_t {
  kLoad,
  kStore,
  kAtomic,
  kDirectLoad,     // global or buffer to LDS
  kTransposeLoad,  // ds_read_*_tr_*
  kSwizzle,
  kPermute,
  kBackwardPermute,
  kTime,     // s_memtime, s_memrealtime
  kNothing,  // ds_nop
};

struct MemoryOp {
  MemoryKind kind = MemoryKind::kLoad;
  uint8_t bytes = 4;     // of a lane's element at one address, 1 to 16; SMEM: 4 to 64
  uint8_t elements = 1;  // 2 for read2 and write2
  uint8_t stride = 1;    // of the second forms' offsets, in elements: 1 or 64
  bool sign = false;     // narrow loads: extended with the sign
  bool returns = false;  // atomics: the value before
  bool add_tid = false;  // address from M0 and the lane
  bool buffer = false;   // s_buffer_load: a descriptor, not an address
  Half half = Half::kNone;
  AtomicOp atomic = AtomicOp::kNone;
  ElementType type = ElementType::kUnsigned;
  uint8_t transposed = 0;  // bits of a transposed element: 16, 8, 6 or 4
  uint8_t components = 0;  // format loads and stores: 1 to 4
};

// Nothing if the name is not that of a memory instruction that is executed.
std::optional<MemoryOp> ParseMemoryOp(std::string_view name);

}  // namespace hipsim
