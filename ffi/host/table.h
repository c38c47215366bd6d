// The host kernels of one instruction set as a table of functions.
//
// Every file of this folder except this one is compiled once per instruction set, into the
// namespace that hk/core/config.h gives it; ffi/runtime/isa.cc picks one table at run time.
#pragma once

#include "hk/core/dtype.h"
#include "hk/core/launch.h"
#include "hk/kernels/attention/problem.h"
#include "hk/kernels/gemm/problem.h"
#include "hk/kernels/norm/problem.h"
#include "hk/kernels/rotary/problem.h"

namespace hk {

// Each function expects a problem that its FFI handler has checked.
struct host_kernels {
  status (*attention_forward)(const attention_problem&, const launcher&);
  status (*attention_backward)(const attention_problem&, const launcher&);
  status (*gemm)(const gemm_problem&, const launcher&);
  status (*norm_forward)(const norm_problem&, const launcher&);
  status (*norm_backward)(const norm_problem&, const launcher&);
  status (*rotary)(const rotary_problem&, const launcher&);
};

}  // namespace hk
