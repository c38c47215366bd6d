// Running the blocks of a host kernel on a launcher's threads: the counterpart of a grid.
#pragma once

#include <cstdint>

#include "hk/core/config.h"
#include "hk/core/launch.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {

// The number of pieces of `piece` elements that cover `size`.
constexpr HK_INLINE std::int64_t pieces_of(std::int64_t size, std::int64_t piece) {
  return (size + piece - 1) / piece;
}

// The end of the piece that starts at `first`: `piece` elements on, or where `size` ends.
constexpr HK_INLINE std::int64_t piece_end(std::int64_t size, std::int64_t first,
                                           std::int64_t piece) {
  return size - first < piece ? size : first + piece;
}

// Calls body(index) once for each index in [0, blocks), on any of the launcher's threads, and
// returns when all calls have returned.
template <class Body>
HK_INLINE void for_each_block(const launcher& launch, std::int64_t blocks, const Body& body) {
  launch.run(
      launch.pool, blocks,
      [](void* context, std::int64_t index) { (*static_cast<const Body*>(context))(index); },
      const_cast<Body*>(&body));
}

// Calls body(at, count) for consecutive pieces of [0, size), `Piece` long but for the last. `body`
// must be inlined, so that the whole pieces are compiled for a constant count.
template <int Piece, class Body>
HK_INLINE void for_each_piece(std::int64_t size, Body body) {
  std::int64_t at = 0;
  for (; at + Piece <= size; at += Piece) body(at, Piece);
  if (at < size) body(at, static_cast<int>(size - at));
}

}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
