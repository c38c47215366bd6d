#include "tests/hipsim/exec/hazards.h"

#include <algorithm>

namespace hipsim {
namespace {

constexpr uint64_t kStart = 1000;  // so that "never", 0, is long ago
constexpr uint64_t kLongest = 32;  // no requirement is longer
constexpr int kVccLow = 106, kExecLow = 126;

enum MatrixKind : uint8_t { kXdl, kSingle, kDouble };

MatrixKind KindOf(const Facts& facts) {
  if ((facts.traits & kTraitDoubleMfma) != 0) return kDouble;
  return (facts.traits & kTraitSingleMfma) != 0 ? kSingle : kXdl;
}

std::string Name(bool vector, int r) {
  if (vector) return (r >= 256 ? "a" : "v") + std::to_string(r % 256);
  if (r == 106 || r == 107) return "VCC";
  if (r == 124) return "M0";
  if (r == 126 || r == 127) return "EXEC";
  return "s" + std::to_string(r);
}

std::string Sentence(const std::string& what, uint64_t needed, uint64_t since) {
  // Two instructions in a row have no state between them.
  return what + " needs " + std::to_string(needed) + " wait states in between, it has " +
         std::to_string(since - 1) + ".";
}

// MFMA result to VALU, memory or another MFMA's A and B.
uint64_t ResultUse(MatrixKind kind, uint64_t passes, bool gfx950, bool memory) {
  if (kind == kSingle) return passes + 2;
  if (kind == kDouble) {
    if (passes <= 4) return memory ? 9 : 6;
    if (memory) return 18;
    return gfx950 ? 19 : 11;
  }
  return passes + 3 + (gfx950 && passes > 2 ? 1 : 0);
}

// MFMA result to another MFMA's C that overlaps it without being the same registers.
uint64_t ResultToC(MatrixKind kind, uint64_t passes, bool gfx950) {
  if (kind == kSingle) return passes;
  if (kind == kDouble) return passes <= 4 ? 4 : gfx950 ? 17 : 9;
  return passes + 1 + (gfx950 ? 1 : 0);
}

}  // namespace

void Hazards::Reset() { *this = Hazards(); }

std::string Hazards::Check(const Instruction& i, const Facts& facts, uint64_t now,
                           Chip chip) const {
  now += kStart;
  std::string found;
  if ((facts.traits & kTraitMfma) != 0) found = CheckMatrix(i, now, chip);
  if (found.empty() && (facts.traits & (kTraitValu | kTraitMfma | kTraitMemory)) != 0) {
    found = CheckVector(i, facts, now, chip);
  }
  if (found.empty()) found = CheckScalar(i, facts, now);
  return found;
}

// Reads of an MFMA's A, B and C that an earlier MFMA wrote.
std::string Hazards::CheckMatrix(const Instruction& i, uint64_t now, Chip chip) const {
  if (now - any_mfma_ > kLongest) return {};
  const bool gfx950 = chip == Chip::kGfx950;
  for (size_t s = 0; s < i.src.size(); ++s) {
    const Operand& operand = i.src[s];
    if (operand.kind != OperandKind::kVector) continue;
    for (int r = operand.index; r < operand.index + operand.dwords; ++r) {
      const VectorTimes& times = vector_[r];
      const auto kind = static_cast<MatrixKind>(times.mfma_kind);
      uint64_t needed = ResultUse(kind, times.mfma_passes, gfx950, false);
      if (s == 2) {
        const bool same = operand.index == times.mfma_first && operand.dwords == times.mfma_count;
        const uint64_t full =
            kind == kDouble ? (times.mfma_passes <= 4 ? 4 : 0) : (times.mfma_passes <= 2 ? 2 : 0);
        needed = same ? full : ResultToC(kind, times.mfma_passes, gfx950);
      }
      if (now - times.mfma <= needed) {
        return Sentence("reading " + Name(true, r) + ", a result of an MFMA of " +
                            std::to_string(times.mfma_passes) + " passes, as " +
                            (s == 2 ? "C" : "A or B"),
                        needed, now - times.mfma);
      }
    }
  }
  return {};
}

std::string Hazards::CheckVector(const Instruction& i, const Facts& facts, uint64_t now,
                                 Chip chip) const {
  for (const RegisterRange& range : i.reads) {
    if (!range.vector) continue;
    for (int r = range.first; r < range.first + range.count; ++r) {
      std::string found = CheckVectorRead(r, facts, now, chip);
      if (!found.empty()) return found;
    }
  }
  if ((facts.traits & kTraitValu) == 0) return {};
  for (const RegisterRange& range : i.writes) {
    if (!range.vector) continue;
    for (int r = range.first; r < range.first + range.count; ++r) {
      std::string found = CheckVectorWrite(r, facts, now, chip);
      if (!found.empty()) return found;
    }
  }
  return {};
}

std::string Hazards::CheckVectorRead(int r, const Facts& facts, uint64_t now, Chip chip) const {
  const VectorTimes& times = vector_[r];
  const bool valu = (facts.traits & kTraitValu) != 0, matrix = (facts.traits & kTraitMfma) != 0;
  if (now - times.mfma <= kLongest && !matrix) {
    const uint64_t needed = ResultUse(static_cast<MatrixKind>(times.mfma_kind), times.mfma_passes,
                                      chip == Chip::kGfx950, !valu);
    if (now - times.mfma <= needed) {
      return Sentence("reading " + Name(true, r) + ", a result of an MFMA of " +
                          std::to_string(times.mfma_passes) + " passes,",
                      needed, now - times.mfma);
    }
  }
  const uint64_t since = now - times.valu;
  if (since > 2) return {};
  const std::string reading = "reading " + Name(true, r) + ", which the VALU wrote,";
  if (matrix) return Sentence(reading + " by an MFMA", 2, since);
  if ((facts.traits & kTraitDpp) != 0) return Sentence(reading + " by DPP", 2, since);
  if ((facts.traits & kTraitPermlane) != 0) {
    return Sentence(reading + " by a lane permutation", 2, since);
  }
  if (since > 1 || !valu) return {};
  if ((facts.traits & kTraitReadLane) != 0) return Sentence(reading + " by a lane read", 1, since);
  if (now - times.trans == 1 && (facts.traits & kTraitTrans) == 0) {
    return Sentence("reading " + Name(true, r) + ", a result of a transcendental,", 1, since);
  }
  if (now - times.narrow == 1) {
    return Sentence("reading " + Name(true, r) + ", of which a part was written,", 1, since);
  }
  return {};
}

std::string Hazards::CheckVectorWrite(int r, const Facts& facts, uint64_t now, Chip chip) const {
  const VectorTimes& times = vector_[r];
  const bool gfx950 = chip == Chip::kGfx950;
  if (now - times.mfma <= kLongest) {
    const uint64_t needed =
        ResultUse(static_cast<MatrixKind>(times.mfma_kind), times.mfma_passes, gfx950, false);
    if (now - times.mfma <= needed) {
      return Sentence("overwriting " + Name(true, r) + ", a result of an MFMA of " +
                          std::to_string(times.mfma_passes) + " passes,",
                      needed, now - times.mfma);
    }
  }
  const uint64_t read_needs = times.read_passes == 0 ? 0 : times.read_passes - 1u;
  if (now - times.mfma_read <= read_needs) {
    return Sentence("overwriting " + Name(true, r) + ", C of an MFMA of " +
                        std::to_string(times.read_passes) + " passes,",
                    read_needs, now - times.mfma_read);
  }
  if (now - times.stored <= 2) {
    return Sentence("overwriting " + Name(true, r) + ", data of a store of over 64 bits,", 2,
                    now - times.stored);
  }
  if ((facts.traits & kTraitPermlane) != 0 && now - times.valu <= 2) {
    return Sentence("writing " + Name(true, r) + ", which the VALU wrote, by a lane permutation", 2,
                    now - times.valu);
  }
  return {};
}

std::string Hazards::CheckScalar(const Instruction& i, const Facts& facts, uint64_t now) const {
  if ((facts.traits & kTraitUsesM0) != 0 && now - m0_ <= 1) {
    return Sentence("using M0, which the SALU wrote,", 1, now - m0_);
  }
  if ((facts.traits & kTraitGetreg) != 0 && now - setreg_ <= 2) {
    return Sentence("s_getreg after s_setreg", 2, now - setreg_);
  }
  if (now - any_valu_scalar_ > 5) return {};
  constexpr uint32_t kReaders = kTraitValu | kTraitMfma | kTraitVectorMemory;
  if ((facts.traits & kReaders) == 0) return {};
  std::string exec = CheckScalarRead(kExecLow, i, facts, now);
  if (!exec.empty()) return exec;
  for (const RegisterRange& range : i.reads) {
    if (range.vector) continue;
    for (int r = range.first; r < range.first + range.count && r < 128; ++r) {
      std::string found = CheckScalarRead(r, i, facts, now);
      if (!found.empty()) return found;
    }
  }
  return {};
}

std::string Hazards::CheckScalarRead(int r, const Instruction& i, const Facts& facts,
                                     uint64_t now) const {
  const uint64_t since = now - scalar_[r];
  uint64_t needed = 0;
  if (r >= kExecLow) {
    if ((facts.traits & kTraitDpp) != 0) needed = 5;
    if ((facts.traits & (kTraitMfma | kTraitPermlane)) != 0) needed = 4;
    if ((facts.traits & (kTraitReadLane | kTraitWriteLane)) != 0) needed = 4;
  } else if ((facts.traits & kTraitVectorMemory) != 0) {
    needed = 5;
  } else if ((facts.traits & kTraitValu) != 0) {
    needed = 2;
    const bool select = i.src[1].kind == OperandKind::kScalar && i.src[1].index == r;
    if ((facts.traits & (kTraitReadLane | kTraitWriteLane)) != 0 && select) needed = 4;
    if ((facts.traits & kTraitDivFmas) != 0 && r / 2 == kVccLow / 2) needed = 4;
  }
  if (since > needed) return {};
  return Sentence("using " + Name(false, r) + ", which the VALU wrote,", needed, since);
}

void Hazards::Issue(const Instruction& i, const Facts& facts, uint64_t now) {
  now += kStart;
  if ((facts.traits & kTraitSalu) != 0) {
    for (const RegisterRange& range : i.writes) {
      if (!range.vector && range.first <= 124 && range.first + range.count > 124) m0_ = now;
    }
    if ((facts.traits & kTraitSetreg) != 0) setreg_ = now;
    return;
  }
  if ((facts.traits & kTraitWideStore) != 0) {
    const Operand& data = i.src[1];
    for (int r = data.index; data.kind == OperandKind::kVector && r < data.index + data.dwords;
         ++r) {
      vector_[r].stored = now;
    }
  }
  if ((facts.traits & (kTraitValu | kTraitMfma)) != 0) RecordWrites(i, facts, now);
}

void Hazards::RecordWrites(const Instruction& i, const Facts& facts, uint64_t now) {
  if ((facts.traits & kTraitMfma) != 0) {
    any_mfma_ = now;
    for (int r = i.dst.index; r < i.dst.index + i.dst.dwords; ++r) {
      VectorTimes& times = vector_[r];
      times.mfma = now;
      times.mfma_first = i.dst.index;
      times.mfma_count = i.dst.dwords;
      times.mfma_passes = i.passes;
      times.mfma_kind = KindOf(facts);
    }
    const Operand& c = i.src[2];
    if (KindOf(facts) != kXdl) return;  // Only the XDL unit reads C late.
    for (int r = c.index; c.kind == OperandKind::kVector && r < c.index + c.dwords; ++r) {
      vector_[r].mfma_read = now;
      vector_[r].read_passes = i.passes;
    }
    return;
  }
  if (i.writes_exec) scalar_[kExecLow] = any_valu_scalar_ = now;
  for (const RegisterRange& range : i.writes) {
    for (int r = range.first; r < range.first + range.count; ++r) {
      if (!range.vector) {
        if (r < 128) scalar_[r] = any_valu_scalar_ = now;
        continue;
      }
      VectorTimes& times = vector_[r];
      times.valu = now;
      if ((facts.traits & kTraitTrans) != 0) times.trans = now;
      if ((facts.traits & kTraitNarrowWrite) != 0) times.narrow = now;
      times.mfma = 0;
    }
  }
}

}  // namespace hipsim
