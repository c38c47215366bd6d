// A thread's workspace: aligned, kept, grown when asked for more, and no other thread's.
#include "hk/arch/host/workspace.h"

#include "tests/unit.h"

#if defined(__SANITIZE_ADDRESS__)
// Without it the sanitizer ends the program where aligned_alloc has no memory to give. The
// sanitizer's shared library has to see it.
extern "C" [[gnu::visibility("default")]] const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
#endif

HK_TEST(it_is_aligned_and_kept) {
  void* small = hk::workspace::of_this_thread(100);
  CHECK(small != nullptr);
  CHECK_EQ(reinterpret_cast<std::uintptr_t>(small) % 64, 0u);
  CHECK(hk::workspace::of_this_thread(10) == small);
  CHECK(hk::workspace::of_this_thread(128) == small);
}

HK_TEST(it_grows_and_all_of_it_is_writable) {
  for (std::size_t bytes : {1u, 65u, 4096u, 1000000u}) {
    auto* memory = static_cast<unsigned char*>(hk::workspace::of_this_thread(bytes));
    std::fill(memory, memory + bytes, static_cast<unsigned char>(1));
    CHECK_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
  }
}

HK_TEST(threads_do_not_share_it) {
  void* mine = hk::workspace::of_this_thread(64);
  void* other = nullptr;
  std::jthread([&] { other = hk::workspace::of_this_thread(64); }).join();
  CHECK(other != nullptr);
  CHECK(other != mine);
}

HK_TEST(no_memory_is_null_and_no_lasting_harm) {
  constexpr std::size_t too_much = std::size_t{1} << 62;
  CHECK(hk::workspace::of_this_thread(too_much) == nullptr);
  CHECK(hk::workspace::of_this_thread(256) != nullptr);
}

HK_TEST(tiles_are_placed_and_default_initialised) {
  struct tiles {
    int size_in_use = 3;
    float data[100];
  };
  tiles* first = hk::shared_tiles<tiles>();
  CHECK(first != nullptr);
  CHECK_EQ(first->size_in_use, 3);
  first->size_in_use = 5;
  CHECK_EQ(hk::shared_tiles<tiles>()->size_in_use, 3);
}
