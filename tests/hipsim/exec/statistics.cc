#include "tests/hipsim/exec/statistics.h"

#include <algorithm>
#include <cstdio>

namespace hipsim {
namespace {

// In the order of Class.
constexpr const char* kClassNames[kClasses] = {
    "salu",  "branch", "nop",  "wait", "barrier", "end",     "hint",   "message", "valu",
    "trans", "mfma",   "smem", "ds",   "flat",    "scratch", "global", "buffer",  "cache",
};

void Append(std::string& json, const char* key, uint64_t value) {
  json += ", \"";
  json += key;
  json += "\": ";
  json += std::to_string(value);
}

std::string Triple(const std::array<uint32_t, 3>& values) {
  return "[" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
         std::to_string(values[2]) + "]";
}

std::string Instructions(const Statistics& statistics) {
  std::string json;
  uint64_t total = 0;
  for (int i = 0; i < kClasses; ++i) {
    Append(json, kClassNames[i], statistics.instructions[i]);
    total += statistics.instructions[i];
  }
  return "{\"total\": " + std::to_string(total) + json + "}";
}

}  // namespace

void Statistics::Add(const Statistics& other) {
  for (int i = 0; i < kClasses; ++i) instructions[i] += other.instructions[i];
  mfma_passes += other.mfma_passes;
  valu_passes += other.valu_passes;
  lds_cycles += other.lds_cycles;
  lds_conflict_cycles += other.lds_conflict_cycles;
  lds_read += other.lds_read;
  lds_written += other.lds_written;
  global_read += other.global_read;
  global_written += other.global_written;
  scratch_read += other.scratch_read;
  scratch_written += other.scratch_written;
  scalar_read += other.scalar_read;
}

Occupancy OccupancyOf(const Kernel& kernel, const LaunchShape& shape, Chip chip) {
  constexpr uint32_t kRegisters = 512, kMaxWaves = 8, kSimds = 4;
  const uint32_t lds = chip == Chip::kGfx950 ? 160 << 10 : 64 << 10;
  const uint32_t threads = shape.block[0] * shape.block[1] * shape.block[2];
  const uint32_t waves = (threads + 63) / 64;
  Occupancy occupancy;
  occupancy.registers = std::min(kMaxWaves, kRegisters / kernel.descriptor.total_vgprs());
  const uint32_t groups = shape.lds == 0 ? kMaxWaves * kSimds : lds / shape.lds;
  occupancy.lds = std::min(kMaxWaves, (groups * waves + kSimds - 1) / kSimds);
  return occupancy;
}

std::string ToJson(const Statistics& s, const Kernel& kernel, const LaunchShape& shape, Chip chip,
                   double seconds) {
  std::string json = "{\"kernel\": \"" + kernel.name + "\", \"chip\": \"";
  json += ChipName(chip);
  json += "\", \"grid\": " + Triple(shape.grid) + ", \"block\": " + Triple(shape.block);
  Append(json, "lds_bytes", shape.lds);
  Append(json, "vgprs", kernel.descriptor.total_vgprs());
  const Occupancy occupancy = OccupancyOf(kernel, shape, chip);
  Append(json, "waves_per_simd", occupancy.waves());
  Append(json, "waves_per_simd_by_registers", occupancy.registers);
  Append(json, "waves_per_simd_by_lds", occupancy.lds);
  json += ", \"instructions\": " + Instructions(s);
  Append(json, "mfma_passes", s.mfma_passes);
  Append(json, "valu_passes", s.valu_passes);
  Append(json, "lds_cycles", s.lds_cycles);
  Append(json, "lds_conflict_cycles", s.lds_conflict_cycles);
  Append(json, "lds_bytes_read", s.lds_read);
  Append(json, "lds_bytes_written", s.lds_written);
  Append(json, "global_bytes_read", s.global_read);
  Append(json, "global_bytes_written", s.global_written);
  Append(json, "scratch_bytes_read", s.scratch_read);
  Append(json, "scratch_bytes_written", s.scratch_written);
  Append(json, "scalar_bytes_read", s.scalar_read);
  Append(json, "buffers_read_and_written", s.buffers_read_and_written);
  char text[48];
  std::snprintf(text, sizeof(text), ", \"simulated_in_seconds\": %.6f}", seconds);
  return json + text;
}

}  // namespace hipsim
