// Runs the GEMM kernels of a code object on the simulated device and compares every element of the
// results with float64: each schedule, layout, type and epilogue, over ragged sizes, batches,
// alignments and parts of K.
//
//   gemm_simulated <code object> <gfx942 | gfx950> [schedule_rows] [cases] [seed] [most size]
//   gemm_simulated <code object> <gfx942 | gfx950> far      the last tile of arrays of 5 GiB
//
// such as gemm_simulated gemm.gfx950.co gfx950 pingpong_256 20 1 300.
// Linked with the simulated device, whose checks are on; exits with 1 at the first wrong result.
#include <sys/mman.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "hk/core/element.h"
#include "hk/kernels/gemm/device_plan.h"

extern "C" {
int hipInit(unsigned flags);
int hipMalloc(void** pointer, size_t bytes);
int hipFree(void* pointer);
int hipMemcpy(void* to, const void* from, size_t bytes, int kind);
int hipDeviceSynchronize();
int hipModuleLoadData(void** module, const void* image);
int hipModuleGetFunction(void** function, void* module, const char* name);
int hipModuleLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned local_bytes, void* stream, void** parameters, void** extra);
const char* hipGetErrorString(int error);
const char* hipsim_last_report(void);
const char* hipsim_statistics(void);
int hipsim_register(void* address, size_t bytes);
int hipsim_unregister(void* address);
int hipsim_set_option(const char* name, const char* value);
}

namespace {

using namespace hk;

void require(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "%s: %s\n%s\n", what, hipGetErrorString(error), hipsim_last_report());
  std::exit(1);
}

// An array on the device, `shift` bytes behind an aligned address.
class array {
 public:
  array(size_t bytes, size_t shift) : bytes_(bytes), shift_(shift) {
    require(hipMalloc(&memory_, bytes + shift + 16), "hipMalloc");
  }
  ~array() { hipFree(memory_); }
  array(const array&) = delete;
  void* data() const { return static_cast<char*>(memory_) + shift_; }
  size_t bytes() const { return bytes_; }
  void write(const void* from) {
    if (bytes_) require(hipMemcpy(data(), from, bytes_, 1), "hipMemcpy");
  }
  void read(void* to) {
    if (bytes_) require(hipMemcpy(to, data(), bytes_, 2), "hipMemcpy");
  }

 private:
  void* memory_ = nullptr;
  size_t bytes_, shift_;
};

// Numbers as a type holds them, and as they are; now and then one of them is NaN.
struct numbers {
  std::vector<double> values;
  std::vector<char> stored;
};

numbers make_numbers(size_t count, dtype type, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  numbers result;
  result.values.resize(count);
  result.stored.resize(count * static_cast<size_t>(size_in_bytes(type)));
  visit(type, [&]<element T>(T*) {
    T* stored = reinterpret_cast<T*>(result.stored.data());
    const size_t odd = random() % 8 == 0 ? random() % (count + 1) : count;
    for (size_t i = 0; i < count; ++i) {
      stored[i] = from_float<T>(i == odd ? NAN : uniform(random));
      result.values[i] = to_float(stored[i]);
    }
  });
  return result;
}

std::vector<double> widen(const std::vector<char>& stored, dtype type) {
  std::vector<double> result(stored.size() / static_cast<size_t>(size_in_bytes(type)));
  visit(type, [&]<element T>(T*) {
    const T* from = reinterpret_cast<const T*>(stored.data());
    for (size_t i = 0; i < result.size(); ++i) result[i] = to_float(from[i]);
  });
  return result;
}

double activate(double z, activation act) {
  if (act == activation::silu) return z / (1 + std::exp(-z));
  if (act == activation::gelu_exact) return 0.5 * z * std::erfc(-z / std::sqrt(2.0));
  if (act == activation::gelu)
    return 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z)));
  return z;
}

struct test_case {
  gemm_problem p;
  const device_gemm::variant* kernel;
  int64_t splits;
  size_t shift;  // of all arrays, in bytes
  bool has_bias, bias_of_entries, has_z;
};

std::string describe(const test_case& t) {
  char text[256];
  std::snprintf(text, sizeof text,
                "B %d M %d N %d K %d %c%c in %d out %d act %d splits %d shift %d bias %d%d z %d "
                "broadcast %d%d",
                int(t.p.batch), int(t.p.m), int(t.p.n), int(t.p.k), t.p.trans_a ? 't' : 'n',
                t.p.trans_b ? 't' : 'n', int(t.p.in_type), int(t.p.out_type), int(t.p.act),
                int(t.splits), int(t.shift), t.has_bias, t.bias_of_entries, t.has_z,
                t.p.broadcast_a, t.p.broadcast_b);
  return text;
}

class device_under_test {
 public:
  device_under_test(const char* path, cdna::chip chip) : chip_(chip) {
    std::ifstream file(path, std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(file), {});
    require(hipInit(0), "hipInit");
    require(hipModuleLoadData(&module_, image_.data()), "hipModuleLoadData");
  }
  void launch(const device_launch& what) {
    void* function = nullptr;
    require(hipModuleGetFunction(&function, module_, what.kernel), what.kernel);
    size_t bytes = what.argument_bytes;
    void* extra[] = {reinterpret_cast<void*>(1), const_cast<uint8_t*>(what.arguments),
                     reinterpret_cast<void*>(2), &bytes, reinterpret_cast<void*>(3)};
    require(hipModuleLaunchKernel(function, what.grid[0], what.grid[1], what.grid[2], what.threads,
                                  1, 1, 0, nullptr, nullptr, extra),
            what.kernel);
    require(hipDeviceSynchronize(), what.kernel);
    conflicts_ += count_conflicts();
  }
  // Cycles that LDS lost to bank conflicts, in all launches.
  long conflicts() const { return conflicts_; }
  cdna::chip chip() const { return chip_; }

 private:
  static long count_conflicts() {
    const std::string statistics = hipsim_statistics(), name = "\"lds_conflict_cycles\": ";
    const size_t at = statistics.find(name);
    return at == std::string::npos ? 0 : std::atol(statistics.c_str() + at + name.size());
  }

  long conflicts_ = 0;
  cdna::chip chip_;
  std::vector<char> image_;
  void* module_ = nullptr;
};

// The largest error, in units of what one rounding of the result and of the sum allow.
double error_of(const test_case& t, const numbers& a, const numbers& b, const numbers& bias,
                const std::vector<double>& c, const std::vector<double>* z) {
  const gemm_problem& p = t.p;
  const double unit = p.out_type == dtype::bf16   ? std::ldexp(1, -8)
                      : p.out_type == dtype::f16  ? std::ldexp(1, -11)
                      : p.act == activation::none ? std::ldexp(1, -23)
                                                  : std::ldexp(1, -21);
  double worst = 0;
  for (int64_t e = 0; e < p.batch; ++e)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0, magnitude = 0;
        const int64_t ea = p.broadcast_a ? 0 : e, eb = p.broadcast_b ? 0 : e;
        for (int64_t k = 0; k < p.k; ++k) {
          const double x =
              a.values[size_t(ea * p.m * p.k + (p.trans_a ? k * p.m + i : i * p.k + k))];
          const double y =
              b.values[size_t(eb * p.n * p.k + (p.trans_b ? j * p.k + k : k * p.n + j))];
          sum += x * y;
          magnitude += std::fabs(x * y);
        }
        if (t.has_bias) sum += bias.values[size_t((t.bias_of_entries ? e * p.n : 0) + j)];
        const double noise = 1e-30 + std::ldexp(magnitude + 1, -21);
        const size_t at = size_t((e * p.m + i) * p.n + j);
        const auto check = [&](double found, double expected) {
          if (std::isnan(found) || std::isnan(expected)) {
            if (std::isnan(found) != std::isnan(expected)) worst = INFINITY;
            return;
          }
          const double error = std::fabs(found - expected);
          worst = std::max(worst, error / (unit * std::fabs(expected) + noise));
        };
        check(c[at], activate(sum, p.act));
        if (z) check((*z)[at], sum);
      }
  return worst;
}

double run_case(device_under_test& device, test_case t, std::mt19937& random) {
  gemm_problem& p = t.p;
  const auto size = [](int64_t x, int64_t y, int64_t z) { return size_t(x * y * z); };
  const size_t results = size(p.batch, p.m, p.n), item = size_t(size_in_bytes(p.out_type));
  const numbers a = make_numbers(size(p.broadcast_a ? 1 : p.batch, p.m, p.k), p.in_type, random);
  const numbers b = make_numbers(size(p.broadcast_b ? 1 : p.batch, p.n, p.k), p.in_type, random);
  const numbers bias =
      make_numbers(size(t.bias_of_entries ? p.batch : 1, p.n, 1), p.bias_type, random);
  array a_device(a.stored.size(), t.shift), b_device(b.stored.size(), t.shift);
  array bias_device(bias.stored.size(), t.shift);
  array c_device(results * item, t.shift), z_device(results * item, t.shift);
  a_device.write(a.stored.data());
  b_device.write(b.stored.data());
  bias_device.write(bias.stored.data());
  p.a = a_device.data();
  p.b = b_device.data();
  p.c = c_device.data();
  p.z = t.has_z ? z_device.data() : nullptr;
  p.bias = t.has_bias ? bias_device.data() : nullptr;
  p.bias_rows = t.bias_of_entries ? p.m : 0;

  device_gemm::choice forced;
  forced.kernel = t.kernel;
  forced.splits = t.splits;
  gemm_plan plan = plan_gemm(p, {device.chip(), 256}, forced);
  array workspace(plan.workspace_bytes, 0);
  plan.set_workspace(workspace.data());
  for (int i = 0; i < plan.count; ++i) device.launch(plan.launches[i]);

  std::vector<char> c(results * item), z(results * item);
  c_device.read(c.data());
  if (t.has_z) z_device.read(z.data());
  const std::vector<double> z_values = widen(z, p.out_type);
  return error_of(t, a, b, bias, widen(c, p.out_type), t.has_z ? &z_values : nullptr);
}

// Draws cases that `kernel` serves, or any if there is none.
bool draw(const device_gemm::variant* kernel, int largest, std::mt19937& random, test_case& t) {
  static constexpr int sizes[] = {1, 7, 16, 64, 100, 192, 256, 300, 520};
  const auto pick = [&](int count) { return int(random() % unsigned(count)); };
  int most = 0;
  while (most < 9 && sizes[most] <= largest) ++most;
  gemm_problem& p = t.p;
  p = {};
  p.batch = pick(3) == 0 ? 3 : 1;
  p.m = sizes[pick(most)];
  p.n = sizes[pick(most)];
  p.k = sizes[pick(most)];
  if (pick(20) == 0) p.k = 0;
  p.trans_a = pick(2);
  p.trans_b = pick(2);
  p.in_type = pick(2) ? dtype::bf16 : dtype::f16;
  p.out_type = static_cast<dtype>(pick(3));
  p.bias_type = static_cast<dtype>(pick(3));
  p.act = static_cast<activation>(pick(4));
  p.broadcast_a = p.batch > 1 && pick(4) == 0;
  p.broadcast_b = p.batch > 1 && pick(4) == 0;
  t.kernel = kernel;
  t.splits = p.k >= 256 && pick(3) == 0 ? 2 : 1;
  static constexpr size_t shifts[] = {0, 0, 0, 8, 4, 2};
  t.shift = shifts[pick(6)];
  // f32 arrays are aligned to their element.
  if (t.shift == 2 && (p.out_type == dtype::f32 || p.bias_type == dtype::f32)) t.shift = 4;
  t.has_bias = pick(2);
  t.bias_of_entries = t.has_bias && pick(2);
  t.has_z = pick(2);
  if (kernel && kernel->kind != device_gemm::schedule::staged) {
    t.shift = 0;
    if (!p.trans_a || p.trans_b) p.k = (p.k + 7) / 8 * 8;
    if (p.trans_a) p.m = (p.m + 7) / 8 * 8;
    if (!p.trans_b) p.n = (p.n + 7) / 8 * 8;
    if (p.k == 0) return false;
  }
  return true;
}

// Memory that takes up no space before it is written.
void* map_sparse(int64_t bytes) {
  void* memory = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory == MAP_FAILED || hipsim_register(memory, size_t(bytes)) != 0, "mapping memory");
  return memory;
}

void unmap(void* memory, int64_t bytes) {
  hipsim_unregister(memory);
  munmap(memory, size_t(bytes));
}

// The last tile of a product [M, K] times [N, K] whose a and c span more than 4 GiB. The grid is
// cut down to two workgroups: the first and, through its width, the last.
double run_far(device_under_test& device, const device_gemm::variant& kernel,
               std::mt19937& random) {
  gemm_problem p{};
  p.in_type = p.out_type = dtype::bf16;
  p.batch = 1;
  p.m = 1 << 20;
  p.n = p.k = 2560;
  p.trans_b = true;
  p.a = map_sparse(2 * p.m * p.k);
  p.b = map_sparse(2 * p.n * p.k);
  p.c = map_sparse(2 * p.m * p.n);
  const numbers a = make_numbers(size_t(kernel.rows * p.k), p.in_type, random);
  const numbers b = make_numbers(size_t(kernel.cols * p.k), p.in_type, random);
  const int64_t first_row = p.m - kernel.rows, first_col = p.n - kernel.cols;
  std::memcpy(static_cast<char*>(const_cast<void*>(p.a)) + 2 * first_row * p.k, a.stored.data(),
              a.stored.size());
  std::memcpy(static_cast<char*>(const_cast<void*>(p.b)) + 2 * first_col * p.k, b.stored.data(),
              b.stored.size());
  device_gemm::choice forced;
  forced.kernel = &kernel;
  gemm_plan plan = plan_gemm(p, {device.chip(), 256}, forced);
  device_launch& launch = plan.launches[0];
  gemm_arguments x = launch.get_arguments<gemm_arguments>();
  x.grid_width = x.row_tiles * x.col_tiles - 1;
  launch.set_arguments(x);
  launch.grid[0] = 1;
  launch.grid[1] = 2;
  device.launch(launch);

  double worst = 0;
  const bf16* c = static_cast<const bf16*>(p.c);
  for (int64_t i = 0; i < kernel.rows; ++i)
    for (int64_t j = 0; j < kernel.cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < p.k; ++k)
        sum += a.values[size_t(i * p.k + k)] * b.values[size_t(j * p.k + k)];
      const double found = to_float(c[(first_row + i) * p.n + first_col + j]);
      const double allowed = std::ldexp(std::fabs(sum), -8) + std::ldexp(double(p.k), -22);
      worst = std::max(worst, std::fabs(found - sum) / allowed);
    }
  unmap(const_cast<void*>(p.a), 2 * p.m * p.k);
  unmap(const_cast<void*>(p.b), 2 * p.n * p.k);
  unmap(p.c, 2 * p.m * p.n);
  return worst;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: %s <code object> <chip> [kernel] [cases] [seed] [most size]\n",
                 words[0]);
    return 2;
  }
  const auto number = [&](int i, int otherwise) {
    return count > i ? std::atoi(words[i]) : otherwise;
  };
  const bool newer = std::string(words[2]) == "gfx950";
  if (hipsim_set_option("arch", words[2]) != 0) return 2;
  const cdna::chip chip = newer ? cdna::chip::gfx950 : cdna::chip::gfx942;
  const bool far = count > 3 && std::string(words[3]) == "far";
  const std::string filter = count > 3 && !far ? words[3] : "";
  const int cases = number(4, 20);
  device_under_test device(words[1], chip);
  static constexpr const char* kinds[] = {"pingpong", "direct", "staged"};
  std::vector<const device_gemm::variant*> kernels{nullptr};  // the plan's own choice
  for (const device_gemm::variant& kernel : device_gemm::variants_of(chip))
    kernels.push_back(&kernel);
  for (const device_gemm::variant* kernel : kernels) {
    const std::string name =
        kernel ? std::string(kinds[int(kernel->kind)]) + "_" + std::to_string(kernel->rows)
               : "planned";
    if (name.find(filter) == std::string::npos || (far && !kernel)) continue;
    std::mt19937 random(static_cast<unsigned>(number(5, 1)));
    if (far) {
      const double error = run_far(device, *kernel, random);
      std::printf("%s far: largest error %.3g of what is allowed\n", name.c_str(), error);
      if (!(error <= 1.01)) return 1;
      continue;
    }
    double worst = 0;
    for (int i = 0; i < cases; ++i) {
      test_case t{};
      if (!draw(kernel, number(6, 520), random, t)) continue;
      const double error = run_case(device, t, random);
      if (std::getenv("VERBOSE"))
        std::printf("%s %s: %g\n", name.c_str(), describe(t).c_str(), error);
      worst = std::max(worst, error);
      if (error <= 1.01) continue;
      std::printf("%s %s: expected an error of at most 1, received %g\n", name.c_str(),
                  describe(t).c_str(), error);
      return 1;
    }
    std::printf("%s: %d cases, largest error %.3g of what is allowed, %ld LDS conflicts\n",
                name.c_str(), cases, worst, device.conflicts());
  }
  return 0;
}
