// Compiles every CUDA implementation of the registry without a GPU, and fails on a warning, a
// spill, a C75xx note of ptxas, or an implementation that no problem reached.
// In: nothing; Problems are made from the schemas, devices are typical ones. Out: a table per
// implementation × arch of kernels, registers and compile times (cold, in a cache of its own).
//   dlblas_compile_all [--all] [--each N] [--sizes N] [--seed N] [--turn] [--op NAME …]
//                      [--only TEXT] [--keep FOLDER] [arch …]
// arch: 80 90 by default. TEXT: a substring of the entry names of the kernels to compile. FOLDER:
// an existing folder that receives the cubins, for nvdisasm. --sizes: N tuples of sizes per
// operator, if an implementation supports one of them. --turn: kernels that several archs run are
// compiled for only one of them, in turns; the seed selects the first.
// Read next: tools/compile_all/problems.hpp, jit/jit.hpp.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/absent_device.hpp"
#include "core/error.hpp"
#include "dispatch/dispatch.hpp"
#include "jit/jit.hpp"
#include "tools/compile_all/problems.hpp"

namespace dlblas::compile_all {
namespace {

// Default configurations differ by size, dtype and layout. Per arch, this many kernels of an
// implementation are compiled, spread over all that its problems need; a seed shifts the choice.
constexpr std::size_t kKernelsEach = 10;

constexpr std::size_t kProblemsShown = 3;  // of each row; all where operators are named

/// The kernels of one implementation on one arch, or of the device oracle.
struct Row {
  const Operator* op;
  const Implementation* impl;  // null: the oracle
  int arch;
  std::vector<KernelSource> sources;  // different ones
  std::size_t wanted = 0;             // before thinning out
  std::vector<std::string> problems;  // what is wrong, one line each
};

bool compiles_on(const Implementation& impl, int arch) {
  return impl.backend == DeviceType::kCuda && impl.sources && impl.min_arch <= arch &&
         arch <= impl.max_arch;
}

/// What the arguments request.
struct Request {
  std::vector<int> archs;
  bool all = false;                  // every kernel, not some of each implementation
  std::size_t each = kKernelsEach;   // that many of each implementation and arch
  std::size_t seed = 0;              // of which
  bool turn = false;                 // for one arch each
  std::size_t sizes = Sizes{}.most;  // tuples of sizes for each dtype and layout of an operator
  std::set<std::string> names;       // of operators; empty: all
  std::string only;                  // a part of the entry of every kernel that is compiled
  std::string keep;                  // folder for the cubins; empty: none is kept
};

/// Keeps the first kernel of each function, then others, evenly spread.
void thin_out(std::vector<KernelSource>& sources, const Request& request) {
  const std::size_t n = sources.size();
  if (n <= request.each) return;
  std::set<std::string> functions;
  std::set<std::size_t> kept;
  for (std::size_t i = 0; i < n; ++i)
    if (functions.insert(sources[i].entry.substr(0, sources[i].entry.find('<'))).second)
      kept.insert(i);
  for (std::size_t i = 0; i < request.each && kept.size() < request.each; ++i)
    kept.insert((request.seed + i * n / request.each) % n);
  std::vector<KernelSource> few;
  for (const std::size_t i : kept) few.push_back(std::move(sources[i]));
  sources = std::move(few);
}

/// All distinct kernels that the implementation's default configurations need.
Row sources_of(const Operator& op, const Implementation& impl, int arch,
               const std::vector<Problem>& problems) {
  const DeviceInfo device = typical_cuda_device(arch);
  Row row{&op, &impl, arch, {}, 0, {}};
  std::set<std::string> seen;
  for (Problem problem : problems) {
    problem.device_index = static_cast<std::int16_t>(kAbsentGpu + arch);  // parts are decided, too
    const Query q{problem, device, impl};
    if (!check_support(q)) continue;
    const Config config = default_config(q);
    if (row.problems.empty() && !make_space(q).contains(config))
      row.problems.push_back(text("default configuration is outside the space: ",
                                  impl.table().print(config), " for ", print_problem(op, problem)));
    for (KernelSource& source : impl.sources(q, config))
      if (seen.insert(source.include + "|" + source.entry).second)
        row.sources.push_back(std::move(source));
  }
  row.wanted = row.sources.size();
  if (row.sources.empty()) row.problems.push_back("no problem reached it");
  return row;
}

/// Compiles all rows of an arch together, so the JIT's threads take one kernel after another.
void compile(const std::vector<Row>& rows, int arch) {
  std::vector<KernelSource> all;
  for (const Row& row : rows)
    if (row.arch == arch) all.insert(all.end(), row.sources.begin(), row.sources.end());
  try {
    jit::compile_all(all, arch);
  } catch (const Error&) {  // finish() asks each kernel again and says which
  }
}

struct Figures {
  int registers = 0, spills = 0, stack = 0;
  std::vector<double> ms;
};

/// For nvdisasm and cuobjdump: operator.implementation.arch.number.cubin.
void keep(const jit::Cubin& cubin, const Row& row, std::size_t number, const std::string& folder) {
  const std::string name =
      text(row.op->schema.name, ".", row.impl ? row.impl->name : "device_oracle", ".sm_", row.arch,
           ".", number, ".cubin");
  std::ofstream file(std::filesystem::path(folder) / name, std::ios::binary);
  if (!file.write(cubin.image.data(), static_cast<std::streamsize>(cubin.image.size())))
    throw Error(ErrorKind::kInternal, text(folder, "/", name, " could not be written"));
}

/// Copies what compiling found into `row.problems` and the figures of the table.
Figures finish(Row& row, const std::string& folder) {
  Figures f;
  std::size_t number = 0;
  for (const KernelSource& source : row.sources) {
    try {
      const jit::Cubin& cubin = jit::compile(source, row.arch);
      if (!folder.empty()) keep(cubin, row, number++, folder);
      f.registers = std::max(f.registers, cubin.registers);
      f.spills += cubin.spill_bytes;
      f.stack = std::max(f.stack, cubin.stack_bytes);
      f.ms.push_back(cubin.compile_ms);
      // On multiprocessors of 1,536 threads ptxas spills a few words by itself, whatever the launch
      // bounds, to have all threads resident with 40 registers (sums in f64). An oracle may be
      // slow.
      const bool full = (row.arch == 86 || row.arch == 89) && cubin.registers <= 65536 / 1536 &&
                        cubin.spill_bytes <= 64;
      if (cubin.spill_bytes && !full && row.impl)
        row.problems.push_back(text(source.entry, ": spills ", cubin.spill_bytes, " bytes"));
      for (const std::string& warning : cubin.warnings)
        row.problems.push_back(text(source.entry, ": ", warning));
    } catch (const Error& e) {
      row.problems.push_back(e.what());
    }
  }
  std::sort(f.ms.begin(), f.ms.end());
  return f;
}

/// Prints one line of the table and its problems below; returns how many problems.
std::size_t print(Row& row, std::size_t shown, const std::string& folder) {
  const Figures f = finish(row, folder);
  const std::string name =
      text(row.op->schema.name, ".", row.impl ? row.impl->name : "device_oracle");
  const std::string kernels = text(row.sources.size(), " of ", row.wanted);
  std::printf("%-36s sm_%-4d %10s %5d %7d %6d %8.0f %7.0f\n", name.c_str(), row.arch,
              kernels.c_str(), f.registers, f.spills, f.stack,
              f.ms.empty() ? 0 : f.ms[f.ms.size() / 2], f.ms.empty() ? 0 : f.ms.back());
  const std::set<std::string> different(row.problems.begin(), row.problems.end());
  std::size_t left = different.size();
  for (const std::string& problem : different) {
    if (left + shown == different.size()) {
      std::printf("  FAILED and %zu more\n", left);
      break;
    }
    std::printf("  FAILED %s\n", problem.c_str());
    --left;
  }
  return different.size();
}

bool takes(const Request& request, const Operator& op) {
  return request.names.empty() || request.names.contains(op.schema.name);
}

/// The requested archs that `runs` accepts; only the next one if they take turns.
std::vector<int> archs_of(const Request& request, std::size_t& turn,
                          const std::function<bool(int)>& runs) {
  std::vector<int> archs;
  std::copy_if(request.archs.begin(), request.archs.end(), std::back_inserter(archs), runs);
  if (request.turn && archs.size() > 1) archs = {archs[turn++ % archs.size()]};
  return archs;
}

std::vector<Row> collect(const Request& request) {
  std::vector<Row> rows;
  std::size_t turn = request.seed;
  for (const Operator* op : Registry::process().operators()) {
    if (!takes(request, *op)) continue;
    const std::vector<Problem> some = problems_of(*op, {request.sizes, request.seed});
    std::vector<Problem> all;  // for implementations that take none of them
    for (const Implementation* impl : op->candidates()) {
      for (const int arch : archs_of(request, turn, [&](int a) { return compiles_on(*impl, a); })) {
        Row row = sources_of(*op, *impl, arch, some);
        if (row.sources.empty() && (request.sizes < Sizes{}.most || request.seed != 0)) {
          if (all.empty()) all = problems_of(*op);
          row = sources_of(*op, *impl, arch, all);
        }
        rows.push_back(std::move(row));
      }
    }
    if (const KernelSource& oracle = op->def.device_oracle.source; !oracle.include.empty())
      for (const int arch : archs_of(request, turn, [](int) { return true; }))
        rows.push_back({op, nullptr, arch, {oracle}, 1, {}});
  }
  for (Row& row : rows) {
    std::erase_if(row.sources, [&](const KernelSource& s) {
      return s.entry.find(request.only) == s.entry.npos;
    });
    if (!request.all) thin_out(row.sources, request);
  }
  return rows;
}

int run(const Request& request) {
  if (const std::string why = jit::unavailable(); !why.empty())
    throw Error(ErrorKind::kCompile, why);
  for (const std::string& name : request.names) Registry::process().at(name);
  std::vector<Row> rows = collect(request);
  std::printf("NVRTC %s\n%-36s %-7s %10s %5s %7s %6s %8s %7s\n", jit::compiler_version().c_str(),
              "implementation", "arch", "kernels", "regs", "spills", "stack", "median", "worst ms");
  std::size_t kernels = 0, problems = 0;
  std::set<const Implementation*> compiled;
  for (const int arch : request.archs) compile(rows, arch);
  for (Row& row : rows) {
    problems += print(row, request.names.empty() ? kProblemsShown : SIZE_MAX, request.keep);
    kernels += row.sources.size();
    if (row.impl && !row.sources.empty()) compiled.insert(row.impl);
  }
  std::size_t registered = 0;
  for (const Operator* op : Registry::process().operators())
    for (const Implementation* impl : op->candidates())
      registered += takes(request, *op) && std::any_of(request.archs.begin(), request.archs.end(),
                                                       [&](int a) { return compiles_on(*impl, a); })
                        ? 1
                        : 0;
  std::printf("compile_all: %zu of %zu implementations, %zu kernels, %zu problems\n",
              compiled.size(), registered, kernels, problems);
  return problems == 0 && (compiled.size() == registered || !request.only.empty()) ? 0 : 1;
}

/// An empty cache that exists as long as this object.
class EmptyCache {
 public:
  EmptyCache() : folder_(std::filesystem::temp_directory_path() / "dlblas_compile_all_XXXXXX") {
    if (!mkdtemp(folder_.data()))
      throw Error(ErrorKind::kInternal, text(folder_, " could not be made"));
    setenv("DLBLAS_CACHE", folder_.c_str(), 1);
  }
  ~EmptyCache() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  EmptyCache(const EmptyCache&) = delete;
  EmptyCache& operator=(const EmptyCache&) = delete;

 private:
  std::string folder_;
};

}  // namespace
}  // namespace dlblas::compile_all

int main(int argc, char** argv) {
  dlblas::compile_all::Request request;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool number = !word.empty() && word.find_first_not_of("0123456789") == word.npos;
    const auto count = [&] { return static_cast<std::size_t>(std::atoll(argv[++i])); };
    if (word == "--all") {
      request.all = true;
    } else if (word == "--turn") {
      request.turn = true;
    } else if (word == "--each" && i + 1 < argc) {
      request.each = std::max<std::size_t>(1, count());
    } else if (word == "--sizes" && i + 1 < argc) {
      request.sizes = std::max<std::size_t>(1, count());
    } else if (word == "--seed" && i + 1 < argc) {
      request.seed = count();
    } else if (word == "--op" && i + 1 < argc) {
      request.names.insert(argv[++i]);
    } else if (word == "--only" && i + 1 < argc) {
      request.only = argv[++i];
    } else if (word == "--keep" && i + 1 < argc) {
      request.keep = argv[++i];
    } else if (number && word.size() <= 3) {
      request.archs.push_back(std::atoi(argv[i]));
    } else {
      std::fputs(
          "usage: dlblas_compile_all [--all] [--each N] [--sizes N] [--seed N] [--turn] "
          "[--op NAME …] [--only TEXT] [--keep FOLDER] [arch …], for example 80 90\n",
          stderr);
      return 2;
    }
  }
  if (request.archs.empty()) request.archs = {80, 90};
  try {
    const dlblas::compile_all::EmptyCache cache;
    return dlblas::compile_all::run(request);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dlblas_compile_all: %s\n", e.what());
    return 1;
  }
}
