#include "tests/hipsim/exec/program.h"

#include <cstdio>

namespace hipsim {
namespace {

bool Removable(Class kind) {
  return kind == Class::kWait || kind == Class::kBarrier || kind == Class::kNop;
}

void AppendItem(std::string& json, uint64_t offset, const Decoded& decoded) {
  const Instruction& instruction = decoded.instruction;
  char text[96];
  std::snprintf(text, sizeof(text),
                "%s{\"offset\": %llu, \"size\": %u, \"effects\": %llu, \"text\": \"",
                json.size() > 1 ? ", " : "", static_cast<unsigned long long>(offset),
                instruction.size, static_cast<unsigned long long>(decoded.effects.load()));
  json += text + disassemble(instruction) + "\"}";
}

}  // namespace

Program::Program(std::unique_ptr<CodeObject> object, Chip chip)
    : object_(std::move(object)),
      chip_(chip),
      code_size_(object_->code_end() - object_->code_begin()),
      slots_(new std::atomic<const Decoded*>[code_size_ / 4 + 1]()) {}

const Decoded* Program::Decode(uint64_t address) {
  const std::lock_guard lock(mutex_);
  auto& slot = slots_[(address - object_->code_begin()) / 4];
  if (const Decoded* decoded = slot.load()) return decoded;
  Decoded& decoded = decoded_.emplace_back();
  decoded.instruction = decode(reinterpret_cast<const uint8_t*>(address),
                               object_->code_end() - address, address, chip_);
  decoded.facts = FactsOf(decoded.instruction);
  slot.store(&decoded, std::memory_order_release);
  return &decoded;
}

std::string Program::RemovableInstructions(const Kernel& kernel) {
  std::string json = "[";
  const uint64_t end = object_->EndOfFunction(kernel.entry);
  for (uint64_t at = kernel.entry; at < end;) {
    const Decoded* decoded = At(at);
    if (decoded == nullptr || decoded->instruction.opcode == nullptr) break;
    const Instruction& instruction = decoded->instruction;
    if (Removable(instruction.kind)) AppendItem(json, at - kernel.entry, *decoded);
    at += instruction.size;
  }
  return json + "]";
}

}  // namespace hipsim
