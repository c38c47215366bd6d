// The XLA FFI handlers, one file of this folder per op. A handler's name is its target's name.
#pragma once

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_attention_forward);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_attention_backward);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_gemm);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_norm_forward);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_norm_backward);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_rotary);
