#include "tests/hipsim/runtime/options.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace hipsim {
namespace {

template <class T>
bool Number(std::string_view text, T& number, uint64_t least, uint64_t most) {
  uint64_t value = 0;
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return false;
  }
  number = static_cast<T>(value);
  return true;
}

// One of two words: the second gives true.
bool Choice(std::string_view text, bool& choice, std::string_view no, std::string_view yes) {
  if (text != no && text != yes) return false;
  choice = text == yes;
  return true;
}

uint32_t CheckNamed(std::string_view name) {
  if (name == "all") return kCheckAll;
  if (name == "waits") return kCheckWaits;
  if (name == "races") return kCheckRaces;
  if (name == "hazards") return kCheckHazards;
  if (name == "bounds") return kCheckBounds;
  if (name == "alignment") return kCheckAlignment;
  if (name == "undefined") return kCheckUndefined;
  if (name == "barriers") return kCheckBarriers;
  return 0;
}

// A list such as waits,races; a name after a minus is taken out: all,-hazards.
bool Checks(std::string_view text, uint32_t& checks) {
  if (text == "none") {
    checks = 0;
    return true;
  }
  uint32_t result = 0;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    std::string_view name = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    const bool remove = name.starts_with('-');
    if (remove) name.remove_prefix(1);
    const uint32_t check = CheckNamed(name);
    if (check == 0) return false;
    result = remove ? result & ~check : result | check;
  }
  checks = result;
  return true;
}

bool Skip(std::string_view text, int64_t& skip) {
  if (text == "none") {
    skip = -1;
    return true;
  }
  return Number(text, skip, 0, uint64_t{1} << 40);
}

bool SetChip(std::string_view text, Chip& chip) {
  if (text != "gfx942" && text != "gfx950") return false;
  chip = text == "gfx950" ? Chip::kGfx950 : Chip::kGfx942;
  return true;
}

}  // namespace

bool SetOption(Options& options, std::string_view name, std::string_view value) {
  constexpr uint64_t kAny = ~uint64_t{0};
  if (name == "arch") return SetChip(value, options.chip);
  if (name == "devices") return Number(value, options.devices, 0, 64);
  if (name == "seed") return Number(value, options.seed, 0, kAny);
  if (name == "quantum") return Number(value, options.quantum, 1, 1 << 20);
  if (name == "threads") return Number(value, options.threads, 0, 1024);
  if (name == "limit") return Number(value, options.limit, 1, kAny);
  if (name == "checks") return Checks(value, options.checks);
  if (name == "buffers") return Choice(value, options.any_buffer, "arguments", "any");
  if (name == "alignment") return Choice(value, options.dword_alignment, "natural", "dword");
  if (name == "skip") return Skip(value, options.skip);
  if (name == "report") return Choice(value, options.quiet, "stderr", "quiet");
  if (name == "statistics") {
    options.statistics = value;
    return true;
  }
  return false;
}

Options OptionsFromEnvironment() {
  constexpr const char* kNames[] = {"arch",      "devices", "seed",   "quantum",
                                    "threads",   "limit",   "checks", "buffers",
                                    "alignment", "skip",    "report", "statistics"};
  Options options;
  for (const char* name : kNames) {
    std::string variable = "HIPSIM_";
    for (const char* c = name; *c != 0; ++c) variable += static_cast<char>(*c - 'a' + 'A');
    const char* value = std::getenv(variable.c_str());
    if (value != nullptr && *value != 0 && !SetOption(options, name, value)) {
      std::fprintf(stderr, "hipsim: %s=%s is not understood; the default is used.\n",
                   variable.c_str(), value);
    }
  }
  return options;
}

}  // namespace hipsim
