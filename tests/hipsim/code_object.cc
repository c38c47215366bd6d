#include "tests/hipsim/code_object.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "tests/hipsim/msgpack.h"

namespace hipsim {
namespace {

constexpr uint16_t kMachineAmdGpu = 224;
constexpr uint8_t kOsAbiAmdHsa = 64;
constexpr uint32_t kSegmentLoad = 1, kSegmentNote = 4;
constexpr uint32_t kSectionRela = 4, kSectionDynsym = 11;
constexpr uint32_t kNoteMetadata = 32;
constexpr uint64_t kMaxImage = uint64_t{1} << 30;
constexpr uint64_t kPage = 4096;
constexpr uint64_t kDescriptorSize = 64;
constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__";

struct FileHeader {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, segments, sections;
  uint32_t flags;
  uint16_t header_size, segment_size, segment_count, section_size, section_count, names;
};

struct Segment {
  uint32_t type, flags;
  uint64_t offset, address, physical, file_size, memory_size, align;
};

struct Section {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t align, entry_size;
};

struct Symbol {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;
};

struct Relocation {
  uint64_t offset, info;
  int64_t addend;
};

// The chips' numbers in the low byte of an ELF file's flags.
std::string ChipName(uint32_t flags) {
  switch (flags & 0xFF) {
    case 0x4C:
      return "gfx942";
    case 0x4F:
      return "gfx950";
    case 0x3F:
      return "gfx90a";
    default:
      return "chip number " + std::to_string(flags & 0xFF);
  }
}

template <class T>
T ReadAt(std::span<const uint8_t> bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool Contains(uint64_t size, uint64_t offset, uint64_t count) {
  return offset <= size && count <= size - offset;
}

}  // namespace

// Reads one file; the first thing wrong with it ends the work.
class Loader {
 public:
  Loader(std::span<const uint8_t> file, std::string_view chip) : file_(file), chip_(chip) {}

  CodeObject::Result Run() {
    object_.reset(new CodeObject);
    object_->chip_ = chip_;
    const bool ok = ReadHeader() && ReadTables() && Map() && Relocate() && ReadSymbols() &&
                    ReadNotes() && Describe();
    if (!ok) return {status_, "the code object " + message_, nullptr};
    return {LoadStatus::kOk, "", std::move(object_)};
  }

 private:
  bool Fail(std::string message, LoadStatus status = LoadStatus::kInvalidImage) {
    status_ = status;
    message_ = std::move(message);
    return false;
  }

  bool ReadHeader() {
    if (file_.size() < sizeof(FileHeader)) {
      return Fail("has " + std::to_string(file_.size()) + " bytes, fewer than an ELF header's 64.");
    }
    header_ = ReadAt<FileHeader>(file_, 0);
    if (std::memcmp(header_.ident, "\177ELF\2\1\1", 7) != 0) {
      return Fail("is not a 64-bit little-endian ELF file.");
    }
    if (header_.machine != kMachineAmdGpu || header_.ident[7] != kOsAbiAmdHsa) {
      return Fail("is for ELF machine " + std::to_string(header_.machine) + " and OS ABI " +
                  std::to_string(header_.ident[7]) + ", expected 224 (AMD GPU) and 64 (AMD HSA).");
    }
    if (header_.ident[8] < 2 || header_.ident[8] > 4) {
      return Fail("has ABI version " + std::to_string(header_.ident[8]) +
                  ", expected 2 to 4 (code objects of version 4 to 6).");
    }
    if (header_.type != 3) return Fail("is not linked: expected a shared ELF file.");
    const std::string chip = ChipName(header_.flags);
    if (chip != chip_) {
      return Fail("is for " + chip + ", the device is " + chip_ + ".", LoadStatus::kNoBinaryForGpu);
    }
    return true;
  }

  template <class T>
  bool ReadTable(const char* what, uint64_t offset, uint64_t count, uint64_t size,
                 std::vector<T>& table) {
    if (count == 0) return true;
    if (size != sizeof(T) || !Contains(file_.size(), offset, count * size)) {
      return Fail(std::string("has a table of ") + what + " outside the file's " +
                  std::to_string(file_.size()) + " bytes; is the file whole?");
    }
    for (uint64_t i = 0; i < count; ++i) table.push_back(ReadAt<T>(file_, offset + i * size));
    return true;
  }

  bool ReadTables() {
    if (!ReadTable("segments", header_.segments, header_.segment_count, header_.segment_size,
                   segments_) ||
        !ReadTable("sections", header_.sections, header_.section_count, header_.section_size,
                   sections_)) {
      return false;
    }
    for (const Segment& segment : segments_) {
      if (!Contains(file_.size(), segment.offset, segment.file_size)) {
        return Fail("has a segment outside the file's " + std::to_string(file_.size()) +
                    " bytes; is the file whole?");
      }
      if (segment.type == kSegmentLoad &&
          (segment.file_size > segment.memory_size ||
           !Contains(kMaxImage, segment.address, segment.memory_size))) {
        return Fail("has a segment whose size in memory is wrong.");
      }
    }
    return true;
  }

  bool Map() {
    uint64_t end = 0;
    for (const Segment& segment : segments_) {
      if (segment.type == kSegmentLoad) end = std::max(end, segment.address + segment.memory_size);
    }
    if (end == 0) return Fail("has nothing to load.");
    const uint64_t size = (end + kPage - 1) / kPage * kPage;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Fail("does not fit into memory.", LoadStatus::kOutOfMemory);
    object_->base_ = reinterpret_cast<uint64_t>(memory);
    object_->size_ = size;
    image_ = {static_cast<uint8_t*>(memory), size};
    for (const Segment& segment : segments_) {
      if (segment.type != kSegmentLoad) continue;
      std::memcpy(image_.data() + segment.address, file_.data() + segment.offset,
                  segment.file_size);
      if ((segment.flags & 1) != 0 && segment.memory_size != 0) AddCode(segment);
    }
    if (object_->code_begin_ == 0) return Fail("has no executable segment.");
    return true;
  }

  void AddCode(const Segment& segment) {
    const uint64_t begin = object_->base_ + segment.address, end = begin + segment.memory_size;
    const bool first = object_->code_begin_ == 0;
    object_->code_begin_ = first ? begin : std::min(object_->code_begin_, begin);
    object_->code_end_ = std::max(object_->code_end_, end);
  }

  bool Relocate() {
    for (const Section& section : sections_) {
      if (section.type != kSectionRela) continue;
      std::vector<Relocation> relocations;
      const uint64_t size = section.entry_size == 0 ? sizeof(Relocation) : section.entry_size;
      if (!ReadTable("relocations", section.offset, section.size / size, size, relocations) ||
          !std::all_of(relocations.begin(), relocations.end(), [&](const Relocation& relocation) {
            return Relocate(section, relocation);
          })) {
        return false;
      }
    }
    return true;
  }

  bool Relocate(const Section& section, const Relocation& relocation) {
    constexpr uint32_t kAbs64 = 3, kRelative64 = 13;
    const auto type = static_cast<uint32_t>(relocation.info);
    if (!Contains(image_.size(), relocation.offset, 8)) {
      return Fail("has a relocation outside its segments.");
    }
    uint64_t value = object_->base_ + static_cast<uint64_t>(relocation.addend);
    if (type == kAbs64) {
      std::vector<Symbol> symbols;
      if (!SymbolsOf(section.link, symbols)) return false;
      const uint64_t index = relocation.info >> 32;
      if (index >= symbols.size()) return Fail("has a relocation for a symbol it does not have.");
      if (symbols[index].section == 0) return Fail("has a relocation for an undefined symbol.");
      value += symbols[index].value;
    } else if (type != kRelative64) {
      return Fail("has a relocation of type " + std::to_string(type) +
                  ", expected 3 (ABS64) or 13 (RELATIVE64).");
    }
    std::memcpy(image_.data() + relocation.offset, &value, sizeof(value));
    return true;
  }

  bool SymbolsOf(uint64_t index, std::vector<Symbol>& symbols) {
    if (index >= sections_.size()) return Fail("names a section that it does not have.");
    const Section& section = sections_[index];
    const uint64_t size = section.entry_size == 0 ? sizeof(Symbol) : section.entry_size;
    return ReadTable("symbols", section.offset, section.size / size, size, symbols);
  }

  bool ReadSymbols() {
    for (const Section& section : sections_) {
      if (section.type != kSectionDynsym) continue;
      std::vector<Symbol> symbols;
      if (!SymbolsOf(static_cast<uint64_t>(&section - sections_.data()), symbols)) return false;
      if (section.link >= sections_.size()) return Fail("has symbols without names.");
      const Section& names = sections_[section.link];
      if (!Contains(file_.size(), names.offset, names.size)) {
        return Fail("has symbol names outside the file.");
      }
      for (const Symbol& symbol : symbols) {
        if (symbol.section != 0 && !AddSymbol(symbol, file_.subspan(names.offset, names.size))) {
          return false;
        }
      }
    }
    return true;
  }

  bool AddSymbol(const Symbol& symbol, std::span<const uint8_t> names) {
    constexpr uint8_t kObject = 1, kFunction = 2;
    if (symbol.name >= names.size()) return Fail("has a symbol whose name is outside the file.");
    const char* name = reinterpret_cast<const char*>(names.data()) + symbol.name;
    const std::string text(name, strnlen(name, names.size() - symbol.name));
    const auto type = static_cast<uint8_t>(symbol.info & 15);
    if (type != kObject && type != kFunction) return true;
    if (!Contains(image_.size(), symbol.value, symbol.size)) {
      return Fail("has the symbol " + text + " outside its segments.");
    }
    auto& symbols = type == kObject ? object_->globals_ : object_->functions_;
    symbols.push_back({text, object_->base_ + symbol.value, symbol.size});
    return true;
  }

  bool ReadNotes() {
    for (const Segment& segment : segments_) {
      if (segment.type == kSegmentNote &&
          !ReadNotes(file_.subspan(segment.offset, segment.file_size))) {
        return false;
      }
    }
    if (!metadata_) return Fail("has no AMDGPU metadata note.");
    return true;
  }

  bool ReadNotes(std::span<const uint8_t> notes) {
    const auto padded = [](uint64_t size) { return (size + 3) / 4 * 4; };
    while (notes.size() >= 12) {
      const auto name_size = ReadAt<uint32_t>(notes, 0), size = ReadAt<uint32_t>(notes, 4);
      const uint64_t data = 12 + padded(name_size);
      if (!Contains(notes.size(), data, size)) return Fail("has a note outside its segment.");
      const std::string_view name(reinterpret_cast<const char*>(notes.data()) + 12, name_size);
      if (ReadAt<uint32_t>(notes, 8) == kNoteMetadata && name.starts_with("AMDGPU")) {
        metadata_ = ReadMsgpack(notes.subspan(data, size));
        if (!metadata_) return Fail("has metadata that is not MessagePack.");
      }
      notes = notes.subspan(std::min<uint64_t>(notes.size(), data + padded(size)));
    }
    return true;
  }

  bool Describe() {
    const MsgpackValue* kernels = metadata_->Find("amdhsa.kernels");
    if (kernels == nullptr) return true;
    return std::all_of(kernels->array.begin(), kernels->array.end(),
                       [&](const MsgpackValue& kernel) { return DescribeKernel(kernel); });
  }

  bool DescribeKernel(const MsgpackValue& metadata) {
    Kernel kernel;
    kernel.name = metadata.StringOr(".name", "");
    const GlobalSymbol* symbol = object_->FindGlobal(metadata.StringOr(".symbol", ""));
    if (symbol == nullptr || symbol->size < kDescriptorSize) {
      return Fail("has no descriptor for its kernel '" + kernel.name + "'.");
    }
    kernel.descriptor = ReadDescriptor(symbol->address - object_->base_);
    kernel.entry = symbol->address + static_cast<uint64_t>(kernel.descriptor.entry_offset);
    if (kernel.entry < object_->code_begin_ || kernel.entry >= object_->code_end_ ||
        kernel.entry % 4 != 0) {
      return Fail("has the kernel '" + kernel.name + "' outside its executable segment.");
    }
    if (!ReadNumbers(metadata, kernel)) {
      return Fail("has numbers out of range in the metadata of the kernel '" + kernel.name + "'.");
    }
    object_->kernels_.push_back(std::move(kernel));
    return true;
  }

  KernelDescriptor ReadDescriptor(uint64_t at) const {
    KernelDescriptor descriptor;
    descriptor.group_segment_size = ReadAt<uint32_t>(image_, at);
    descriptor.private_segment_size = ReadAt<uint32_t>(image_, at + 4);
    descriptor.kernarg_size = ReadAt<uint32_t>(image_, at + 8);
    descriptor.entry_offset = ReadAt<int64_t>(image_, at + 16);
    descriptor.rsrc3 = ReadAt<uint32_t>(image_, at + 44);
    descriptor.rsrc1 = ReadAt<uint32_t>(image_, at + 48);
    descriptor.rsrc2 = ReadAt<uint32_t>(image_, at + 52);
    descriptor.properties = ReadAt<uint16_t>(image_, at + 56);
    const auto preload = ReadAt<uint16_t>(image_, at + 58);
    descriptor.preload_length = preload & 127;
    descriptor.preload_offset = preload >> 7;
    return descriptor;
  }

  static bool ReadNumbers(const MsgpackValue& metadata, Kernel& kernel) {
    constexpr int64_t kMaxKernarg = 1 << 20;
    const auto read = [&](const MsgpackValue& from, const char* key, int64_t otherwise,
                          uint32_t& to) {
      const int64_t value = from.IntegerOr(key, otherwise);
      to = static_cast<uint32_t>(value);
      return value >= 0 && value <= kMaxKernarg;
    };
    bool ok = read(metadata, ".kernarg_segment_size", kernel.descriptor.kernarg_size,
                   kernel.kernarg_size) &&
              read(metadata, ".max_flat_workgroup_size", 1024, kernel.max_threads) &&
              read(metadata, ".sgpr_count", 0, kernel.sgprs) &&
              read(metadata, ".vgpr_count", 0, kernel.vgprs) &&
              read(metadata, ".agpr_count", 0, kernel.agprs);
    const MsgpackValue* arguments = metadata.Find(".args");
    if (arguments == nullptr) return ok;
    for (const MsgpackValue& argument : arguments->array) {
      KernelArgument& read_argument = kernel.arguments.emplace_back();
      read_argument.kind = argument.StringOr(".value_kind", "by_value");
      ok = ok && read(argument, ".offset", 0, read_argument.offset) &&
           read(argument, ".size", 0, read_argument.size) &&
           read_argument.offset + read_argument.size <= kernel.kernarg_size;
    }
    return ok;
  }

  std::span<const uint8_t> file_;
  std::string chip_;
  FileHeader header_{};
  std::vector<Segment> segments_;
  std::vector<Section> sections_;
  std::span<uint8_t> image_;
  std::optional<MsgpackValue> metadata_;
  std::unique_ptr<CodeObject> object_;
  LoadStatus status_ = LoadStatus::kInvalidImage;
  std::string message_;
};

namespace {

struct BundleEntry {
  uint64_t offset, size;
  std::string_view name;
};

// The entries of an offload bundle; nothing if the table does not fit into the bytes.
std::optional<std::vector<BundleEntry>> ReadBundle(std::span<const uint8_t> image) {
  uint64_t at = kBundleMagic.size() + 8;
  if (image.size() < at) return std::nullopt;
  const auto count = ReadAt<uint64_t>(image, kBundleMagic.size());
  if (count > 1024) return std::nullopt;
  std::vector<BundleEntry> entries;
  for (uint64_t i = 0; i < count; ++i) {
    if (!Contains(image.size(), at, 24)) return std::nullopt;
    const auto name_size = ReadAt<uint64_t>(image, at + 16);
    if (!Contains(image.size(), at + 24, name_size)) return std::nullopt;
    const char* name = reinterpret_cast<const char*>(image.data()) + at + 24;
    entries.push_back(
        {ReadAt<uint64_t>(image, at), ReadAt<uint64_t>(image, at + 8), {name, name_size}});
    at += 24 + name_size;
  }
  return entries;
}

bool IsBundle(std::span<const uint8_t> image) {
  return image.size() >= kBundleMagic.size() &&
         std::memcmp(image.data(), kBundleMagic.data(), kBundleMagic.size()) == 0;
}

// Whether a bundle entry such as hipv4-amdgcn-amd-amdhsa--gfx950:sramecc+:xnack- is for the chip.
bool EntryIsFor(std::string_view name, std::string_view chip) {
  const size_t at = name.find(chip);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = name.substr(at + chip.size());
  return (rest.empty() || rest[0] == ':') && rest.find("xnack+") == std::string_view::npos;
}

}  // namespace

CodeObject::Result CodeObject::Load(std::span<const uint8_t> image, std::string_view chip) {
  if (!IsBundle(image)) return Loader(image, chip).Run();
  const auto entries = ReadBundle(image);
  if (!entries)
    return {LoadStatus::kInvalidImage, "the offload bundle's table is damaged.", nullptr};
  for (const BundleEntry& entry : *entries) {
    if (!EntryIsFor(entry.name, chip)) continue;
    if (!Contains(image.size(), entry.offset, entry.size)) {
      return {LoadStatus::kInvalidImage, "the offload bundle is not whole.", nullptr};
    }
    return Loader(image.subspan(entry.offset, entry.size), chip).Run();
  }
  return {LoadStatus::kNoBinaryForGpu,
          "the offload bundle has no entry for " + std::string(chip) + ".", nullptr};
}

CodeObject::~CodeObject() {
  if (base_ != 0) munmap(reinterpret_cast<void*>(base_), size_);
}

const Kernel* CodeObject::FindKernel(std::string_view name) const {
  for (const Kernel& kernel : kernels_) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

const GlobalSymbol* CodeObject::FindGlobal(std::string_view name) const {
  for (const GlobalSymbol& symbol : globals_) {
    if (symbol.name == name) return &symbol;
  }
  return nullptr;
}

uint64_t CodeObject::EndOfFunction(uint64_t address) const {
  for (const GlobalSymbol& function : functions_) {
    if (function.address <= address && address < function.address + function.size) {
      return function.address + function.size;
    }
  }
  return code_end_;
}

uint64_t ImageSize(const void* data) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (std::memcmp(bytes, "\177ELF", 4) == 0) {
    const auto header = ReadAt<FileHeader>({bytes, sizeof(FileHeader)}, 0);
    uint64_t end = std::max(header.segments + uint64_t{header.segment_count} * header.segment_size,
                            header.sections + uint64_t{header.section_count} * header.section_size);
    return std::max<uint64_t>(end, sizeof(FileHeader));
  }
  if (std::memcmp(bytes, kBundleMagic.data(), kBundleMagic.size()) != 0) return 0;
  uint64_t at = kBundleMagic.size() + 8, end = at;
  const auto count = std::min<uint64_t>(ReadAt<uint64_t>({bytes, at}, kBundleMagic.size()), 1024);
  for (uint64_t i = 0; i < count; ++i) {
    const std::span<const uint8_t> entry(bytes + at, 24);
    end = std::max(end, ReadAt<uint64_t>(entry, 0) + ReadAt<uint64_t>(entry, 8));
    at += 24 + ReadAt<uint64_t>(entry, 16);
  }
  return end;
}

}  // namespace hipsim
