// Executes one launch of a kernel: all its workgroups, with the checks that the options ask for.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/hipsim/code_object.h"
#include "tests/hipsim/runtime/buffers.h"
#include "tests/hipsim/runtime/options.h"

namespace hipsim {

class Program;

struct LaunchRequest {
  Program* program = nullptr;
  const Kernel* kernel = nullptr;
  std::array<uint32_t, 3> grid{};   // in workgroups
  std::array<uint32_t, 3> block{};  // in work items
  uint32_t dynamic_lds = 0;         // bytes
  std::vector<uint8_t> arguments;   // the kernarg segment, hidden arguments included
  std::vector<Buffer> buffers;      // all that are live
  Options options;
};

struct LaunchResult {
  std::string check;       // empty if all is well
  std::string report;      // sentences, where check is not empty
  std::string statistics;  // one line of JSON
};

LaunchResult Launch(const LaunchRequest& request);

}  // namespace hipsim
