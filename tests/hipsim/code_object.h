// A GPU code object in memory: an ELF file of AMD's ABI, mapped, relocated and described.
//
// Every offset of the file is checked before it is followed, so that a truncated or damaged file is
// refused with a sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hipsim {

// What a kernel descriptor, 64 bytes in the code object, says.
struct KernelDescriptor {
  uint32_t group_segment_size = 0;    // LDS bytes known when compiled
  uint32_t private_segment_size = 0;  // scratch bytes per work item
  uint32_t kernarg_size = 0;
  int64_t entry_offset = 0;  // of the code, from the descriptor
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  uint32_t properties = 0;
  uint32_t preload_length = 0, preload_offset = 0;  // in dwords

  uint32_t total_vgprs() const { return ((rsrc1 & 63) + 1) * 8; }  // VGPRs and AGPRs
  uint32_t accum_offset() const { return ((rsrc3 & 63) + 1) * 4; }
  uint32_t user_sgprs() const { return rsrc2 >> 1 & 31; }
  bool has_workgroup_id(int axis) const { return (rsrc2 >> (7 + axis) & 1) != 0; }
  bool has_workgroup_info() const { return (rsrc2 >> 10 & 1) != 0; }
  uint32_t workitem_ids() const { return rsrc2 >> 11 & 3; }  // 0: x, 1: x y, 2: x y z
};

// User SGPRs that a descriptor's properties ask for, in the order in which they are laid out.
enum KernelProperty : uint32_t {
  kPrivateSegmentBuffer = 1u << 0,  // 4 SGPRs
  kDispatchPointer = 1u << 1,       // 2
  kQueuePointer = 1u << 2,          // 2
  kKernargPointer = 1u << 3,        // 2
  kDispatchId = 1u << 4,            // 2
  kFlatScratchInit = 1u << 5,       // 2
  kPrivateSegmentSize = 1u << 6,    // 1
};

struct KernelArgument {
  uint32_t offset = 0;
  uint32_t size = 0;
  std::string kind;  // value_kind of the metadata, such as global_buffer or hidden_block_count_x

  bool hidden() const { return kind.starts_with("hidden_"); }
};

struct Kernel {
  std::string name;
  KernelDescriptor descriptor;
  uint64_t entry = 0;  // address of the first instruction
  std::vector<KernelArgument> arguments;
  uint32_t kernarg_size = 0;
  uint32_t max_threads = 1024;
  uint32_t sgprs = 0, vgprs = 0, agprs = 0;
};

struct GlobalSymbol {
  std::string name;
  uint64_t address = 0;
  uint64_t size = 0;
};

enum class LoadStatus { kOk, kInvalidImage, kNoBinaryForGpu, kOutOfMemory };

class CodeObject {
 public:
  struct Result {
    LoadStatus status = LoadStatus::kOk;
    std::string message;  // a sentence where the status is not kOk
    std::unique_ptr<CodeObject> object;
  };

  // Loads an ELF file, or the entry of a clang offload bundle that is for `chip` (gfx950).
  static Result Load(std::span<const uint8_t> image, std::string_view chip);

  CodeObject(const CodeObject&) = delete;
  CodeObject& operator=(const CodeObject&) = delete;
  ~CodeObject();

  const Kernel* FindKernel(std::string_view name) const;
  const GlobalSymbol* FindGlobal(std::string_view name) const;
  const std::vector<Kernel>& kernels() const { return kernels_; }

  // Where the file's segments are mapped.
  uint64_t base() const { return base_; }
  uint64_t size() const { return size_; }
  // Executable bytes: [code_begin, code_end).
  uint64_t code_begin() const { return code_begin_; }
  uint64_t code_end() const { return code_end_; }
  std::string_view chip() const { return chip_; }
  // Where the function that holds an address ends: by its symbol, else at the end of the code.
  uint64_t EndOfFunction(uint64_t address) const;

 private:
  friend class Loader;
  CodeObject() = default;

  std::string chip_;
  uint64_t base_ = 0, size_ = 0;
  uint64_t code_begin_ = 0, code_end_ = 0;
  std::vector<Kernel> kernels_;
  std::vector<GlobalSymbol> globals_;
  std::vector<GlobalSymbol> functions_;
};

// Bytes of the image that starts at `data` and whose length the caller does not say, as with
// hipModuleLoadData: computed from the ELF header's tables or the bundle's entries; 0 if it is
// neither.
uint64_t ImageSize(const void* data);

}  // namespace hipsim
