// Finds libtorch in this process; see shims.hpp.
#include "bindings/torch/shims.hpp"

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <string_view>

#include "core/env.hpp"
#include "core/error.hpp"

namespace dlblas::torch {

constinit Shims shims{};

namespace {

std::atomic<bool> g_loaded{false};
std::mutex g_mutex;

// Libraries named in DLBLAS_LIBS come before loaded ones, as for every other library.
void* find_library_file(const char* soname) {
  std::string_view list = env(EnvVar::kLibs);
  while (!list.empty()) {
    const std::string entry(list.substr(0, list.find(':')));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const std::size_t slash = entry.rfind('/');
    const bool is_file = entry.substr(slash == std::string::npos ? 0 : slash + 1) == soname;
    const std::string path = is_file ? entry : text(entry, "/", soname);
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  return dlopen(soname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

// DLPack's codes: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool, 10, 12 and 14 f8, 17 f4.
struct DTypeRow {
  const char* getter;
  dlblas_dtype dtype;
  std::int32_t code = -1;  // c10::ScalarType's, where a torch has the dtype but no getter (2.11)
};
constexpr DTypeRow kDTypes[] = {
    {"aoti_torch_dtype_float32", {2, 32, 1}},
    {"aoti_torch_dtype_float16", {2, 16, 1}},
    {"aoti_torch_dtype_bfloat16", {4, 16, 1}},
    {"aoti_torch_dtype_float8_e4m3fn", {10, 8, 1}},
    {"aoti_torch_dtype_float8_e5m2", {12, 8, 1}},
    {"aoti_torch_dtype_int8", {0, 8, 1}},
    {"aoti_torch_dtype_int16", {0, 16, 1}},
    {"aoti_torch_dtype_int32", {0, 32, 1}},
    {"aoti_torch_dtype_int64", {0, 64, 1}},
    {"aoti_torch_dtype_uint8", {1, 8, 1}},
    {"aoti_torch_dtype_uint16", {1, 16, 1}},
    {"aoti_torch_dtype_uint32", {1, 32, 1}},
    {"aoti_torch_dtype_uint64", {1, 64, 1}},
    {"aoti_torch_dtype_bool", {6, 8, 1}},
    {"aoti_torch_dtype_float64", {2, 64, 1}},
    {"aoti_torch_dtype_complex32", {5, 32, 1}},
    {"aoti_torch_dtype_complex64", {5, 64, 1}},
    {"aoti_torch_dtype_complex128", {5, 128, 1}},
    {"aoti_torch_dtype_float8_e8m0fnu", {14, 8, 1}, 44},
    {"aoti_torch_dtype_float4_e2m1fn_x2", {17, 4, 2}, 45},
};
constexpr dlblas_dtype kUnknown = {3, 8, 1};  // DLPack's opaque handle: no operator takes it
constexpr int kMaxCode = 64;                  // torch has about 45
dlblas_dtype g_dtypes[kMaxCode];

bool read_codes(void* cpu, std::string* missing) {
  for (dlblas_dtype& dtype : g_dtypes) dtype = kUnknown;
  for (const DTypeRow& row : kDTypes) {
    const auto getter = reinterpret_cast<std::int32_t (*)()>(dlsym(cpu, row.getter));
    if (!getter && row.code < 0) return *missing = row.getter, false;
    const std::int32_t code = getter ? getter() : row.code;
    if (code >= 0 && code < kMaxCode) g_dtypes[code] = row.dtype;
  }
  const struct {
    const char* getter;
    std::int32_t* code;
  } devices[] = {{"aoti_torch_device_type_cpu", &shims.cpu},
                 {"aoti_torch_device_type_cuda", &shims.cuda}};
  for (const auto& device : devices) {
    const auto getter = reinterpret_cast<std::int32_t (*)()>(dlsym(cpu, device.getter));
    if (!getter) return *missing = device.getter, false;
    *device.code = getter();
  }
  return true;
}

bool read_functions(void* cpu, std::string* missing) {
#define DLBLAS_TORCH_RESOLVE(member, symbol, result, arguments)              \
  shims.member = reinterpret_cast<result(*) arguments>(dlsym(cpu, #symbol)); \
  if (!shims.member) return *missing = #symbol, false;
  DLBLAS_TORCH_FUNCTIONS(DLBLAS_TORCH_RESOLVE)
#undef DLBLAS_TORCH_RESOLVE
  shims.is_defined =
      reinterpret_cast<int (*)(const Tensor*, bool*)>(dlsym(cpu, "aoti_torch_is_defined"));
  shims.new_handle =
      reinterpret_cast<int (*)(Tensor*, Tensor**)>(dlsym(cpu, "aoti_torch_new_tensor_handle"));
  shims.delete_value =
      reinterpret_cast<int (*)(StableValue*)>(dlsym(cpu, "torch_delete_stable_ivalue"));
  shims.bump_version = reinterpret_cast<void (*)(const Tensor&)>(
      dlsym(cpu, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE"));
  shims.abi_version = reinterpret_cast<std::uint64_t (*)()>(dlsym(cpu, "aoti_torch_abi_version"));
  shims.deterministic = reinterpret_cast<bool (*)(const void*)>(
      dlsym(cpu, "_ZNK2at7Context23deterministicAlgorithmsEv"));
  shims.tracing_state = reinterpret_cast<const void* const* (*)()>(
      dlsym(cpu, "_ZN5torch3jit6tracer15getTracingStateEv"));
  if (const auto context =
          reinterpret_cast<const void* (*)()>(dlsym(cpu, "_ZN2at13globalContextEv")))
    shims.global_context = context();
  return true;
}

}  // namespace

std::string load_shims() {
  if (g_loaded.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(g_mutex);
  void* cpu = find_library_file("libtorch_cpu.so");
  if (!cpu) return "no libtorch_cpu.so is loaded in this process";
  std::string missing;
  if (!read_functions(cpu, &missing) || !read_codes(cpu, &missing))
    return text("libtorch_cpu.so lacks ", missing, ", which torch has from 2.10 on");
  if (void* c10 = find_library_file("libc10.so"))
    shims.impl_requires_grad = reinterpret_cast<bool (*)(const void*)>(
        dlsym(c10, "_ZNK3c1010TensorImpl13requires_gradEv"));
  if (void* cuda = find_library_file("libtorch_cuda.so"))
    shims.current_cuda_stream = reinterpret_cast<int (*)(std::int32_t, void**)>(
        dlsym(cuda, "aoti_torch_get_current_cuda_stream"));
  g_loaded.store(true, std::memory_order_release);
  return {};
}

std::string library_path() {
  Dl_info info{};
  const bool known = shims.dim && dladdr(reinterpret_cast<const void*>(shims.dim), &info) != 0;
  return known && info.dli_fname ? info.dli_fname : "";
}

std::string library_version() {
  if (!shims.abi_version) return {};
  const std::uint64_t v = shims.abi_version();
  return text(v >> 56, ".", v >> 48 & 0xffu, ".", v >> 40 & 0xffu);
}

dlblas_dtype dtype_of(std::int32_t code) {
  return code >= 0 && code < kMaxCode ? g_dtypes[code] : kUnknown;
}

std::int32_t torch_code(dlblas_dtype dtype) {
  for (int i = 0; i < kMaxCode; ++i)
    if (g_dtypes[i].code == dtype.code && g_dtypes[i].bits == dtype.bits) return i;
  return -1;
}

}  // namespace dlblas::torch
