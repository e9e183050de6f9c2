// The table of environment variables; see env.hpp. The only file that calls getenv (a tool checks).
#include "core/env.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "core/error.hpp"
#include "core/spelling.hpp"

namespace dlblas {
namespace {

// Makes a path absolute, so that a later change of the current folder does not affect it; ~ is the
// user's home. A path that cannot be made absolute (~name, no home, a deleted current folder) stays
// as it is.
std::string absolute(const std::string& path) {
  if (path.empty() || path.front() == '/') return path;
  if (path.front() == '~') {
    const char* home = std::getenv("HOME");
    const bool ours = path.size() == 1 || path[1] == '/';
    return ours && home && home[0] == '/' ? home + path.substr(1) : path;
  }
  std::error_code failed;
  const std::string folder = std::filesystem::current_path(failed).string();
  return failed ? path : folder + "/" + path;
}

std::string absolute_list(std::string_view list) {
  std::string all;
  for (bool more = true; more;) {
    const std::size_t end = list.find(':');
    all += absolute(std::string(list.substr(0, end)));
    more = end != list.npos;
    if (more) all += ':', list.remove_prefix(end + 1);
  }
  return all;
}

EnvEntry* table() {
  static auto* entries = [] {
    auto* t = new EnvEntry[kNumEnvVars]{
        {"DLBLAS_CACHE",
         "$XDG_CACHE_HOME/dlblas, else ~/.cache/dlblas",
         "folder of the results store; ~ is the home folder",
         {}},
        {"DLBLAS_CPU_ISA",
         "what cpuid reports",
         "caps the CPU level: baseline, avx2 or avx512",
         {}},
        {"DLBLAS_NUM_THREADS",
         "the processors this process may use",
         "threads of the library's own pool",
         {}},
        {"DLBLAS_LOG",
         "warn",
         "off, warn or info; and call, search, compile: a line each; nvtx: a range per call; "
         "several by "
         "comma",
         {}},
        {"DLBLAS_TUNE_SECONDS", "10", "search budget of one key", {}},
        {"DLBLAS_LIBS", "", "colon list of files or folders searched first for libraries", {}},
        {"DLBLAS_REQUIRE_HIT", "0", "1: a call without a tuned result is an error", {}},
        {"DLBLAS_DETERMINISTIC",
         "0",
         "1: the same bits for a row in any batch, on any threads, tuned or not",
         {}},
        {"DLBLAS_DISABLE", "", "comma list of implementations never to use", {}},
        {"DLBLAS_JIT",
         "1",
         "0: never compile a kernel; what `warmup` left in the cache serves",
         {}},
        {"DLBLAS_SOURCE_DIR",
         "what is embedded in the library",
         "a source tree whose kernels are compiled instead: edit, run, no rebuild",
         {}},
        {"DLBLAS_LOG_FILE",
         "standard error, or Python's logging",
         "where the log goes; %p in it is the process",
         {}},
        {"DLBLAS_PROGRESS", "1", "0: searches from Python and the command show no progress", {}},
        {"DLBLAS_FIRST_CALL_SECONDS",
         "30",
         "what a search's first call of a function of yours may take",
         {}},
    };
    for (int i = 0; i < kNumEnvVars; ++i)
      if (const char* value = std::getenv(t[i].name.data())) t[i].value = value;
    for (const EnvVar path : {EnvVar::kCache, EnvVar::kSourceDir, EnvVar::kLogFile})
      t[static_cast<int>(path)].value = absolute(t[static_cast<int>(path)].value);
    std::string& libraries = t[static_cast<int>(EnvVar::kLibs)].value;
    libraries = absolute_list(libraries);
    return t;
  }();
  return entries;
}

// One line per entry of DLBLAS_LIBS that does not exist.
std::string missing_libraries() {
  std::string lines;
  std::string_view list = env(EnvVar::kLibs);
  while (!list.empty()) {
    const std::string entry(list.substr(0, list.find(':')));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    if (entry.empty() || access(entry.c_str(), F_OK) == 0) continue;
    lines += text(lines.empty() ? "" : "\n",
                  "DLBLAS_LIBS has a wrong value; expected files or folders that exist, got ",
                  entry.substr(0, 200), "; it is skipped");
  }
  return lines;
}

}  // namespace

const EnvEntry& env_entry(EnvVar v) { return table()[static_cast<int>(v)]; }

bool env_flag(EnvVar v) {
  const std::string_view value = env(v);
  return value == "1" || value == "true" || value == "on" || value == "yes";
}

std::string cache_root() {
  if (const std::string_view given = env(EnvVar::kCache); !given.empty()) return std::string(given);
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && xdg[0] == '/')
    return std::string(xdg) + "/dlblas";
  if (const char* home = std::getenv("HOME"); home && home[0] == '/')
    return std::string(home) + "/.cache/dlblas";
  return {};
}

std::string wrong_variables() {
  constexpr std::string_view kOurs = "DLBLAS_";
  std::string lines = missing_libraries();
  for (const EnvVar flag :
       {EnvVar::kRequireHit, EnvVar::kDeterministic, EnvVar::kJit, EnvVar::kProgress}) {
    const std::string_view value = env(flag);
    if (value.empty() || env_flag(flag) || value == "0" || value == "false" || value == "off" ||
        value == "no")
      continue;
    lines += text(lines.empty() ? "" : "\n", env_entry(flag).name,
                  " has a wrong value; expected 0 or 1, got ", value.substr(0, 64),
                  "; it counts as ", flag == EnvVar::kProgress ? "1" : "0");
  }
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string_view line(*entry), name = line.substr(0, line.find('='));
    if (!name.starts_with(kOurs) || name.size() > 64) continue;
    std::string_view near;
    std::size_t least = 3;
    for (int i = 0; i < kNumEnvVars; ++i) {
      const std::string_view known = table()[i].name;
      if (name == known) {
        near = {};
        break;
      }
      const bool longer = name.starts_with(known) && name[known.size()] == '_';
      const bool shorter = name.size() > kOurs.size() + 2 &&
                           known.ends_with(std::string("_").append(name.substr(kOurs.size())));
      const std::size_t far = longer || shorter ? 1 : edits(name, known);
      if (far < least) near = known, least = far;
    }
    if (!near.empty())
      lines +=
          text(lines.empty() ? "" : "\n", name, ": variable is unknown; did you mean ", near, "?");
  }
  return lines;
}

bool is_profiler_injected() {
  const char* given = std::getenv("NVTX_INJECTION64_PATH");
  return given && *given;
}

std::string cuda_folders() {
  std::string folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(name); home && home[0] == '/')
      folders += std::string(home) + "/lib64:" + home + "/lib:";
  return folders + "/usr/local/cuda/lib64:/usr/local/cuda/lib";
}

}  // namespace dlblas
