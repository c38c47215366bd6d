// The chip that this translation unit is compiled for. Device code only.
#pragma once

#include "hk/arch/cdna/gfx942.h"
#include "hk/arch/cdna/gfx950.h"
#include "hk/core/config.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

#if defined(__gfx950__)
inline constexpr cdna::chip this_chip = cdna::chip::gfx950;
#else
inline constexpr cdna::chip this_chip = cdna::chip::gfx942;
#endif
using chip_traits = cdna::traits<this_chip>;

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
