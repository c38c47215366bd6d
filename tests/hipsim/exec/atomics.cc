#include "tests/hipsim/exec/atomics.h"

#include <atomic>
#include <cmath>
#include <cstring>

#include "tests/hipsim/exec/half.h"

namespace hipsim {
namespace {

template <class To, class From>
To Cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

template <class Float, class Unsigned>
Unsigned ApplyFloat(AtomicOp op, Unsigned old_bits, Unsigned a_bits, Unsigned b_bits) {
  const Float old = Cast<Float>(old_bits), a = Cast<Float>(a_bits);
  switch (op) {
    case AtomicOp::kAdd:
      return Cast<Unsigned>(old + a);
    case AtomicOp::kMin:
      return Cast<Unsigned>(std::fmin(old, a));
    case AtomicOp::kMax:
      return Cast<Unsigned>(std::fmax(old, a));
    case AtomicOp::kCompareStore:
      return old == a ? b_bits : old_bits;
    default:
      return old_bits;
  }
}

uint32_t AddHalves(uint32_t old, uint32_t a, bool bf16) {
  uint32_t result = 0;
  for (int shift = 0; shift < 32; shift += 16) {
    const auto x = static_cast<uint16_t>(old >> shift), y = static_cast<uint16_t>(a >> shift);
    const uint16_t sum = bf16 ? FloatToBf16(Bf16ToFloat(x) + Bf16ToFloat(y))
                              : FloatToHalf(HalfToFloat(x) + HalfToFloat(y));
    result |= uint32_t{sum} << shift;
  }
  return result;
}

template <class Unsigned, class Signed>
Unsigned ApplyInteger(AtomicOp op, bool sign, Unsigned old, Unsigned a, Unsigned b) {
  const bool less = sign ? static_cast<Signed>(a) < static_cast<Signed>(old) : a < old;
  switch (op) {
    case AtomicOp::kSwap:
      return a;
    case AtomicOp::kCompareSwap:
      return old == b ? a : old;
    case AtomicOp::kCompareStore:
      return old == a ? b : old;
    case AtomicOp::kAdd:
      return old + a;
    case AtomicOp::kSubtract:
      return old - a;
    case AtomicOp::kReverseSubtract:
      return a - old;
    case AtomicOp::kMin:
      return less ? a : old;
    case AtomicOp::kMax:
      return less ? old : a;
    case AtomicOp::kAnd:
      return old & a;
    case AtomicOp::kOr:
      return old | a;
    case AtomicOp::kXor:
      return old ^ a;
    case AtomicOp::kIncrement:
      return old >= a ? 0 : old + 1;
    case AtomicOp::kDecrement:
      return old == 0 || old > a ? a : old - 1;
    case AtomicOp::kMaskedOr:
      return (old & ~a) | b;
    case AtomicOp::kWrap:
      return old >= a ? old - a : old + b;
    case AtomicOp::kNone:
      break;
  }
  return old;
}

template <class Unsigned>
Unsigned UpdateWith(const MemoryOp& op, void* memory, uint64_t a, uint64_t b) {
  std::atomic_ref<Unsigned> value(*static_cast<Unsigned*>(memory));
  Unsigned old = value.load();
  while (!value.compare_exchange_weak(old, static_cast<Unsigned>(ApplyAtomic(op, old, a, b)))) {
  }
  return old;
}

}  // namespace

uint64_t ApplyAtomic(const MemoryOp& op, uint64_t old, uint64_t a, uint64_t b) {
  const auto old32 = static_cast<uint32_t>(old), a32 = static_cast<uint32_t>(a);
  const auto b32 = static_cast<uint32_t>(b);
  if (op.type == ElementType::kPackedHalf || op.type == ElementType::kPackedBf16) {
    return AddHalves(old32, a32, op.type == ElementType::kPackedBf16);
  }
  const bool sign = op.type == ElementType::kSigned;
  if (op.type == ElementType::kFloat) {
    return op.bytes == 8 ? ApplyFloat<double, uint64_t>(op.atomic, old, a, b)
                         : ApplyFloat<float, uint32_t>(op.atomic, old32, a32, b32);
  }
  return op.bytes == 8 ? ApplyInteger<uint64_t, int64_t>(op.atomic, sign, old, a, b)
                       : ApplyInteger<uint32_t, int32_t>(op.atomic, sign, old32, a32, b32);
}

uint64_t AtomicUpdate(const MemoryOp& op, void* memory, uint64_t a, uint64_t b) {
  return op.bytes == 8 ? UpdateWith<uint64_t>(op, memory, a, b)
                       : UpdateWith<uint32_t>(op, memory, a, b);
}

}  // namespace hipsim
