// A launch of a kernel on a GPU as plain data, the same for every op: what a launcher needs, and no
// more. Knows no driver.
#pragma once

#include <cstdint>
#include <cstring>

namespace hk {

struct device_launch {
  char kernel[48];   // name of the kernel in its code object
  uint32_t grid[3];  // in workgroups
  uint32_t threads;  // of a workgroup, all in x
  uint32_t argument_bytes;
  alignas(8) uint8_t arguments[160];  // the kernel's one parameter, a struct by value

  template <class Arguments>
  void set_arguments(const Arguments& from) {
    static_assert(sizeof(Arguments) <= sizeof(arguments),
                  "a launch carries 160 bytes of arguments");
    std::memcpy(arguments, &from, sizeof(Arguments));
    argument_bytes = sizeof(Arguments);
  }
  template <class Arguments>
  Arguments get_arguments() const {
    Arguments to;
    std::memcpy(&to, arguments, sizeof(Arguments));
    return to;
  }
};

}  // namespace hk
