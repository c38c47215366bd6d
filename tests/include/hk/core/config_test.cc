// One instruction set is chosen, and names it in the namespace that holds everything.
#include "hk/core/config.h"

#include <string_view>

#include "hk/core/element.h"
#include "tests/unit.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

HK_TEST(the_namespace_names_the_instruction_set) {
  const std::string_view name = TEXT(HK_ARCH_NAMESPACE);
#if HK_HOST_ISA_AVX512_BF16
  CHECK(name == "host_avx512_bf16");
#elif HK_HOST_ISA_AVX512
  CHECK(name == "host_avx512");
#elif HK_HOST_ISA_AVX2
  CHECK(name == "host_avx2");
#elif HK_HOST_ISA_NEON
  CHECK(name == "host_neon");
#elif HK_HOST_ISA_PLAIN
  CHECK(name == "host_plain");
#else
  CHECK(false);
#endif
}

HK_TEST(library_types_live_in_that_namespace) {
  CHECK((std::is_same_v<hk::bf16, hk::HK_ARCH_NAMESPACE::bf16>));
}
