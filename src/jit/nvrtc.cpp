// Calling NVRTC; see nvrtc.hpp.
#include "jit/nvrtc.hpp"

#include <chrono>
#include <cstdio>

#include "core/counters.hpp"
#include "core/error.hpp"
#include "core/library.hpp"
#include "cuda/driver.hpp"

namespace dlblas::jit {
namespace {

using Program = void*;
struct Nvrtc {
  int (*version)(int*, int*) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*create)(Program*, const char*, const char*, int, const char* const*,
                const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*add_name)(Program, const char*) = nullptr;
  int (*compile)(Program, int, const char* const*) = nullptr;
  int (*lowered_name)(Program, const char*, const char**) = nullptr;
  int (*cubin_size)(Program, std::size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  int (*log_size)(Program, std::size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int major = 0, minor = 0;
  std::string why_not;
};

std::string open(Nvrtc& n) {
  // A cubin of a newer major version than the driver's does not load: with both wheels installed,
  // a CUDA 12 driver gets NVRTC 12.
  const bool twelve = cuda::driver().why_not.empty() && cuda::driver().version / 1000 == 12 &&
                      find_library("nvrtc12").handle;
  const Library& library = find_library(twelve ? "nvrtc12" : "nvrtc");
  if (!library.handle)
    return text("NVRTC was not found (", library.why_not,
                "); run `pip install nvidia-cuda-nvrtc`, or name its folder in DLBLAS_LIBS");
  const char* missing = nullptr;
  const auto find = [&](auto& member, const char* name) {
    member =
        reinterpret_cast<std::remove_reference_t<decltype(member)>>(find_symbol(library, name));
    if (!member) missing = name;
  };
  find(n.version, "nvrtcVersion");
  find(n.error_string, "nvrtcGetErrorString");
  find(n.create, "nvrtcCreateProgram");
  find(n.destroy, "nvrtcDestroyProgram");
  find(n.add_name, "nvrtcAddNameExpression");
  find(n.compile, "nvrtcCompileProgram");
  find(n.lowered_name, "nvrtcGetLoweredName");
  find(n.cubin_size, "nvrtcGetCUBINSize");
  find(n.cubin, "nvrtcGetCUBIN");
  find(n.log_size, "nvrtcGetProgramLogSize");
  find(n.log, "nvrtcGetProgramLog");
  if (missing)
    return text(library.path, " has no ", missing, "; run `pip install nvidia-cuda-nvrtc`");
  n.version(&n.major, &n.minor);
  // 12.0 lacks st.async, which cluster kernels use.
  if (n.major * 100 + n.minor < 1201)
    return text(library.path, " is NVRTC ", n.major, ".", n.minor,
                "; expected 12.1 or later; run `pip install nvidia-cuda-nvrtc`");
  // A cubin of a newer minor version loads.
  const int driver = cuda::driver().why_not.empty() ? cuda::driver().version / 1000 : n.major;
  if (n.major > driver)
    return text(library.path, " is NVRTC ", n.major, ".", n.minor,
                ", newer than the driver's CUDA ", driver,
                "; run `pip install nvidia-cuda-nvrtc-cu", driver, "`");
  return {};
}

const Nvrtc& nvrtc() {
  static const Nvrtc* const found = [] {
    auto* n = new Nvrtc;
    n->why_not = open(*n);
    return n;
  }();
  return *found;
}

// Owns one NVRTC program.
class Compilation {
 public:
  Compilation(const Nvrtc& n, const KernelSource& source, const std::vector<Header>& headers)
      : n_(n) {
    std::vector<const char*> names, texts;
    for (const Header& h : headers) {
      names.push_back(h.name.c_str());
      texts.push_back(h.text.c_str());
    }
    const std::string main = text("#include \"", source.include, "\"\n");
    n.create(&program_, main.c_str(), "dlblas.cu", static_cast<int>(headers.size()), texts.data(),
             names.data());
    n.add_name(program_, source.entry.c_str());
  }
  ~Compilation() { n_.destroy(&program_); }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  int run(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& o : options) pointers.push_back(o.c_str());
    return n_.compile(program_, static_cast<int>(pointers.size()), pointers.data());
  }
  std::string log() const {
    std::size_t size = 0;
    n_.log_size(program_, &size);
    std::string s(size, 0);
    if (size > 0) n_.log(program_, s.data());
    while (!s.empty() && s.back() == 0) s.pop_back();
    return s;
  }
  std::string image() const {
    std::size_t size = 0;
    n_.cubin_size(program_, &size);
    std::string s(size, 0);
    if (size > 0) n_.cubin(program_, s.data());
    return s;
  }
  std::string symbol(const std::string& entry) const {
    const char* name = nullptr;
    return n_.lowered_name(program_, entry.c_str(), &name) == 0 && name ? name : "";
  }

 private:
  const Nvrtc& n_;
  Program program_ = nullptr;
};

std::int64_t now_us() {
  using std::chrono::microseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<microseconds>(now).count();
}

// Options that change no instruction and that older compilers refuse: 12.0, 12.4, 12.6, 12.8, 12.9
// were tried.
std::vector<const char*> more_options(const Nvrtc& n) {
  const int version = n.major * 100 + n.minor;
  std::vector<const char*> options;
  // No textures, no device runtime: 3 to 7 ms less per kernel.
  if (version >= 1204) options.push_back("--minimal");
  // Names of local entities are random otherwise; with a seed, the same source gives the same
  // cubin. NVRTC's own cache, which calls the driver, is off: we have ours.
  if (version >= 1209) options.insert(options.end(), {"--frandom-seed=dlblas", "--no-cache"});
  return options;
}

constexpr int kInvalidOption = 5;  // NVRTC_ERROR_INVALID_OPTION

// The first error lines of the log: whole logs run to pages.
std::string errors_of(const std::string& log) {
  std::string kept;
  for (std::size_t at = 0; at < log.size() && kept.size() < 2000;) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    if (line.find("error") != line.npos) kept += "\n  " + line;
    at = end + 1;
  }
  return kept.empty() ? log.substr(0, 2000) : kept;
}

}  // namespace

namespace detail {

void read_log(const std::string& log, Cubin& cubin) {
  for (std::size_t at = 0; at < log.size();) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    const std::string line = log.substr(at, end - at);
    at = end + 1;
    int a = 0, b = 0, c = 0;
    if (const auto used = line.find("Used "); used != line.npos) {
      if (std::sscanf(line.c_str() + used, "Used %d registers", &a) == 1) cubin.registers = a;
      const auto smem = line.find(" bytes smem");
      if (smem != line.npos) {
        const auto digits = line.rfind(' ', smem - 1);
        cubin.shared_bytes = std::atoi(line.c_str() + (digits == line.npos ? 0 : digits + 1));
      }
    } else if (const auto stack = line.find(" bytes stack frame"); stack != line.npos) {
      const auto begin = line.find_last_not_of("0123456789", stack - 1);
      if (std::sscanf(line.c_str() + (begin == line.npos ? 0 : begin + 1),
                      "%d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &a, &b,
                      &c) == 3) {
        cubin.stack_bytes += a;
        cubin.spill_bytes += b + c;
      }
    } else if (line.find("warning") != line.npos || line.find("C75") != line.npos) {
      // C75xx: ptxas serialised wgmma, or ignored setmaxnreg; NVRTC has no -Werror.
      if (line.find("suppressed") == line.npos) cubin.warnings.push_back(line);
    }
  }
}

}  // namespace detail

const std::string& compiler_missing() { return nvrtc().why_not; }

std::string compiler_version() {
  const Nvrtc& n = nvrtc();
  return n.major ? text(n.major, ".", n.minor) : "";
}

std::string arch_name(int arch) { return text("sm_", arch, arch >= 90 ? "a" : ""); }

std::vector<std::string> options_for(int arch) {
  return {"-arch=" + arch_name(arch), "-std=c++20", "-default-device", "--ptxas-options=-v"};
}

Cubin run_nvrtc(const KernelSource& source, const std::vector<Header>& headers, int arch) {
  const Nvrtc& n = nvrtc();
  if (!n.why_not.empty())
    throw Error(ErrorKind::kCompile,
                text("jit: compiler is missing; expected NVRTC 12.1 or later, got: ", n.why_not),
                {.op = "jit", .argument = "compiler", .expected = "NVRTC", .got = n.why_not});
  const std::int64_t begin = now_us();
  Compilation compilation(n, source, headers);
  std::vector<std::string> options = options_for(arch);
  for (const char* option : more_options(n)) options.emplace_back(option);
  const int code = compilation.run(options);
  const std::string log = compilation.log();
  Cubin cubin;
  if (code == 0) cubin.image = compilation.image();
  if (code == 0) cubin.symbol = compilation.symbol(source.entry);
  if (cubin.image.empty() || cubin.symbol.empty())
    throw Error(ErrorKind::kCompile,
                text("jit: ", source.entry, " of ", source.include, " does not compile for ",
                     arch_name(arch), "; expected a kernel, got ", n.error_string(code), ":",
                     errors_of(log)),
                {.op = "jit", .argument = source.entry, .expected = "a kernel", .got = log});
  detail::read_log(log, cubin);
  cubin.compile_ms = static_cast<double>(now_us() - begin) * 1e-3;
  count(g_counters.compiled);
  return cubin;
}

std::string run_front_end(const KernelSource& source, const std::vector<Header>& headers,
                          int arch) {
  const Nvrtc& n = nvrtc();
  if (!n.why_not.empty()) return {};
  Compilation compilation(n, source, headers);
  std::vector<std::string> options = {"-arch=compute_" + arch_name(arch).substr(3), "-std=c++20",
                                      "-default-device"};
  for (const char* option : more_options(n)) options.emplace_back(option);
  // Syntax only: a text that takes the optimiser 40 s is checked in 50 ms.
  std::vector<std::string> syntax = options;
  syntax.emplace_back("-fdevice-syntax-only");
  int code = compilation.run(syntax);
  if (code == kInvalidOption) code = compilation.run(options);  // an older compiler
  return code == 0 ? "" : errors_of(compilation.log());
}

}  // namespace dlblas::jit
