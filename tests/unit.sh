#!/usr/bin/env bash
# Builds and runs the C++ unit tests in one configuration, in build/unit-<configuration>:
#
#   tests/unit.sh native     every instruction set that this machine runs
#   tests/unit.sh sanitize   the widest of them under AddressSanitizer and UndefinedBehaviorSanitizer,
#                            and the handlers called at random (tests/ffi/fuzz; needs jaxlib's headers)
#   tests/unit.sh neon       64-bit Arm, cross-compiled and run by qemu
#   tests/unit.sh avx512     AVX-512, emulated by SIMDe
#
# cmake, ctest and ninja are those on PATH; make puts .venv's there.
set -euo pipefail
cd "$(dirname "$0")/.."

# The last two need what pip does not have; without it they say so and pass.
skip() {
  echo "tests/unit.sh $configuration: skipped, it needs $1"
  exit 0
}

configuration=${1:?expected native, sanitize, neon or avx512}
case $configuration in
  native) options=() ;;
  sanitize) options=(-D HK_SANITIZE=address,undefined) ;;
  neon)
    { command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64; } > /dev/null ||
      skip "aarch64-linux-gnu-g++ and qemu-aarch64 (Debian: g++-aarch64-linux-gnu, qemu-user)"
    options=(-D CMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -D HK_HOST_ISAS=neon)
    ;;
  avx512)
    echo '#include <simde/x86/avx512.h>' | "${CXX:-c++}" -fsyntax-only -x c++ - 2> /dev/null ||
      skip "the headers of SIMDe (Debian: libsimde-dev)"
    options=(-D HK_EMULATE_AVX512=ON)
    ;;
  *)
    echo "tests/unit.sh: expected native, sanitize, neon or avx512, received $configuration" >&2
    exit 2
    ;;
esac

build=build/unit-$configuration
cmake -G Ninja -S . -B "$build" -D CMAKE_MAKE_PROGRAM="$(command -v ninja)" \
  -D HK_BUILD_MODULE=OFF -D HK_BUILD_DEVICE=OFF -D HK_BUILD_TESTS=ON -D HK_WARNINGS_AS_ERRORS=ON ${options[@]+"${options[@]}"}
cmake --build "$build"
ctest --test-dir "$build" --output-on-failure --parallel 2
