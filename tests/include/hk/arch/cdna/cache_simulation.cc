// How often the loads of a product hit the caches of an MI355X, for the order in which workgroups
// really take tiles (remap.h): with and without the chiplet remap, and for other parameters of it.
//
//   cdna_cache_simulation          prints a table for M = N = K of 4096 to 16384
//   cdna_cache_simulation scan     ... and the hit rates of all parameters
//
// 256 compute units, 32 to a chiplet, each with one workgroup of 256 x 256 of C. In every step of
// 64 terms a workgroup asks for 32 KiB of A and 32 KiB of B, which is also what a cache keeps or
// evicts, least recently used first. A chiplet has 4 MiB of L2, all share 256 MiB of LLC.
// Workgroups run up to 4 steps apart from each other, at random.
#include <cstdint>
#include <cstdio>
#include <list>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "hk/arch/cdna/remap.h"
#include "hk/kernels/gemm/device_plan.h"

namespace {

using namespace hk::cdna;

constexpr uint32_t tile = 256, depth = 64, piece_bytes = tile * depth * 2;
constexpr uint32_t units_of_chiplet = 32, skew = 4;

class cache {
 public:
  explicit cache(uint64_t bytes) : capacity_(bytes / piece_bytes) {}

  // Whether the piece was there; it is afterwards.
  bool touch(uint64_t piece) {
    const auto found = places_.find(piece);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    order_.push_front(piece);
    places_[piece] = order_.begin();
    if (places_.size() > capacity_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    return false;
  }

 private:
  uint64_t capacity_;
  std::list<uint64_t> order_;
  std::unordered_map<uint64_t, std::list<uint64_t>::iterator> places_;
};

struct rates {
  double l2;
  double llc;  // of what missed L2
  double memory_bytes;
};

struct parameters {
  bool remaps;
  uint32_t chunk_log2;
  uint32_t group;
};

// The tile that workgroup `id` takes. Without a remap: rows of tiles in plain order.
tile_place tile_of(uint32_t id, uint32_t tiles, const parameters& by) {
  const uint32_t count = tiles * tiles;
  if (!by.remaps) return grouped_tile(id, tiles, tiles, by.group);
  return grouped_tile(remap_to_chiplet(id, count, by.chunk_log2), tiles, tiles, by.group);
}

rates simulate(uint32_t size, const parameters& by) {
  const uint32_t tiles = size / tile, steps = size / depth, count = tiles * tiles;
  std::vector<cache> l2(remap_xcds, cache(4u << 20));
  cache llc(256u << 20);
  uint64_t asked = 0, missed_l2 = 0, missed_llc = 0;
  std::mt19937 random(1);
  const uint32_t at_once = remap_xcds * units_of_chiplet;
  for (uint32_t first = 0; first < count; first += at_once) {
    const uint32_t running = count - first < at_once ? count - first : at_once;
    std::vector<uint32_t> late(running);
    for (uint32_t& steps_late : late) steps_late = random() % (skew + 1);
    for (uint32_t time = 0; time < steps + skew; ++time)
      for (uint32_t i = 0; i < running; ++i) {
        if (time < late[i] || time - late[i] >= steps) continue;
        const uint32_t id = first + i;
        const tile_place at = tile_of(id, tiles, by);
        const uint64_t step = time - late[i];
        for (const uint64_t piece :
             {(uint64_t{at.row} * steps + step) * 2, (uint64_t{at.col} * steps + step) * 2 + 1}) {
          ++asked;
          if (l2[id % remap_xcds].touch(piece)) continue;
          ++missed_l2;
          if (!llc.touch(piece)) ++missed_llc;
        }
      }
  }
  return {1 - double(missed_l2) / double(asked), 1 - double(missed_llc) / double(missed_l2),
          double(missed_llc) * piece_bytes};
}

void print(uint32_t size, const char* name, const parameters& by) {
  const rates r = simulate(size, by);
  const double ideal = 2.0 * 2.0 * size * size;  // A and B once
  std::printf("%6u  %-22s  %5.1f%%  %5.1f%%  %6.2f\n", size, name, 100 * r.l2, 100 * r.llc,
              r.memory_bytes / ideal);
}

// What a plan has for the product.
parameters parameters_of(uint32_t size) {
  hk::gemm_problem p{};
  p.in_type = p.out_type = hk::dtype::bf16;
  p.batch = 1;
  p.m = p.n = p.k = size;
  const hk::gemm_plan plan = hk::plan_gemm(p, {chip::gfx950, traits<chip::gfx950>::compute_units});
  const auto x = plan.launches[0].get_arguments<hk::gemm_arguments>();
  return {true, static_cast<uint32_t>(x.chunk_log2), static_cast<uint32_t>(x.group)};
}

void scan(uint32_t size) {
  for (const uint32_t group : {2u, 4u, 8u, 16u, 32u})
    for (uint32_t chunk_log2 = 0; chunk_log2 <= 6; ++chunk_log2) {
      char name[32];
      std::snprintf(name, sizeof name, "chunk %u, group %u", 1u << chunk_log2, group);
      print(size, name, {true, chunk_log2, group});
    }
}

}  // namespace

int main(int count, char** words) {
  std::printf("  size  order                      L2     LLC  memory traffic / (A + B)\n");
  for (const uint32_t size : {4096u, 8192u, 16384u}) {
    print(size, "plain rows", {false, 0, 1});
    parameters planned = parameters_of(size);
    print(size, "as planned", planned);
    planned.remaps = false;
    print(size, "bands, no remap", planned);
    if (count > 1 && std::string(words[1]) == "scan") scan(size);
  }
  return 0;
}
