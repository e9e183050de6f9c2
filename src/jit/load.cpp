// The two caches in memory: cubins by architecture, functions by device. See jit.hpp. Each entry
// has its own lock: two threads compile different kernels in parallel, and the same kernel once.
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "core/env.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "jit/disk_cache.hpp"
#include "jit/jit.hpp"
#include "jit/nvrtc.hpp"
#include "store/sha256.hpp"

namespace dlblas::jit {
namespace {

// Bumped when a kernel's host side no longer matches older cubins of the same source, and with the
// container's format, so that an older library's file is never read.
constexpr int kAbi = 2;

// A value made once under its own lock; a failure is thrown to the caller, and the next use tries
// again.
template <typename T>
class Once {
 public:
  template <typename Make>
  const T& get(Make&& make) {
    const std::lock_guard lock(mutex_);
    if (!made_) value_ = make(), made_ = true;
    return value_;
  }

 private:
  std::mutex mutex_;
  bool made_ = false;
  T value_;
};

// Entries never move and are never removed: a caller's reference stays valid for the process.
template <typename T>
Once<T>& entry_of(const std::string& key) {
  static auto* const mutex = new std::mutex;
  static auto* const entries = new std::map<std::string, Once<T>>;
  const std::lock_guard lock(*mutex);
  return (*entries)[key];
}

std::string memory_key(const KernelSource& source, int where) {
  return text(where, "|", source.include, "|", source.entry, "|", source.dynamic_shared_bytes);
}

std::string digest_of(const KernelSource& source, const std::vector<Header>& headers, int arch) {
  std::string all = text("dlblas ", kAbi, "\n", source.include, "\n", source.entry, "\n");
  for (const std::string& option : options_for(arch)) all += option + "\n";
  for (const Header& h : headers) all += text(h.name, " ", h.text.size(), "\n", h.text);
  return sha256_hex(all).substr(0, 40);
}

bool jit_allowed() {
  const std::string_view value = env(EnvVar::kJit);
  return value.empty() || env_flag(EnvVar::kJit);
}

Cubin make_cubin(const KernelSource& source, int arch) {
  const std::vector<Header> headers = closure_of(source.include);
  const std::string digest = digest_of(source, headers, arch);
  Cubin cubin;
  const auto tell = [&](const char* from) {
    if (logs(LogTopic::kCompile))
      log(LogTopic::kCompile, text(source.entry, ",", arch_name(arch), ",", from));
  };
  if (read_cubin(digest, jit_allowed() ? compiler_version() : "", &cubin)) {
    tell("cache");
    return cubin;
  }
  if (!jit_allowed())
    throw Error(
        ErrorKind::kCompile,
        text("jit: kernel ", source.entry,
             " is not in the cache and DLBLAS_JIT=0 forbids "
             "compiling; expected a cubin for ",
             arch_name(arch), ", got none; run dlblas.warmup(…) once with the compiler allowed"),
        {.op = "jit", .argument = source.entry});
  cubin = run_nvrtc(source, headers, arch);
  tell("nvrtc");
  write_cubin(digest, compiler_version(), cubin);
  return cubin;
}

}  // namespace

const Cubin& compile(const KernelSource& source, int arch) {
  return entry_of<Cubin>(memory_key(source, arch)).get([&] { return make_cubin(source, arch); });
}

const cuda::Function& load(const KernelSource& source, const DeviceInfo& device) {
  const std::string key = memory_key(source, device.device.index);
  return entry_of<cuda::Function>(key).get([&] {
    const Cubin& cubin = compile(source, device.arch);
    cuda::Function f =
        cuda::load(cubin.image, cubin.symbol, device.device.index, source.dynamic_shared_bytes);
    f.spill_bytes = cubin.spill_bytes;
    return f;
  });
}

void compile_all(const std::vector<KernelSource>& sources, int arch) {
  const unsigned threads = std::min<unsigned>(std::max(1u, std::thread::hardware_concurrency()),
                                              static_cast<unsigned>(sources.size()));
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failed;
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < sources.size();) {
      try {
        compile(sources[i], arch);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failed) failed = std::current_exception();
      }
    }
  };
  std::vector<std::thread> pool;
  for (unsigned i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (std::thread& t : pool) t.join();
  if (failed) std::rethrow_exception(failed);
}

std::string front_end_errors(const KernelSource& source, int arch) {
  if (!jit_allowed()) return {};
  return run_front_end(source, closure_of(source.include), arch);
}

std::string unavailable() {
  if (!jit_allowed()) return {};  // what warmup left in the cache serves
  return compiler_missing();
}

}  // namespace dlblas::jit
