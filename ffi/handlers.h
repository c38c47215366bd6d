// The XLA FFI handlers, one file of this folder per op. A handler's name is its target's name; an
// op with kernels for GPUs has three more: <name>_on_hip, <name>_load for the Initialize stage, and
// <name>_simulated, which runs the GPU's kernels on the simulated device for XLA's CPU.
#pragma once

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_attention_forward);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_attention_backward);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_gemm);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_gemm_on_hip);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_gemm_load);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_gemm_simulated);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_norm_forward);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_norm_backward);
XLA_FFI_DECLARE_HANDLER_SYMBOL(jax_hipkittens_rotary);
