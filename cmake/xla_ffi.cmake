# Finds XLA's FFI headers in the jaxlib of the Python that builds. Sets HK_XLA_FFI_INCLUDE, which may
# also be given.

# Asks Python where a package lies, without importing it: jaxlib needs no JAX to give its headers.
function(hk_python_package name result)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; print(u.find_spec('${name}').submodule_search_locations[0])"
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${result} ${path} PARENT_SCOPE)
endfunction()

# Not cached: an isolated build sees the package at another path each time.
if(NOT HK_XLA_FFI_INCLUDE)
  hk_python_package(jaxlib jaxlib_dir)
  set(HK_XLA_FFI_INCLUDE ${jaxlib_dir}/include)
endif()
if(NOT EXISTS ${HK_XLA_FFI_INCLUDE}/xla/ffi/api/ffi.h)
  message(FATAL_ERROR "HK_XLA_FFI_INCLUDE: expected a folder that holds xla/ffi/api/ffi.h, such as "
                      "jaxlib's include folder, received ${HK_XLA_FFI_INCLUDE}")
endif()
