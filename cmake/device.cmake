# Code objects of the AMD GPU kernels, one for each target and family, with a report and the hot loops
# beside each: gemm.gfx950.co, .json and .loops in HK_DEVICE_DIR, installed as data of the package.
#
# HK_TARGETS lists the chips, HK_HIP_CLANG names a compiler; device_compile.py says which is taken
# without.

set(HK_TARGETS gfx942 gfx950 CACHE STRING "AMD GPUs to compile the kernels for")
set(HK_HIP_CLANG "$ENV{HK_HIP_CLANG}" CACHE STRING "A clang++ to compile them with, if not the first found")
set(HK_DEVICE_DIR ${PROJECT_BINARY_DIR}/device)

foreach(target IN LISTS HK_TARGETS)
  if(NOT target MATCHES "^gfx(942|950)$")
    message(FATAL_ERROR "HK_TARGETS: expected a list of gfx942 and gfx950, received ${HK_TARGETS}; "
                        "leave it out for both, or empty for none")
  endif()
endforeach()

# Compiles ffi/device/<family>.cc for all targets.
function(hk_add_device_code family)
  set(script ${PROJECT_SOURCE_DIR}/cmake/device_compile.py)
  set(source ${PROJECT_SOURCE_DIR}/ffi/device/${family}.cc)
  set(objects "")
  foreach(target IN LISTS HK_TARGETS)
    set(object ${HK_DEVICE_DIR}/${family}.${target}.co)
    cmake_path(REPLACE_EXTENSION object LAST_ONLY json OUTPUT_VARIABLE report)
    cmake_path(REPLACE_EXTENSION object LAST_ONLY loops OUTPUT_VARIABLE loops)
    add_custom_command(
      OUTPUT ${object} BYPRODUCTS ${report} ${loops}
      COMMAND ${Python_EXECUTABLE} ${script} --source ${source} --target ${target} --include
              ${PROJECT_SOURCE_DIR}/include --output ${object} --depfile ${object}.d
              "--compiler=${HK_HIP_CLANG}" $<$<BOOL:${HK_WARNINGS_AS_ERRORS}>:--werror>
      DEPENDS ${source} ${script} DEPFILE ${object}.d
      COMMENT "Compiling ${family} for ${target}" VERBATIM COMMAND_EXPAND_LISTS)
    list(APPEND objects ${object})
    install(FILES ${object} ${report} ${loops} DESTINATION jax_hipkittens/device)
  endforeach()
  add_custom_target(device_${family} ALL DEPENDS ${objects})
endfunction()

hk_add_device_code(gemm)
