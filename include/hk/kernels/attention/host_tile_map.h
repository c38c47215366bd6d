// Which tiles of keys the strips of query rows of attention's backward see, so that all blocks know
// without a word between them whose turn it is to add to a strip's dQ.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/visibility.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

class tile_map {
 public:
  struct sizes {
    int strip_rows;
    int tile_keys;
    std::int64_t block_keys;  // a multiple of tile_keys
  };

  tile_map(const attention_problem& p, sizes of)
      : problem_(p),
        of_(of),
        group_(p.heads / p.kv_heads),
        strips_(pieces_of(p.queries * group_, of.strip_rows)),
        tiles_(pieces_of(p.keys, of.tile_keys)) {}

  std::int64_t strips() const { return strips_; }  // per key head
  std::int64_t block_keys() const { return of_.block_keys; }

  // The ids of all strips and tiles that fill() finds; none where every strip and tile may meet.
  std::int64_t ids() const { return has_ids(problem_) ? problem_.batch * (strips_ + tiles_) : 0; }

  void fill(tile_ids* memory) {
    if (ids() == 0) return;
    ids_ = memory;
    for (std::int64_t b = 0; b < problem_.batch; ++b) {
      const visibility seen = visibility_of(problem_, b);
      tile_ids* const strips = memory + b * (strips_ + tiles_);
      for (std::int64_t i = 0; i < strips_; ++i)
        strips[i] = query_ids(problem_, seen, b, queries_of(i, seen.queries));
      for (std::int64_t i = 0; i < tiles_; ++i)
        strips[strips_ + i] = key_ids(problem_, b, tile_span(i, seen.keys));
    }
  }

  // Whether the strip may see a key of the tile that starts at `key`, or of any tile of the block.
  bool sees_tile(const kv_head& h, std::int64_t strip, std::int64_t key) const {
    const span seen = keys_seen(h, strip);
    const span tile = tile_span(key / of_.tile_keys, h.visibility.keys);
    return std::max(seen.begin, tile.begin) < std::min(seen.end, tile.end) &&
           may_meet(h, strip, key / of_.tile_keys);
  }

  bool sees_block(const kv_head& h, std::int64_t strip, std::int64_t block) const {
    const std::int64_t first = block * of_.block_keys;
    const std::int64_t end = std::min(first + of_.block_keys, h.visibility.keys);
    for (std::int64_t key = first; key < end; key += of_.tile_keys)
      if (sees_tile(h, strip, key)) return true;
    return false;
  }

  // The blocks from the first to the last that the band of indices lets the strip see.
  span blocks_seen(const kv_head& h, std::int64_t strip) const {
    const span keys = keys_seen(h, strip);
    if (keys.empty()) return {0, 0};
    return {keys.begin / of_.block_keys, (keys.end - 1) / of_.block_keys + 1};
  }

  // How many blocks of `blocks` the strip sees.
  std::int64_t count(const kv_head& h, std::int64_t strip, span blocks) const {
    if (!ids_) return std::max<std::int64_t>(0, blocks.end - blocks.begin);
    std::int64_t seen = 0;
    for (std::int64_t i = blocks.begin; i < blocks.end; ++i) seen += sees_block(h, strip, i);
    return seen;
  }

  bool sees_any(const kv_head& h, std::int64_t strip) const {
    return count(h, strip, blocks_seen(h, strip)) > 0;
  }

 private:
  span queries_of(std::int64_t strip, std::int64_t queries) const {
    const std::int64_t row = strip * of_.strip_rows;
    return {std::min(row / group_, queries),
            std::min((row + of_.strip_rows - 1) / group_ + 1, queries)};
  }
  span tile_span(std::int64_t tile, std::int64_t keys) const {
    const std::int64_t key = tile * of_.tile_keys;
    return {std::min(key, keys), std::min(key + of_.tile_keys, keys)};
  }
  span keys_seen(const kv_head& h, std::int64_t strip) const {
    const span queries = queries_of(strip, h.visibility.queries);
    return queries.empty() ? span{0, 0} : h.visibility.keys_of(queries);
  }
  bool may_meet(const kv_head& h, std::int64_t strip, std::int64_t tile) const {
    if (!ids_) return true;
    const tile_ids* strips = ids_ + h.batch * (strips_ + tiles_);
    return strips[strip].meet(strips[strips_ + tile]);
  }

  const attention_problem& problem_;
  sizes of_;
  std::int64_t group_;
  std::int64_t strips_;
  std::int64_t tiles_;
  const tile_ids* ids_ = nullptr;
};

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
