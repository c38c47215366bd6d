// The launcher over a driver that is a table of functions of this file.
#include "ffi/runtime/device.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/unit.h"

namespace {

using jax_hipkittens::code_object_path;
using jax_hipkittens::device;
using jax_hipkittens::device_facts;
using jax_hipkittens::device_of;
using jax_hipkittens::driver;
using jax_hipkittens::driver_error;

constexpr int kDevices = 2;
constexpr int kFailure = 7;

// What the driver saw, and which of its functions fail.
struct seen {
  std::string architecture = "gfx950";
  std::string failing;
  thread_local static int current;
  std::atomic<int> modules{0}, launches{0}, launched_on{-1};
  std::string kernel;
  uint32_t argument = 0;
  unsigned grid[3] = {}, threads = 0;
  void* stream = nullptr;
};
thread_local int seen::current = 0;
seen* world;

int fails(const char* name) { return world->failing == name ? kFailure : 0; }

driver make_driver() {
  driver table{};
  table.name = "fake";
  table.library = "fake.so";
  table.count_devices = {[](int* count) { return *count = kDevices, fails("count_devices"); },
                         "fakeCount"};
  table.get_device = {[](int* now) { return *now = seen::current, fails("get_device"); },
                      "fakeGet"};
  table.set_device = {[](int now) { return seen::current = now, fails("set_device"); }, "fakeSet"};
  table.properties.name = "fakeDescribe";
  table.describe = [](const driver&, int, device_facts& facts) {
    facts = {world->architecture, 256};
    return fails("describe");
  };
  table.load_module = {[](void** module, const void* image) {
                         *module = const_cast<void*>(image);
                         return ++world->modules, fails("load_module");
                       },
                       "fakeLoad"};
  table.get_function = {[](void** function, void*, const char* name) {
                          world->kernel = name;
                          *function = &world->kernel;
                          return fails("get_function");
                        },
                        "fakeFind"};
  table.launch = {[](void*, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned,
                     unsigned, unsigned, void* stream, void** parameters, void**) {
                    world->grid[0] = x, world->grid[1] = y, world->grid[2] = z;
                    world->threads = threads;
                    world->stream = stream;
                    std::memcpy(&world->argument, parameters[0], sizeof(uint32_t));
                    world->launched_on = seen::current;
                    return ++world->launches, fails("launch");
                  },
                  "fakeLaunch"};
  table.error_name = {[](int) { return "fakeErrorSeven"; }, "fakeName"};
  table.error_text = {[](int) { return "it is seven"; }, "fakeText"};
  return table;
}

// A code object for gfx950 where the test's program lies; what it holds is the driver's affair.
void write_code_object() {
  const std::filesystem::path path = code_object_path("fake", "gfx950");
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << "image";
}

hk::device_launch make_launch() {
  hk::device_launch launch{};
  std::snprintf(launch.kernel, sizeof(launch.kernel), "kernel");
  launch.grid[0] = 3, launch.grid[1] = 2, launch.grid[2] = 1;
  launch.threads = 256;
  launch.set_arguments(uint32_t{42});
  return launch;
}

template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const driver_error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  std::fprintf(stderr, "expected \"%s\" in \"%s\"\n", part.c_str(), text.c_str());
  return false;
}

}  // namespace

HK_TEST(a_launch_goes_to_its_device_and_leaves_the_current_one) {
  seen here;
  world = &here;
  write_code_object();
  const driver table = make_driver();
  device on(table, 1);
  int stream;
  on.launch("fake", make_launch(), &stream);
  CHECK_EQ(here.launched_on.load(), 1);
  CHECK_EQ(seen::current, 0);
  CHECK_EQ(here.kernel, std::string("kernel"));
  CHECK_EQ(here.argument, 42u);
  CHECK_EQ(here.grid[0], 3u);
  CHECK_EQ(here.grid[1], 2u);
  CHECK_EQ(here.threads, 256u);
  CHECK(here.stream == &stream);
}

HK_TEST(a_module_is_loaded_once_by_many_threads) {
  seen here;
  world = &here;
  write_code_object();
  const driver table = make_driver();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int device = 0; device < kDevices; ++device)
        device_of(table, device).launch("fake", make_launch(), nullptr);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(here.modules.load(), kDevices);
  CHECK_EQ(here.launches.load(), 8 * kDevices);
}

HK_TEST(another_chip_gets_a_sentence) {
  seen here;
  here.architecture = "gfx90a";
  world = &here;
  write_code_object();
  const driver table = make_driver();
  device on(table, 0);
  const std::string said = message_of([&] { on.load("fake"); });
  CHECK(contains(said, "expected a device of gfx950, for which this build has kernels of fake"));
  CHECK(contains(said, "but received gfx90a"));
  CHECK_EQ(here.modules.load(), 0);
}

HK_TEST(a_device_that_is_not_there_gets_a_sentence) {
  seen here;
  world = &here;
  const driver table = make_driver();
  const std::string said = message_of([&] { device(table, kDevices); });
  CHECK(contains(said, "expected a device of number 2, but fake has 2 devices"));
}

HK_TEST(every_call_that_fails_is_named_and_another_try_succeeds) {
  seen here;
  world = &here;
  write_code_object();
  const driver table = make_driver();
  const std::map<std::string, std::string> calls = {
      {"get_device", "fakeGet failed"},
      {"set_device", "choosing device 1: fakeSet failed"},
      {"load_module", "fake.gfx950.co on device 1 (gfx950): fakeLoad failed"},
      {"get_function", "looking for the kernel kernel on device 1 (gfx950): fakeFind"},
      {"launch", "launching kernel on device 1 (gfx950): fakeLaunch failed"},
  };
  for (const auto& [name, message] : calls) {
    device on(table, 1);
    here.failing = name;
    const std::string said = message_of([&] { on.launch("fake", make_launch(), nullptr); });
    CHECK(contains(said, message));
    CHECK(contains(said, "failed with fakeErrorSeven (7), \"it is seven\""));
    here.failing.clear();
    seen::current = 0;
    CHECK_EQ(message_of([&] { on.launch("fake", make_launch(), nullptr); }), std::string());
  }
  for (const char* name : {"count_devices", "describe"}) {
    here.failing = name;
    CHECK(contains(message_of([&] { device(table, 0); }), "fakeErrorSeven"));
  }
}

HK_TEST(a_library_that_cannot_be_opened_is_named_and_asked_for_again) {
  setenv("JAX_HIPKITTENS_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
  const std::string said = message_of([] { jax_hipkittens::hip(); });
  CHECK(contains(said, "/nowhere/libamdhip64.so"));
  setenv("JAX_HIPKITTENS_HIP_LIBRARY", "libm.so.6", 1);
  CHECK(contains(message_of([] { jax_hipkittens::hip(); }), "libm.so.6 has no hipGetDeviceCount"));
  unsetenv("JAX_HIPKITTENS_HIP_LIBRARY");
}
