// Element types and outcomes as run-time values: what a caller that knows no templates passes to a
// kernel, and what it gets back. Shared by every architecture, so nothing here has code.
#pragma once

#include <cstdint>

namespace hk {

// The element type of an array. bf16 and f16 take two bytes, f32 four.
enum class dtype : int32_t { bf16, f16, f32 };

// What an entry point reports. Shapes and attributes are checked by the caller, so memory for
// scratch is all that can be missing.
enum class status : int32_t { ok, out_of_memory };

}  // namespace hk
