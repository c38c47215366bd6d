// A loaded code object and its decoded instructions.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/hipsim/code_object.h"
#include "tests/hipsim/exec/facts.h"
#include "tests/hipsim/isa/instruction.h"
#include "tests/hipsim/runtime/options.h"

namespace hipsim {

// An instruction and what the checks and the scheduler want to know of it, computed once.
struct Decoded {
  Instruction instruction;
  Facts facts;
  // Of waits and barriers: how often, in all launches, it held up what a wave did. A wait counts
  // where it completed an operation, a barrier where the workgroup had several waves.
  mutable std::atomic<uint64_t> effects = 0;
};

class Program {
 public:
  Program(std::unique_ptr<CodeObject> object, Chip chip);

  const CodeObject& object() const { return *object_; }
  Chip chip() const { return chip_; }

  // The instruction at an address; null if the address is outside the code or not a multiple of 4.
  // Instructions are decoded when they are first reached.
  const Decoded* At(uint64_t address) {
    const uint64_t offset = address - object_->code_begin();
    if (offset >= code_size_ || (offset & 3) != 0) return nullptr;
    const Decoded* decoded = slots_[offset / 4].load(std::memory_order_acquire);
    return decoded != nullptr ? decoded : Decode(address);
  }

  // See hipsim.h.
  std::string RemovableInstructions(const Kernel& kernel);

 private:
  const Decoded* Decode(uint64_t address);

  std::unique_ptr<CodeObject> object_;
  Chip chip_;
  uint64_t code_size_;
  std::unique_ptr<std::atomic<const Decoded*>[]> slots_;
  std::mutex mutex_;
  std::deque<Decoded> decoded_;
};

}  // namespace hipsim
