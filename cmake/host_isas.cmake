# The instruction sets that the host kernels are compiled for, with their compiler flags.
#
# HK_HOST_ISAS lists their names; fewer than all, such as "avx2;plain", build sooner. plain has to be
# among them. "native" is those that this machine runs. hk_host_isa_options(<target> <isa>) compiles a
# target for one.
include(CheckCXXSourceRuns)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(all_isas avx512_bf16 avx512 avx2 plain)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(all_isas neon plain)
else()
  set(all_isas plain)
endif()
set(HK_HOST_ISAS ${all_isas} CACHE STRING "Instruction sets to compile the host kernels for")

set(HK_FLAGS_plain "")
set(HK_FLAGS_neon "")
set(HK_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(HK_FLAGS_avx512 ${HK_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(HK_FLAGS_avx512_bf16 ${HK_FLAGS_avx512} -mavx512bf16)

# Sets <result> to whether this machine runs code for <isa>.
function(hk_runs_here isa result)
  set(conditions 1)
  foreach(flag IN LISTS HK_FLAGS_${isa})
    string(REGEX REPLACE "^-m" "" feature ${flag})
    string(APPEND conditions " && __builtin_cpu_supports(\"${feature}\")")
  endforeach()
  check_cxx_source_runs("int main() { return (${conditions}) ? 0 : 1; }" HK_RUNS_${isa})
  set(${result} ${HK_RUNS_${isa}} PARENT_SCOPE)
endfunction()

if(HK_HOST_ISAS STREQUAL "native")
  set(HK_HOST_ISAS "")
  foreach(isa IN LISTS all_isas)
    hk_runs_here(${isa} runs)
    if(runs)
      list(APPEND HK_HOST_ISAS ${isa})
    endif()
  endforeach()
endif()

# Multiply-adds are fused where the source says so and nowhere else, so that results do not depend on
# how a compiler happens to inline.
function(hk_host_isa_options target isa)
  string(TOUPPER ${isa} upper)
  target_compile_definitions(${target} PRIVATE HK_HOST_ISA_${upper}=1)
  target_compile_options(${target} PRIVATE ${HK_FLAGS_${isa}} -ffp-contract=off -fno-math-errno)
endfunction()
