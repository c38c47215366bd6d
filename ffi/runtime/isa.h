// Which instruction set the host kernels run on: the best that this CPU has, or the one that the
// environment variable JAX_HIPKITTENS_HOST_ISA names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ffi/host/table.h"

namespace jax_hipkittens {

struct host_isa {
  std::string_view name;
  const hk::host_kernels* kernels;
};

// What this CPU can run, best first. The last one, "plain", runs anywhere.
std::vector<host_isa> supported_host_isas();

// The instruction set in use. The environment is read at each call, so that a test may change it.
// Throws std::invalid_argument, naming the choices, when the variable names none of them.
host_isa choose_host_isa();

}  // namespace jax_hipkittens
