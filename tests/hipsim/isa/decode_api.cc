// The decoder for tests in other languages.
#include <cstdio>
#include <cstring>

#include "tests/hipsim/isa/instruction.h"

// Decodes one instruction of `chip` ("gfx942" or "gfx950"); writes its name and text, returns its
// size, negated if no such instruction exists.
extern "C" __attribute__((visibility("default"))) int hipsim_decode(const uint8_t* code,
                                                                    size_t available,
                                                                    const char* chip, char* name,
                                                                    size_t name_size, char* text,
                                                                    size_t text_size) {
  const bool gfx942 = std::strcmp(chip, "gfx942") == 0;
  const hipsim::Instruction instruction =
      hipsim::decode(code, available, 0, gfx942 ? hipsim::Chip::kGfx942 : hipsim::Chip::kGfx950);
  std::snprintf(name, name_size, "%s", instruction.name());
  std::snprintf(text, text_size, "%s", hipsim::disassemble(instruction).c_str());
  return instruction.opcode ? instruction.size : -instruction.size;
}

// Whether hipsim executes that instruction.
extern "C" __attribute__((visibility("default"))) bool hipsim_executes(const uint8_t* code,
                                                                       size_t available,
                                                                       const char* chip) {
  const bool gfx942 = std::strcmp(chip, "gfx942") == 0;
  const hipsim::Instruction instruction =
      hipsim::decode(code, available, 0, gfx942 ? hipsim::Chip::kGfx942 : hipsim::Chip::kGfx950);
  return instruction.execute != nullptr;
}
