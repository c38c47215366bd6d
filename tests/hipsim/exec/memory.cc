// Memory instructions: where each lane's bytes are, and what is done with them.

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/hipsim/exec/atomics.h"
#include "tests/hipsim/exec/banks.h"
#include "tests/hipsim/exec/buffer_format.h"
#include "tests/hipsim/exec/device.h"

namespace hipsim {
namespace {

constexpr uint64_t kAllLanes = ~uint64_t{0};

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// Calls f(lane) for each set bit.
template <class F>
void ForEachLane(uint64_t lanes, F&& f) {
  if (lanes == kAllLanes) {
    for (int lane = 0; lane < kLanes; ++lane) f(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1) f(__builtin_ctzll(lanes));
}

void CopyBytes(void* to, const void* from, uint32_t bytes) {
  switch (bytes) {
    case 4:
      std::memcpy(to, from, 4);
      return;
    case 8:
      std::memcpy(to, from, 8);
      return;
    case 16:
      std::memcpy(to, from, 16);
      return;
    default:
      std::memcpy(to, from, bytes);
  }
}

bool AllDefined(const uint8_t* defined, uint32_t bytes) {
  if (bytes == 4) {
    uint32_t four;
    std::memcpy(&four, defined, 4);
    return four == 0x01010101;
  }
  return std::all_of(defined, defined + bytes, [](uint8_t byte) { return byte != 0; });
}

}  // namespace

// Carries out one memory instruction of a wave.
class MemoryUnit {
 public:
  MemoryUnit(DeviceWave& wave, const Decoded& decoded)
      : wave_(wave),
        group_(wave.group),
        i_(decoded.instruction),
        op_(decoded.facts.memory),
        decoded_(decoded),
        lanes_(wave.exec()) {}

  void Run() {
    if (op_.kind == MemoryKind::kNothing) return;
    if (i_.kind == Class::kSmem) return RunScalar();
    CheckLaneMask();
    switch (i_.kind) {
      case Class::kDs:
        return RunLds();
      case Class::kGlobal:
      case Class::kFlat:
      case Class::kScratch:
        return RunFlat();
      default:
        return RunBuffer();
    }
  }

 private:
  using Places = std::array<LanePlace, kLanes>;

  const LaunchContext& context() const { return group_.context; }

  // ---- Undefined data ----

  void CheckLaneMask() const {
    if (!context().Checks(kCheckUndefined)) return;
    if (wave_.undefined64(kExec) != 0) {
      throw CheckFault("undefined", "EXEC, which says which lanes take part, was never written.");
    }
  }

  void CheckDefined(uint64_t undefined, const char* what) const {
    undefined &= lanes_;
    if (undefined == 0 || !context().Checks(kCheckUndefined)) return;
    throw CheckFault("undefined",
                     std::string(what) + " was computed from registers or memory never written.",
                     __builtin_ctzll(undefined));
  }

  uint64_t Scalar(const Operand& operand, const char* what) const {
    if (operand.kind == OperandKind::kNone) return 0;
    if (context().Checks(kCheckUndefined) && wave_.read_scalar_undefined(operand) != 0) {
      throw CheckFault("undefined",
                       std::string(what) + " was computed from registers or memory never written.");
    }
    return wave_.read_scalar(operand);
  }

  uint32_t M0() const {
    if (context().Checks(kCheckUndefined) && wave_.sgpr_undefined[kM0] != 0) {
      throw CheckFault("undefined", "M0, which holds the LDS address, was never written.");
    }
    return wave_.m0();
  }

  // ---- Results under way ----

  Pending& Queue(uint32_t dwords) {
    if (wave_.spare.empty()) wave_.spare.push_back(std::make_unique<Pending>());
    wave_.pending.push_back(std::move(wave_.spare.back()));
    wave_.spare.pop_back();
    Pending& pending = *wave_.pending.back();
    pending.decoded = &decoded_;
    pending.on_scalar = i_.kind == Class::kDs || i_.kind == Class::kSmem || i_.kind == Class::kFlat;
    pending.on_vector = i_.kind != Class::kDs && i_.kind != Class::kSmem;
    pending.unordered = i_.kind == Class::kFlat || i_.kind == Class::kSmem;
    pending.lanes = lanes_;
    pending.lds_count = 0;
    pending.dst = {};
    if (dwords != 0 && i_.dst) {
      pending.dst = {i_.dst.kind == OperandKind::kVector, i_.dst.index,
                     static_cast<uint16_t>(dwords)};
      wave_.MarkPending(pending.dst, 1);
      for (uint32_t d = 0; d < std::min<uint32_t>(dwords, 4); ++d) pending.undefined[d] = 0;
    }
    return pending;
  }

  // ---- Places of lanes ----

  const Buffer* FindBuffer(const std::vector<Buffer>& buffers, uint64_t address,
                           uint64_t size) const {
    auto at = std::upper_bound(buffers.begin(), buffers.end(), address,
                               [](uint64_t a, const Buffer& buffer) { return a < buffer.base; });
    while (at != buffers.begin()) {
      const Buffer& buffer = *--at;
      const uint64_t offset = address - buffer.base;
      if (offset <= buffer.size && size <= buffer.size - offset) return &buffer;
    }
    return nullptr;
  }

  LanePlace Global(uint64_t address, uint32_t bytes, int lane) {
    const Buffer* buffer = wave_.last_buffer_;
    if (buffer == nullptr || address - buffer->base > buffer->size ||
        bytes > buffer->size - (address - buffer->base)) {
      buffer = FindBuffer(context().buffers, address, bytes);
      if (buffer == nullptr) FaultOutside(address, bytes, lane);
      wave_.last_buffer_ = buffer;
    }
    if (i_.kind != Class::kSmem) context().MarkUse(*buffer, op_);
    uint8_t* defined = buffer->DefinedAt(address);
    return {reinterpret_cast<uint8_t*>(address), defined, bytes};
  }

  [[noreturn]] void FaultOutside(uint64_t address, uint32_t bytes, int lane) const {
    std::string message = "the " + std::to_string(bytes) + " bytes at " + Hex(address) + " lie ";
    const Buffer* other = FindBuffer(context().others, address, bytes);
    if (other != nullptr && other->kind != Buffer::Kind::kInternal) {
      message += "in " + Describe(*other) + ", which no argument of the launch points into.";
    } else {
      message += "outside all buffers" + Nearest(address) + ".";
    }
    throw CheckFault("bounds", message, lane);
  }

  std::string Nearest(uint64_t address) const {
    const Buffer* nearest = nullptr;
    uint64_t least = uint64_t{1} << 32;
    for (const Buffer& buffer : context().buffers) {
      const uint64_t distance = address < buffer.base     ? buffer.base - address
                                : address >= buffer.end() ? address - buffer.end()
                                                          : 0;
      if (distance >= least) continue;
      least = distance;
      nearest = &buffer;
    }
    if (nearest == nullptr) return "";
    if (address < nearest->base) {
      return ", " + std::to_string(least) + " bytes before " + Describe(*nearest);
    }
    if (address < nearest->end()) return ", across the end of " + Describe(*nearest);
    return ", " + std::to_string(least) + " bytes past the end of " + Describe(*nearest);
  }

  LanePlace Lds(uint64_t address, uint32_t bytes, int lane) const {
    const uint32_t size = context().lds_bytes;
    if (address > size || bytes > size - address) {
      throw CheckFault("bounds",
                       "the " + std::to_string(bytes) + " bytes at LDS address " + Hex(address) +
                           " lie outside the workgroup's " + std::to_string(size) + " bytes.",
                       lane);
    }
    return {group_.lds.data() + address, group_.lds_defined.data() + address, bytes};
  }

  LanePlace Scratch(uint64_t address, uint32_t bytes, int lane) const {
    const uint32_t size = wave_.scratch_bytes;
    if (address > size || bytes > size - address) {
      throw CheckFault("bounds",
                       "the " + std::to_string(bytes) + " bytes at scratch address " +
                           Hex(address) + " lie outside the lane's " + std::to_string(size) +
                           " bytes.",
                       lane);
    }
    const uint64_t at = static_cast<uint64_t>(lane) * size + address;
    return {wave_.scratch.data() + at, wave_.scratch_defined.data() + at, bytes};
  }

  void CheckAlignment(uint64_t address, uint32_t align, const char* space, int lane) const {
    if (address % align == 0 || !context().Checks(kCheckAlignment)) return;
    throw CheckFault("alignment",
                     std::string("the ") + space + " address " + Hex(address) +
                         " is not a multiple of " + std::to_string(align) + ".",
                     lane);
  }

  uint32_t LdsAlignment(uint32_t bytes) const {
    const uint32_t natural = bytes == 12 ? 4 : bytes;  // Three dwords in a row need a dword's.
    return context().request->options.dword_alignment ? std::min<uint32_t>(natural, 4) : natural;
  }

  // ---- LDS instructions ----

  void RunLds() {
    switch (op_.kind) {
      case MemoryKind::kSwizzle:
      case MemoryKind::kPermute:
      case MemoryKind::kBackwardPermute:
        return RunPermute();
      default:
        break;
    }
    if (i_.gds) throw Fault("global data share instructions are not simulated.");
    if (lanes_ == 0) {
      Queue(0);
      return;
    }
    const bool writes = op_.kind == MemoryKind::kStore;
    const bool transposes = op_.kind == MemoryKind::kTransposeLoad;
    if (transposes && lanes_ != kAllLanes) {
      throw Fault("a transposing read needs all lanes, EXEC is " + Hex(lanes_) + ".");
    }
    LdsRegion regions[2];
    Places places[2];
    for (int e = 0; e < op_.elements; ++e) LdsPlaces(e, regions[e], places[e]);
    Pending& pending = Queue(writes ? 0 : RegistersLoaded());
    for (int e = 0; e < op_.elements; ++e) {
      group_.RecordLds(regions[e], wave_, i_);
      pending.lds[pending.lds_count++] = regions[e];
      CountLds(regions[e]);
      RunLdsElement(e, places[e], pending);
    }
    if (transposes) Transpose(pending);
  }

  uint32_t RegistersLoaded() const {
    if (op_.kind == MemoryKind::kAtomic && !Returns()) return 0;
    return op_.elements * std::max<uint32_t>(1, (op_.bytes + 3) / 4);
  }

  // Only FLAT, GLOBAL and MUBUF atomics say by a bit whether they return.
  bool Returns() const { return i_.kind == Class::kDs ? op_.returns : i_.glc; }

  void LdsPlaces(int element, LdsRegion& region, Places& places) {
    region.kind = op_.kind == MemoryKind::kStore    ? LdsAccess::Kind::kWrite
                  : op_.kind == MemoryKind::kAtomic ? LdsAccess::Kind::kAtomic
                                                    : LdsAccess::Kind::kRead;
    region.bytes = op_.bytes;
    region.lanes = lanes_;
    VectorRegister room;
    const VectorRegister* addresses = nullptr;
    uint32_t m0 = 0;
    if (op_.add_tid) {
      m0 = M0() & 0xFFFF;
    } else {
      addresses = &wave_.read_vector(i_.src[0], 0, room);
      CheckDefined(wave_.read_vector_undefined(i_.src[0], 0), "the address");
    }
    const uint32_t offset = LdsOffset(element);
    const uint32_t align = LdsAlignment(op_.bytes);
    ForEachLane(lanes_, [&](int lane) {
      const uint64_t base = addresses != nullptr ? (*addresses)[lane] : m0 + 4u * lane;
      const uint64_t address = base + offset;
      CheckAlignment(address, align, "LDS", lane);
      places[lane] = Lds(address, op_.bytes, lane);
      region.address[lane] = static_cast<uint32_t>(address);
    });
  }

  uint32_t LdsOffset(int element) const {
    if (op_.elements == 1) return static_cast<uint32_t>(i_.offset);
    const uint32_t units = element == 0 ? static_cast<uint32_t>(i_.offset) & 0xFF : i_.offset1;
    return units * op_.bytes * op_.stride;
  }

  void CountLds(const LdsRegion& region) {
    const bool write = region.kind != LdsAccess::Kind::kRead;
    const LdsCycles cycles =
        CountLdsCycles(wave_.chip, write, region.bytes, region.address.data(), region.lanes);
    Statistics& statistics = group_.statistics;
    statistics.lds_cycles += cycles.ideal;
    statistics.lds_conflict_cycles += cycles.extra;
    (write ? statistics.lds_written : statistics.lds_read) +=
        uint64_t{region.bytes} * static_cast<uint64_t>(__builtin_popcountll(region.lanes));
  }

  void RunLdsElement(int element, const Places& places, Pending& pending) {
    const uint32_t dwords = std::max<uint32_t>(1, (op_.bytes + 3) / 4);
    const uint32_t first = static_cast<uint32_t>(element) * dwords;
    switch (op_.kind) {
      case MemoryKind::kStore:
        return Store(places, element == 0 ? i_.src[1] : i_.src[2], false);
      case MemoryKind::kAtomic:
        return LdsAtomic(element, places, pending, first);
      default:
        return Load(places, pending, first);
    }
  }

  void LdsAtomic(int element, const Places& places, Pending& pending, uint32_t first) {
    const Operand& data0 = element == 0 ? i_.src[1] : i_.src[2];
    const uint32_t dwords = op_.bytes / 4u;
    ForEachLane(lanes_, [&](int lane) {
      uint64_t old = 0;
      std::memcpy(&old, places[lane].data, op_.bytes);
      const uint64_t a = LaneData(data0, lane),
                     b = op_.elements == 1 ? LaneData(i_.src[2], lane) : 0;
      const uint64_t result = ApplyAtomic(op_, old, a, b);
      std::memcpy(places[lane].data, &result, op_.bytes);
      bool defined = AllDefined(places[lane].defined, op_.bytes);
      if (op_.atomic != AtomicOp::kSwap && !defined) {
        CheckDefined(uint64_t{1} << lane, "the LDS that the atomic changes");
      }
      std::memset(places[lane].defined, 1, op_.bytes);
      if (!Returns()) return;
      for (uint32_t d = 0; d < dwords; ++d) {
        pending.data[first + d][lane] = static_cast<uint32_t>(old >> (32 * d));
        if (!defined) pending.undefined[first + d] |= uint64_t{1} << lane;
      }
    });
    for (uint32_t d = 0; d < dwords; ++d) {
      CheckDefined(wave_.read_vector_undefined(data0, static_cast<int>(d)), "the atomic's data");
    }
  }

  // A lane's one or two dwords of an operand.
  uint64_t LaneData(const Operand& operand, int lane) const {
    if (!operand) return 0;
    VectorRegister room;
    uint64_t value = wave_.read_vector(operand, 0, room)[lane];
    if (op_.bytes == 8) value |= uint64_t{wave_.read_vector(operand, 1, room)[lane]} << 32;
    return value;
  }

  // 16 lanes read a tile of 16 / E rows of lanes, of E elements each; each lane gets a column:
  // element n of lane l comes from lane (l & ~15) + (l / E) % R + R n, its element l % E, where R =
  // 16 / E.
  void Transpose(Pending& pending) const {
    const uint32_t bits = op_.transposed, elements = bits == 6 ? 16 : 64 / bits;
    const uint32_t rows = 16 / elements, dwords = op_.bytes / 4u;
    static thread_local std::array<VectorRegister, 4> source;
    std::array<uint64_t, 4> undefined{};
    for (uint32_t d = 0; d < dwords; ++d) {
      source[d] = pending.data[d];
      undefined[d] = pending.undefined[d];
      pending.data[d].lane.fill(0);
      pending.undefined[d] = 0;
    }
    const auto element = [&](uint32_t lane, uint32_t index) {
      const uint32_t bit = index * bits, d = bit / 32;
      uint64_t value = source[d][static_cast<int>(lane)];
      if (d + 1 < dwords) value |= uint64_t{source[d + 1][static_cast<int>(lane)]} << 32;
      return static_cast<uint32_t>(value >> (bit % 32)) & ((1u << bits) - 1);
    };
    for (uint32_t l = 0; l < kLanes; ++l) {
      for (uint32_t n = 0; n < elements; ++n) {
        const uint32_t from = (l & ~15u) + l / elements % rows + rows * n;
        const uint64_t value = uint64_t{element(from, l % elements)} << (n * bits % 32);
        const uint32_t d = n * bits / 32;
        pending.data[d][static_cast<int>(l)] |= static_cast<uint32_t>(value);
        if ((value >> 32) != 0) {
          pending.data[d + 1][static_cast<int>(l)] |= static_cast<uint32_t>(value >> 32);
        }
        if ((undefined[l % elements * bits / 32] >> from & 1) != 0) {
          pending.undefined[d] |= uint64_t{1} << l;
        }
      }
    }
  }

  // ---- Lane permutations ----

  void RunPermute() {
    Pending& pending = Queue(1);
    VectorRegister room, data_room;
    const bool swizzle = op_.kind == MemoryKind::kSwizzle;
    const VectorRegister& first = wave_.read_vector(i_.src[0], 0, room);
    const VectorRegister& data = swizzle ? first : wave_.read_vector(i_.src[1], 0, data_room);
    const uint64_t undefined = wave_.read_vector_undefined(swizzle ? i_.src[0] : i_.src[1], 0);
    if (!swizzle) CheckDefined(wave_.read_vector_undefined(i_.src[0], 0), "the lane to take");
    pending.data[0].lane.fill(0);
    const auto take = [&](int to, int from) {
      if ((lanes_ >> from & 1) == 0) return;
      pending.data[0][to] = data[from];
      const uint64_t bit = uint64_t{1} << to;
      pending.undefined[0] =
          (undefined >> from & 1) != 0 ? pending.undefined[0] | bit : pending.undefined[0] & ~bit;
    };
    ForEachLane(lanes_, [&](int lane) {
      if (swizzle) return take(lane, SwizzledLane(lane));
      const int other =
          static_cast<int>((first[lane] + static_cast<uint32_t>(i_.offset)) / 4 % kLanes);
      if (op_.kind == MemoryKind::kPermute) return take(other, lane);
      take(lane, other);
    });
  }

  int SwizzledLane(int lane) const {
    const auto pattern = static_cast<uint32_t>(i_.offset);
    const int half = lane & 32, l = lane & 31;
    if ((pattern & 0x8000) == 0) {
      const int mask = pattern & 31, set = pattern >> 5 & 31, flip = pattern >> 10 & 31;
      return half | (((l & mask) | set) ^ flip);
    }
    if (pattern >= 0xE000) throw Fault("ds_swizzle's FFT mode is not simulated.");
    if (pattern >= 0xC000) {
      const int mask = pattern & 31, by = pattern >> 5 & 31;
      const int moved = (pattern >> 10 & 1) != 0 ? l - by : l + by;
      return half | (l & mask) | (moved & ~mask & 31);
    }
    return (lane & ~3) | static_cast<int>(pattern >> (2 * (lane & 3)) & 3);
  }

  // ---- Loads, stores and atomics ----

  void Load(const Places& places, Pending& pending, uint32_t first) {
    const uint32_t bytes = op_.bytes;
    if (bytes < 4) return LoadNarrow(places, pending, first);
    const uint32_t dwords = bytes / 4;
    ForEachLane(lanes_, [&](int lane) {
      const LanePlace& place = places[lane];
      uint32_t value[4] = {};
      if (place.valid == bytes) {
        CopyBytes(value, place.data, bytes);
      } else if (place.valid != 0) {
        std::memcpy(value, place.data, place.valid);
      }
      for (uint32_t d = 0; d < dwords; ++d) {
        pending.data[first + d][lane] = value[d];
        if (place.defined != nullptr && 4 * d < place.valid &&
            !AllDefined(place.defined + 4 * d, 4)) {
          pending.undefined[first + d] |= uint64_t{1} << lane;
        }
      }
    });
  }

  // Bytes and halves, extended to a dword; d16 forms zero the other half.
  void LoadNarrow(const Places& places, Pending& pending, uint32_t first) {
    const uint32_t bytes = op_.bytes;
    ForEachLane(lanes_, [&](int lane) {
      const LanePlace& place = places[lane];
      uint32_t value = 0;
      if (place.valid != 0) std::memcpy(&value, place.data, bytes);
      if (op_.sign) {
        const int shift = static_cast<int>(32 - 8 * bytes);
        value = static_cast<uint32_t>(static_cast<int32_t>(value << shift) >> shift);
      }
      if (op_.half == Half::kLow) value &= 0xFFFF;
      if (op_.half == Half::kHigh) value <<= 16;
      pending.data[first][lane] = value;
      if (place.valid != 0 && place.defined != nullptr && !AllDefined(place.defined, bytes)) {
        pending.undefined[first] |= uint64_t{1} << lane;
      }
    });
  }

  // Stores an operand; `check` where undefined data has to be reported and not only passed on.
  void Store(const Places& places, const Operand& data, bool check) {
    const uint32_t bytes = op_.bytes, dwords = std::max<uint32_t>(1, bytes / 4);
    VectorRegister rooms[4];
    const VectorRegister* values[4] = {};
    uint64_t undefined[4] = {};
    for (uint32_t d = 0; d < dwords; ++d) {
      values[d] = &wave_.read_vector(data, static_cast<int>(d), rooms[d]);
      undefined[d] = wave_.read_vector_undefined(data, static_cast<int>(d));
    }
    ForEachLane(lanes_, [&](int lane) {
      const LanePlace& place = places[lane];
      if (place.valid == 0) return;
      const uint64_t bit = uint64_t{1} << lane;
      if (bytes < 4) {
        const uint32_t value = (*values[0])[lane] >> (op_.half == Half::kHigh ? 16 : 0);
        std::memcpy(place.data, &value, bytes);
        return Define(place, 0, bytes, (undefined[0] & bit) == 0, check, lane);
      }
      for (uint32_t d = 0; d < dwords && 4 * d < place.valid; ++d) {
        const uint32_t value = (*values[d])[lane];
        std::memcpy(place.data + 4 * d, &value, 4);
        Define(place, 4 * d, 4, (undefined[d] & bit) == 0, check, lane);
      }
    });
  }

  void Define(const LanePlace& place, uint32_t at, uint32_t bytes, bool defined, bool check,
              int lane) const {
    if (!defined && check && context().Checks(kCheckUndefined)) {
      throw CheckFault("undefined",
                       "dword " + std::to_string(at / 4) +
                           " of the stored data was computed from registers or memory never "
                           "written.",
                       lane);
    }
    if (place.defined == nullptr) return;
    const uint32_t mark = defined ? 0x01010101 : 0;
    std::memcpy(place.defined + at, &mark, bytes);
  }

  void GlobalAtomic(const Places& places, Pending& pending) {
    const Operand& data = i_.src[1];
    const uint32_t dwords = op_.bytes / 4u;
    for (uint32_t d = 0; d < data.dwords; ++d) {
      CheckDefined(wave_.read_vector_undefined(data, static_cast<int>(d)), "the atomic's data");
    }
    ForEachLane(lanes_, [&](int lane) {
      const LanePlace& place = places[lane];
      uint64_t old = 0;
      bool defined = true;
      if (place.valid == op_.bytes) {
        CheckAlignment(reinterpret_cast<uint64_t>(place.data), op_.bytes, "atomic's", lane);
        defined = place.defined == nullptr || AllDefined(place.defined, op_.bytes);
        if (!defined && op_.atomic != AtomicOp::kSwap) {
          CheckDefined(uint64_t{1} << lane, "the memory that the atomic changes");
        }
        old = AtomicUpdate(op_, place.data, AtomicData(data, lane, 0),
                           AtomicData(data, lane, dwords));
        if (place.defined != nullptr) std::memset(place.defined, 1, op_.bytes);
      }
      if (!Returns()) return;
      for (uint32_t d = 0; d < dwords; ++d) {
        pending.data[d][lane] = static_cast<uint32_t>(old >> (32 * d));
        if (!defined) pending.undefined[d] |= uint64_t{1} << lane;
      }
    });
  }

  // A lane's data at dword `first`; a compare-and-swap has its comparand after the new value.
  uint64_t AtomicData(const Operand& data, int lane, uint32_t first) const {
    const uint32_t dwords = op_.bytes / 4u;
    uint64_t value = 0;
    VectorRegister room;
    for (uint32_t d = 0; d < dwords && first + d < data.dwords; ++d) {
      value |= uint64_t{wave_.read_vector(data, static_cast<int>(first + d), room)[lane]}
               << (32 * d);
    }
    return value;
  }

  // ---- Direct loads to LDS ----

  // Where lane 0's data goes; the others follow, 4 bytes a lane, or 16 for three and four dwords.
  void DirectLoad(const Places& places, uint32_t lds_base) {
    const uint32_t stride = op_.bytes > 4 ? 16 : 4, written = op_.bytes < 4 ? 4u : op_.bytes;
    Pending& pending = Queue(0);
    LdsRegion& region = pending.lds[0];
    region.kind = LdsAccess::Kind::kDirect;
    region.bytes = written;
    region.lanes = lanes_;
    const uint32_t align = written == 12 ? 4 : written;
    ForEachLane(lanes_, [&](int lane) {
      const uint32_t address = lds_base + stride * static_cast<uint32_t>(lane);
      if (lane == __builtin_ctzll(lanes_))
        CheckAlignment(lds_base, std::min(align, 4u), "LDS", lane);
      Lds(address, written, lane);
      region.address[lane] = address;
    });
    pending.lds_count = 1;
    CheckOwnReads(region, pending);
    group_.RecordLds(region, wave_, i_);
    for (uint32_t d = 0; d < (written + 3) / 4; ++d) pending.undefined[d] = 0;
    Load(places, pending, 0);
    group_.statistics.lds_written +=
        uint64_t{written} * static_cast<uint64_t>(__builtin_popcountll(lanes_));
  }

  // A direct load is unordered with its own wave's LDS instructions that are under way.
  void CheckOwnReads(const LdsRegion& region, const Pending& own) const {
    if (!context().Checks(kCheckRaces)) return;
    for (const auto& other : wave_.pending) {
      if (other.get() == &own || !other->on_scalar) continue;
      for (int r = 0; r < other->lds_count; ++r) {
        if (!Overlap(region, other->lds[r])) continue;
        throw CheckFault("race", "the direct load may write LDS before this wave's " +
                                     disassemble(other->decoded->instruction) +
                                     " has been carried out: it was not waited for.");
      }
    }
  }

  static bool Overlap(const LdsRegion& a, const LdsRegion& b) {
    const auto span = [](const LdsRegion& region) {
      uint32_t low = ~0u, high = 0;
      ForEachLane(region.lanes, [&](int lane) {
        low = std::min(low, region.address[lane]);
        high = std::max(high, region.address[lane] + region.bytes);
      });
      return std::pair(low, high);
    };
    const auto [a_low, a_high] = span(a);
    const auto [b_low, b_high] = span(b);
    if (a_low >= b_high || b_low >= a_high) return false;
    bool overlap = false;
    ForEachLane(a.lanes, [&](int i) {
      ForEachLane(b.lanes, [&](int j) {
        overlap |= a.address[i] < b.address[j] + b.bytes && b.address[j] < a.address[i] + a.bytes;
      });
    });
    return overlap;
  }

  // ---- FLAT, GLOBAL and SCRATCH ----

  void RunFlat() {
    if (lanes_ == 0) {
      Queue(0);
      return;
    }
    std::array<uint64_t, kLanes> addresses;
    FlatAddresses(addresses);
    LdsRegion region;
    region.kind = op_.kind == MemoryKind::kStore    ? LdsAccess::Kind::kWrite
                  : op_.kind == MemoryKind::kAtomic ? LdsAccess::Kind::kAtomic
                                                    : LdsAccess::Kind::kRead;
    region.bytes = op_.bytes;
    Places places;
    bool checks_store = i_.kind == Class::kGlobal;
    ForEachLane(lanes_, [&](int lane) {
      places[lane] = FlatPlace(addresses[lane], lane, region, checks_store);
    });
    CountFlat();
    Run(places, region, checks_store);
  }

  void Run(const Places& places, const LdsRegion& region, bool checks_store) {
    if (op_.kind == MemoryKind::kDirectLoad) {
      return DirectLoad(places, (M0() & 0x3FFFC) + static_cast<uint32_t>(i_.offset));
    }
    Pending& pending = Queue(op_.kind == MemoryKind::kStore ? 0 : RegistersLoaded());
    if (region.lanes != 0) {
      group_.RecordLds(region, wave_, i_);
      pending.lds[pending.lds_count++] = region;
    }
    switch (op_.kind) {
      case MemoryKind::kStore:
        return Store(places, i_.src[1], checks_store);
      case MemoryKind::kAtomic:
        return GlobalAtomic(places, pending);
      default:
        return Load(places, pending, 0);
    }
  }

  void FlatAddresses(std::array<uint64_t, kLanes>& addresses) {
    const Operand& vector = i_.src[0];
    const Operand& scalar = i_.src[2];
    const uint64_t base = Scalar(scalar, "the scalar address") +
                          static_cast<uint64_t>(static_cast<int64_t>(i_.offset));
    if (!vector) {
      addresses.fill(base);
      return;
    }
    VectorRegister low_room, high_room;
    const VectorRegister& low = wave_.read_vector(vector, 0, low_room);
    CheckDefined(wave_.read_vector_undefined(vector, 0), "the address");
    if (vector.dwords < 2) {
      ForEachLane(lanes_, [&](int lane) { addresses[lane] = base + low[lane]; });
      return;
    }
    const VectorRegister& high = wave_.read_vector(vector, 1, high_room);
    CheckDefined(wave_.read_vector_undefined(vector, 1), "the address");
    ForEachLane(lanes_, [&](int lane) {
      addresses[lane] = base + (low[lane] | uint64_t{high[lane]} << 32);
    });
  }

  LanePlace FlatPlace(uint64_t address, int lane, LdsRegion& region, bool& checks_store) {
    if (i_.kind == Class::kScratch) return Scratch(address & 0xFFFFFFFF, op_.bytes, lane);
    if (i_.kind == Class::kFlat) {
      if (address >= wave_.shared_base && address <= wave_.shared_limit) {
        const auto at = static_cast<uint32_t>(address - wave_.shared_base);
        region.lanes |= uint64_t{1} << lane;
        region.address[lane] = at;
        CheckAlignment(at, LdsAlignment(op_.bytes), "LDS", lane);
        return Lds(at, op_.bytes, lane);
      }
      if (address >= wave_.private_base && address <= wave_.private_limit) {
        return Scratch(address - wave_.private_base, op_.bytes, lane);
      }
    }
    checks_store = true;
    return Global(address, op_.bytes, lane);
  }

  void CountFlat() {
    const uint64_t bytes =
        uint64_t{op_.bytes} * static_cast<uint64_t>(__builtin_popcountll(lanes_));
    Statistics& s = group_.statistics;
    const bool scratch = i_.kind == Class::kScratch;
    if (op_.kind != MemoryKind::kStore) (scratch ? s.scratch_read : s.global_read) += bytes;
    if (op_.kind == MemoryKind::kStore || op_.kind == MemoryKind::kAtomic) {
      (scratch ? s.scratch_written : s.global_written) += bytes;
    }
  }

  // ---- MUBUF and MTBUF ----

  BufferDescriptor Descriptor(const Operand& operand) const {
    uint32_t words[4];
    for (int w = 0; w < 4; ++w) {
      words[w] = wave_.sgpr[operand.index + w];
      if (context().Checks(kCheckUndefined) && wave_.sgpr_undefined[operand.index + w] != 0) {
        throw CheckFault("undefined", "word " + std::to_string(w) +
                                          " of the buffer descriptor was computed from registers "
                                          "or memory never written.");
      }
    }
    return BufferDescriptor(words);
  }

  void RunBuffer() {
    const BufferDescriptor descriptor = Descriptor(i_.src[2]);
    if (lanes_ == 0) {
      Queue(0);
      return;
    }
    if (op_.components != 0) return RunFormat(descriptor);
    Places places;
    BufferPlaces(descriptor, op_.bytes, places);
    CountFlat();
    if (op_.kind == MemoryKind::kDirectLoad) {
      if (i_.offset != 0) {
        throw Fault("a buffer load to LDS has the immediate offset " + std::to_string(i_.offset) +
                    "; documents disagree on whether it moves the LDS address too, so it has to "
                    "be 0.");
      }
      return DirectLoad(places, M0() & 0x3FFFC);
    }
    Run(places, LdsRegion(), true);
  }

  void BufferPlaces(const BufferDescriptor& descriptor, uint32_t bytes, Places& places) {
    VectorRegister index_room, offset_room;
    const VectorRegister *index = nullptr, *offset = nullptr;
    int next = 0;
    if (i_.idxen) {
      CheckDefined(wave_.read_vector_undefined(i_.src[0], next), "the index");
      index = &wave_.read_vector(i_.src[0], next++, index_room);
    }
    if (i_.offen) {
      CheckDefined(wave_.read_vector_undefined(i_.src[0], next), "the offset");
      offset = &wave_.read_vector(i_.src[0], next, offset_room);
    }
    const auto soffset = static_cast<uint32_t>(Scalar(i_.src[3], "the scalar offset"));
    const bool structured = i_.idxen || descriptor.add_tid;
    ForEachLane(lanes_, [&](int lane) {
      uint64_t at = index != nullptr ? (*index)[lane] : 0;
      if (descriptor.add_tid) at += static_cast<uint64_t>(lane);
      const uint64_t inside =
          (offset != nullptr ? (*offset)[lane] : 0) + uint64_t{static_cast<uint32_t>(i_.offset)};
      places[lane] = BufferPlace(descriptor, structured, at, inside, soffset, bytes, lane);
    });
  }

  LanePlace BufferPlace(const BufferDescriptor& descriptor, bool structured, uint64_t index,
                        uint64_t offset, uint32_t soffset, uint32_t bytes, int lane) {
    const uint32_t valid = descriptor.ValidBytes(structured, index, offset, soffset, bytes);
    if (valid == 0) return {};
    const uint64_t address =
        descriptor.base + soffset + descriptor.Offset(structured, index, offset);
    CheckAlignment(address, std::min(bytes, 4u), "buffer", lane);
    LanePlace place = Global(address, valid, lane);
    place.valid = valid;
    return place;
  }

  void RunFormat(const BufferDescriptor& descriptor) {
    const bool typed = i_.format == Format::kMtbuf;
    const uint32_t data_format = typed ? i_.data_format : descriptor.data_format;
    const uint32_t number_format = typed ? i_.number_format : descriptor.number_format;
    const BufferFormat format(data_format, number_format);
    if (!format.Known()) {
      throw Fault("the buffer format (data " + std::to_string(data_format) + ", number " +
                  std::to_string(number_format) + ") is not simulated.");
    }
    Places places;
    BufferPlaces(descriptor, format.bytes(), places);
    const bool halves = op_.half != Half::kNone;
    if (op_.kind == MemoryKind::kStore) return StoreFormat(format, places, halves);
    const uint32_t dwords = halves ? (op_.components + 1u) / 2 : op_.components;
    Pending& pending = Queue(dwords);
    for (uint32_t d = 0; d < dwords; ++d) pending.data[d].lane.fill(0);
    ForEachLane(lanes_, [&](int lane) {
      const LanePlace& place = places[lane];
      std::array<uint32_t, 4> values{};
      if (place.valid == format.bytes()) {
        values = format.Unpack(place.data);
        if (!typed) values = descriptor.Select(values, format.IsInteger());
        if (place.defined != nullptr && !AllDefined(place.defined, format.bytes())) {
          for (uint32_t d = 0; d < dwords; ++d) pending.undefined[d] |= uint64_t{1} << lane;
        }
      }
      for (uint32_t c = 0; c < op_.components; ++c) {
        PutComponent(pending, lane, c, values[c], halves, format);
      }
    });
  }

  void PutComponent(Pending& pending, int lane, uint32_t component, uint32_t value, bool halves,
                    const BufferFormat& format) const {
    if (!halves) {
      pending.data[component][lane] = value;
      return;
    }
    const uint32_t shift = op_.half == Half::kHigh ? 16 : 16 * (component % 2);
    pending.data[component / 2][lane] |= format.ToHalf(value) << shift;
  }

  void StoreFormat(const BufferFormat& format, const Places& places, bool halves) {
    Queue(0);
    const Operand& data = i_.src[1];
    for (int d = 0; d < data.dwords; ++d) {
      CheckDefined(wave_.read_vector_undefined(data, d), "the stored data");
    }
    VectorRegister room;
    ForEachLane(lanes_, [&](int lane) {
      const LanePlace& place = places[lane];
      if (place.valid != format.bytes()) return;
      std::array<uint32_t, 4> values{};
      for (uint32_t c = 0; c < op_.components; ++c) {
        const uint32_t d = halves ? c / 2 : c;
        uint32_t value = wave_.read_vector(data, static_cast<int>(d), room)[lane];
        if (halves) {
          const uint32_t shift = op_.half == Half::kHigh ? 16 : 16 * (c % 2);
          value = format.FromHalf(value >> shift & 0xFFFF);
        }
        values[c] = value;
      }
      format.Pack(values, place.data);
      if (place.defined != nullptr) std::memset(place.defined, 1, format.bytes());
    });
  }

  // ---- Scalar loads ----

  void RunScalar() {
    const uint32_t dwords = op_.bytes / 4u;
    Pending& pending = Queue(dwords);
    for (uint32_t d = 0; d < dwords; ++d) pending.scalars_undefined[d] = 0;
    if (op_.kind == MemoryKind::kTime) {
      const uint64_t time = Time();
      pending.scalars[0] = static_cast<uint32_t>(time);
      pending.scalars[1] = static_cast<uint32_t>(time >> 32);
      return;
    }
    const uint64_t offset = static_cast<uint64_t>(static_cast<int64_t>(i_.offset)) +
                            static_cast<uint32_t>(Scalar(i_.src[1], "the scalar offset"));
    if (op_.buffer) return LoadFromDescriptor(pending, offset);
    const uint64_t address = Scalar(i_.src[0], "the address") + offset;
    CheckAlignment(address, 4, "scalar", -1);
    LoadScalars(pending, address & ~uint64_t{3}, 0, dwords);
  }

  void LoadFromDescriptor(Pending& pending, uint64_t offset) {
    const BufferDescriptor descriptor = Descriptor(i_.src[0]);
    const uint64_t scale = descriptor.stride == 0 ? 1 : descriptor.stride;
    const uint64_t size = descriptor.num_records * scale;
    CheckAlignment(descriptor.base + offset, 4, "scalar", -1);
    for (uint32_t d = 0; d < op_.bytes / 4u; ++d) {
      const uint64_t at = offset + 4 * d;
      pending.scalars[d] = 0;
      if (at + 4 <= size) LoadScalars(pending, descriptor.base + at, d, 1);
    }
  }

  void LoadScalars(Pending& pending, uint64_t address, uint32_t first, uint32_t dwords) {
    const LanePlace place = Global(address, 4 * dwords, -1);
    std::memcpy(&pending.scalars[first], place.data, 4 * dwords);
    group_.statistics.scalar_read += 4 * dwords;
    for (uint32_t d = 0; d < dwords; ++d) {
      const bool defined = place.defined == nullptr || AllDefined(place.defined + 4 * d, 4);
      pending.scalars_undefined[first + d] = defined ? 0 : ~0u;
    }
  }

  // s_memtime counts wait states, a clock each four; s_memrealtime 100 MHz.
  uint64_t Time() const {
    if (std::string_view(i_.name()) == "s_memtime") return 4 * wave_.states;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() /
                                 10);
  }

  DeviceWave& wave_;
  Workgroup& group_;
  const Instruction& i_;
  const MemoryOp& op_;
  const Decoded& decoded_;
  uint64_t lanes_;
};

void DeviceWave::ExecuteMemory(const Decoded& decoded) { MemoryUnit(*this, decoded).Run(); }

const LaunchContext& DeviceWave::context() const { return group.context; }

void DeviceWave::MarkPending(const RegisterRange& range, int change) {
  for (int r = range.first; r < range.first + range.count; ++r) {
    uint8_t& count = range.vector ? pending_vector[r] : pending_scalar[r];
    count = static_cast<uint8_t>(count + change);
    pending_registers += change;
  }
}

bool DeviceWave::WaitMatters(uint32_t vmcnt, uint32_t lgkmcnt) const {
  uint32_t vector = 0, scalar = 0;
  for (const auto& p : pending) {
    vector += p->on_vector ? 1 : 0;
    scalar += p->on_scalar ? 1 : 0;
  }
  return vector > vmcnt || scalar > lgkmcnt;
}

// In-order operations complete from the oldest on, down to the count; unordered ones only at 0, and
// may be those that were counted as complete: they do not help the others.
void DeviceWave::Wait(uint32_t vmcnt, uint32_t lgkmcnt) {
  uint32_t vector = 0, scalar = 0;
  for (const auto& p : pending) {
    vector += p->on_vector && !p->unordered ? 1 : 0;
    scalar += p->on_scalar && !p->unordered ? 1 : 0;
  }
  const auto done = [](bool& counted, bool unordered, uint32_t count, uint32_t& left) {
    if (!counted) return;
    const bool complete = unordered ? count == 0 : left > count;
    if (!unordered) --left;
    if (complete) counted = false;
  };
  size_t kept = 0;
  for (auto& p : pending) {
    done(p->on_vector, p->unordered, vmcnt, vector);
    done(p->on_scalar, p->unordered, lgkmcnt, scalar);
    if (p->on_vector || p->on_scalar) {
      if (&pending[kept] != &p) std::swap(pending[kept], p);
      ++kept;
    } else {
      Complete(*p);
    }
  }
  while (pending.size() > kept) {
    spare.push_back(std::move(pending.back()));
    pending.pop_back();
  }
}

void DeviceWave::Complete(Pending& p) {
  if (p.decoded->facts.memory.kind == MemoryKind::kDirectLoad) return CompleteDirect(p);
  if (p.dst.count == 0) return;
  MarkPending(p.dst, -1);
  if (!p.dst.vector) {
    for (int d = 0; d < p.dst.count; ++d) {
      set_scalar(p.dst.first + d, p.scalars[d], p.scalars_undefined[d]);
    }
    return;
  }
  for (int d = 0; d < p.dst.count; ++d) {
    const int r = p.dst.first + d;
    if (p.lanes == kAllLanes) {
      vgpr[r] = p.data[d];
    } else {
      ForEachLane(p.lanes, [&](int lane) { vgpr[r][lane] = p.data[d][lane]; });
    }
    vgpr_undefined[r] = (vgpr_undefined[r] & ~p.lanes) | (p.undefined[d] & p.lanes);
  }
}

void DeviceWave::CompleteDirect(const Pending& p) {
  const LdsRegion& region = p.lds[0];
  const uint32_t dwords = region.bytes / 4;
  const bool races = context().Checks(kCheckRaces);
  ForEachLane(region.lanes, [&](int lane) {
    const uint32_t address = region.address[lane];
    for (uint32_t d = 0; d < dwords; ++d) {
      const uint32_t value = p.data[d][lane];
      std::memcpy(group.lds.data() + address + 4 * d, &value, 4);
      const uint32_t defined = (p.undefined[d] >> lane & 1) != 0 ? 0 : 0x01010101;
      std::memcpy(group.lds_defined.data() + address + 4 * d, &defined, 4);
    }
    if (races) group.races.CloseDirect(address, region.bytes, static_cast<uint8_t>(index));
  });
}

void DeviceWave::CheckPendingRegisters(const Instruction& instruction) const {
  const auto check = [&](const RegisterRange& range, bool write) {
    for (int r = range.first; r < range.first + range.count; ++r) {
      if ((range.vector ? pending_vector[r] : pending_scalar[r & 127]) == 0) continue;
      for (const auto& p : pending) {
        const bool holds =
            p->dst.vector == range.vector && p->dst.first <= r && r < p->dst.first + p->dst.count;
        if (!holds) continue;
        // Loads that return in order may follow each other into a register.
        const Class kind = p->decoded->instruction.kind;
        const bool same_order = write && !p->unordered && current->facts.is_memory &&
                                instruction.kind != Class::kFlat &&
                                (kind == Class::kDs) == (instruction.kind == Class::kDs) &&
                                instruction.kind != Class::kSmem;
        if (same_order) continue;
        const std::string name =
            range.vector ? (r >= kFirstAgpr ? "a" : "v") + std::to_string(r % kFirstAgpr)
                         : "s" + std::to_string(r);
        throw CheckFault("wait", std::string(write ? "overwrites " : "reads ") + name +
                                     ", which '" + disassemble(p->decoded->instruction) +
                                     "' loads and no s_waitcnt has waited for.");
      }
    }
  };
  for (const RegisterRange& range : instruction.reads) check(range, false);
  for (const RegisterRange& range : instruction.writes) check(range, true);
}

void DeviceWave::CarryLdsAccesses() {
  for (const auto& p : pending) {
    for (int r = 0; r < p->lds_count; ++r) {
      group.RecordLds(p->lds[r], *this, p->decoded->instruction);
    }
  }
}

void Workgroup::RecordLds(const LdsRegion& region, const DeviceWave& wave,
                          const Instruction& instruction) {
  if (!context.Checks(kCheckRaces)) return;
  const LdsAccess access{static_cast<uint8_t>(wave.index), region.kind, instruction.address};
  ForEachLane(region.lanes, [&](int lane) {
    const auto other = races.Record(region.address[lane], region.bytes, access);
    if (!other) return;
    const Decoded* decoded = context.request->program->At(other->pc);
    const std::string text = decoded == nullptr ? "?" : disassemble(decoded->instruction);
    const std::string where =
        "LDS address " + Hex(region.address[lane]) + " is accessed by '" + text + "' at offset " +
        Hex(other->pc - context.request->kernel->entry) + " of wave " + std::to_string(other->wave);
    throw CheckFault(
        "race",
        other->wave == wave.index
            ? where + " too, this same wave, whose direct load no s_waitcnt vmcnt has waited for."
            : where + " too, and no barrier orders the two from issue to completing wait.",
        lane);
  });
}

Execute find_memory(const Instruction& instruction) {
  if (!FactsOf(instruction).is_memory) return nullptr;
  return [](Wave& wave, const Instruction&) {
    auto& device = static_cast<DeviceWave&>(wave);
    device.ExecuteMemory(*device.current);
  };
}

}  // namespace hipsim
