// Kernels of plain C++ that test_compiled.py compiles: what a compiler makes of ordinary code has
// to run, to right results, with all checks on.

using u32 = unsigned;
using u64 = unsigned long long;
using i64 = long long;
#define GLOBAL __attribute__((address_space(1)))
#define LOCAL __attribute__((address_space(3)))
#define KERNEL                                                                         \
  extern "C" [[clang::amdgpu_kernel]] [[clang::amdgpu_flat_work_group_size(256, 256)]] \
  __attribute__((visibility("protected"))) void
static inline u32 item() { return __builtin_amdgcn_workitem_id_x(); }
static inline u32 index() { return __builtin_amdgcn_workgroup_id_x() * 256 + item(); }
static inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

KERNEL divide(GLOBAL const float* a, GLOBAL const float* b, GLOBAL float* out) {
  u32 i = index();
  out[i] = a[i] / b[i] + __builtin_sqrtf(a[i] * a[i] + 1.0f);
}
KERNEL divide64(GLOBAL const double* a, GLOBAL const double* b, GLOBAL double* out) {
  u32 i = index();
  out[i] = a[i] / b[i] + __builtin_sqrt(a[i] * a[i] + 1.0);
}
KERNEL integers(GLOBAL const u32* a, GLOBAL const u32* b, GLOBAL u64* out) {
  u32 i = index();
  u32 x = a[i], y = b[i] | 1;
  u64 w = (u64)x * y + (x ^ y), z = ((u64)y << 7) | 3;
  out[i] = w / z + w % z + x / y + x % y + (u64)((i64)w >> (x & 31)) + __builtin_popcount(x) +
           __builtin_clz(y) + (u64)((int)x / (int)y);
}
KERNEL reduce(GLOBAL const float* a, GLOBAL float* out) {
  [[clang::loader_uninitialized]] static LOCAL float part[256];
  u32 t = item();
  part[t] = a[index()];
  barrier();
  for (u32 s = 128; s > 0; s >>= 1) {
    if (t < s) part[t] += part[t + s];
    barrier();
  }
  if (t == 0) out[__builtin_amdgcn_workgroup_id_x()] = part[0];
}
KERNEL wave_sum(GLOBAL const float* a, GLOBAL float* out) {
  float x = a[index()];
  for (int m = 1; m < 64; m <<= 1) {
    int y = __builtin_amdgcn_ds_bpermute(4 * ((item() & 63) ^ m), __builtin_bit_cast(int, x));
    x += __builtin_bit_cast(float, y);
  }
  out[index()] = x;
}
KERNEL dpp_scan(GLOBAL const int* a, GLOBAL int* out) {
  int x = a[index()];
  x += __builtin_amdgcn_update_dpp(0, x, 0x111, 0xf, 0xf, false);
  x += __builtin_amdgcn_update_dpp(0, x, 0x112, 0xf, 0xf, false);
  x += __builtin_amdgcn_update_dpp(0, x, 0x114, 0xf, 0xf, false);
  x += __builtin_amdgcn_update_dpp(0, x, 0x118, 0xf, 0xf, false);
  out[index()] = x + __builtin_amdgcn_readlane(x, 63) + __builtin_amdgcn_readfirstlane(x);
}
KERNEL scratch(GLOBAL const u32* a, GLOBAL u32* out) {
  u32 i = index();
  volatile u32 table[64];
  for (u32 k = 0; k < 64; ++k) table[k] = a[(i + k) & 1023] + k;
  u32 s = 0;
  for (u32 k = 0; k < 16; ++k) s = s * 31 + table[(s + a[i] + k) & 63];
  out[i] = s;
}
[[clang::noinline]] u32 collatz(u32 n) {
  u32 steps = 0;
  while (n != 1 && steps < 200) {
    n = n & 1 ? 3 * n + 1 : n / 2;
    ++steps;
  }
  return steps;
}
KERNEL calls(GLOBAL const u32* a, GLOBAL u32* out) {
  u32 i = index();
  out[i] = collatz(a[i] % 1000 + 1) + collatz(i + 1);
}
KERNEL atomics(GLOBAL const u32* a, GLOBAL u32* counts, GLOBAL float* sums) {
  [[clang::loader_uninitialized]] static LOCAL u32 local[16];
  u32 t = item();
  if (t < 16) local[t] = 0;
  barrier();
  u32 v = a[index()];
  __scoped_atomic_fetch_add(&local[v & 15], 1u, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
  __scoped_atomic_fetch_add(&sums[v & 3], (float)(v & 255), __ATOMIC_RELAXED,
                            __MEMORY_SCOPE_DEVICE);
  barrier();
  if (t < 16)
    __scoped_atomic_fetch_add(&counts[t], local[t], __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
}
KERNEL branches(GLOBAL const u32* a, GLOBAL u32* out) {
  u32 i = index(), v = a[i], r = 0;
  switch (v % 7) {
    case 0:
      r = v * 3;
      break;
    case 1:
      for (u32 k = 0; k < (v & 15); ++k) r += k * v;
      break;
    case 2:
      r = __builtin_bitreverse32(v);
      break;
    case 3:
      r = v >> 5 | v << 27;
      break;
    case 4:
      r = v / 10;
      break;
    case 5:
      r = ~v;
      break;
    default:
      r = (v & 0xff00ff) * 17;
  }
  out[i] = r;
}
typedef __bf16 bf2 __attribute__((ext_vector_type(2)));
typedef _Float16 h2 __attribute__((ext_vector_type(2)));
KERNEL halves(GLOBAL const float* a, GLOBAL const float* b, GLOBAL h2* out, GLOBAL bf2* bf) {
  u32 i = index();
  h2 x = {(_Float16)a[i], (_Float16)b[i]};
  h2 y = x * x + x;
  out[i] = y;
  bf2 z = {(__bf16)a[i], (__bf16)(a[i] * b[i])};
  bf[i] = z;
}
KERNEL bytes(GLOBAL const unsigned char* a, GLOBAL unsigned short* b, GLOBAL signed char* c) {
  u32 i = index();
  b[i] = a[i] * 257 + a[i + 1];
  c[i] = (signed char)(a[i] - a[i + 3]);
}
typedef float f4 __attribute__((ext_vector_type(4)));
typedef float f16v __attribute__((ext_vector_type(16)));
typedef _Float16 h4 __attribute__((ext_vector_type(4)));
typedef _Float16 h8 __attribute__((ext_vector_type(8)));
typedef double d4 __attribute__((ext_vector_type(4)));
KERNEL matrix(GLOBAL const h4* a, GLOBAL const float* b, GLOBAL f4* out) {
  u32 i = index();
  f4 c = {b[i], 1, 2, 3};
  h4 x = a[i];
  f4 d = __builtin_amdgcn_mfma_f32_16x16x16f16(x, x, c, 0, 0, 0);
  d *= 2.0f;
  d = __builtin_amdgcn_mfma_f32_16x16x16f16(x, x, d, 0, 0, 0);
  f16v e = {};
  e = __builtin_amdgcn_mfma_f32_32x32x8f16(x, x, e, 0, 0, 0);
  e = __builtin_amdgcn_mfma_f32_32x32x8f16(x, x, e, 0, 0, 0);
  f4 t = __builtin_amdgcn_mfma_f32_4x4x4f16(x, x, c, 0, 0, 0);
  f4 s = __builtin_amdgcn_mfma_f32_16x16x4f32(b[i], c[0], t, 0, 0, 0);
  h4 y = {(_Float16)d[0], (_Float16)e[3], (_Float16)s[1], (_Float16)t[2]};
  d = __builtin_amdgcn_mfma_f32_16x16x16f16(y, x, d, 0, 0, 0);
  d4 w = {};
  w = __builtin_amdgcn_mfma_f64_16x16x4f64((double)b[i], (double)c[0], w, 0, 0, 0);
  w = __builtin_amdgcn_mfma_f64_16x16x4f64(w[0], (double)c[0], w, 0, 0, 0);
  out[i] = d + s + (float)e[7] + (float)w[1];
}
KERNEL functions(GLOBAL const float* a, GLOBAL float* out) {
  u32 i = index();
  float x = a[i];
  float y = __builtin_amdgcn_exp2f(x) +
            __builtin_amdgcn_logf(x * x + 1) * __builtin_amdgcn_rcpf(x * x + 2) +
            __builtin_amdgcn_rsqf(x * x + 3);
  float z = __builtin_amdgcn_sinf(x) * __builtin_amdgcn_cosf(y) + __builtin_amdgcn_fractf(y) +
            __builtin_amdgcn_fmed3f(x, y, 1.0f);
  if (__builtin_amdgcn_readfirstlane(i) & 64)
    z += __builtin_amdgcn_readlane(__builtin_bit_cast(int, y), i & 63);
  int p = __builtin_amdgcn_mov_dpp(__builtin_bit_cast(int, z), 0xB1, 0xf, 0xf, true);
  int n = p + __builtin_amdgcn_ballot_w64(x > y) % 7;
  out[i] = z + __builtin_bit_cast(float, p) + n;
}
KERNEL indexed(GLOBAL const u32* a, GLOBAL const u32* which, GLOBAL u32* out) {
  u32 i = index();
  u32 w = which[i];
  u32 r = 0;
  u64 live = 1;
  while (true) {
    u32 s = __builtin_amdgcn_readfirstlane(w);
    if (s == w) {
      r = a[s & 1023] + a[(s + 7) & 1023];
      break;
    }
  }
  out[i] = r;
}
KERNEL buffers(GLOBAL const float* a, GLOBAL float* out, u32 bytes) {
  auto r = __builtin_amdgcn_make_buffer_rsrc((void*)a, 0, bytes, 0x00027000);
  u32 i = index();
  float x = __builtin_bit_cast(float, __builtin_amdgcn_raw_buffer_load_b32(r, 4 * i, 0, 0));
  auto s = __builtin_amdgcn_make_buffer_rsrc((void*)out, 0, bytes, 0x00027000);
  __builtin_amdgcn_raw_buffer_store_b32(__builtin_bit_cast(u32, x * 2), s, 4 * i, 0, 0);
}
KERNEL direct(GLOBAL const u32* a, GLOBAL u32* out) {
  [[clang::loader_uninitialized]] static LOCAL u32 part[256];
  u32 t = item();
  u32 base = __builtin_amdgcn_readfirstlane(t & ~63u);
  __builtin_amdgcn_global_load_lds((GLOBAL void*)(a + index()), (LOCAL void*)(part + base), 4, 0,
                                   0);
  barrier();
  out[index()] = part[t ^ 65];
}
