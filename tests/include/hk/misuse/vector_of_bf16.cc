// error: a register vector is float, loads and stores convert
#include "hk/ops/maps.h"

#ifdef HK_MISUSE
using type = hk::bf16;
#else
using type = float;
#endif

void use(hk::rv<type, 32>& v) { hk::zero(v); }
