// error: a row map needs a value for each row of the tile
#include "hk/ops/maps.h"

#ifdef HK_MISUSE
constexpr int length = 7;
#else
constexpr int length = 8;
#endif

void use(hk::rt<float, 8, 32>& tile, const hk::rv<float, length>& v) { hk::add_row(tile, tile, v); }
