#include "tests/unit.h"

#include <string_view>

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  int run = 0;
  for (const unit::test& test : unit::tests()) {
    if (std::string_view(test.name).find(wanted) == std::string_view::npos) continue;
    const int before = unit::failures();
    test.body();
    ++run;
    std::printf("%s %s\n", unit::failures() == before ? "ok    " : "FAILED", test.name);
  }
  std::printf("%d tests, %d failed checks\n", run, unit::failures().load());
  return run == 0 || unit::failures() != 0;
}
