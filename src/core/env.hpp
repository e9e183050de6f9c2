// Every environment variable of the library in one table; nothing else calls getenv.
// Read once, at first use; `dlblas info` prints the table. Read next: core/env.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dlblas {

enum class EnvVar {
  kCache,
  kCpuIsa,
  kNumThreads,
  kLog,
  kTuneSeconds,
  kLibs,
  kRequireHit,
  kDeterministic,
  kDisable,
  kJit,
  kSourceDir,
  kLogFile,
  kProgress
};
inline constexpr int kNumEnvVars = 13;

struct EnvEntry {
  std::string_view name;      // "DLBLAS_CACHE"
  std::string_view fallback;  // what holds when it is not set, in words
  std::string_view meaning;
  std::string value;  // "" when not set; paths are absolute, where they can be
};

const EnvEntry& env_entry(EnvVar v);
inline std::string_view env(EnvVar v) { return env_entry(v).value; }
/// True for "1", "true", "on", "yes".
bool env_flag(EnvVar v);
/// ($DLBLAS_CACHE, else $XDG_CACHE_HOME/dlblas, else ~/.cache/dlblas); empty when no home is known.
std::string cache_root();
/// What DLBLAS_LIBS names and is not there, flags that are neither 0 nor 1, and variables that are
/// nearly one of the table's: "DLBLAS_LOGS: variable is unknown; did you mean DLBLAS_LOG?", a line
/// each; mostly empty.
std::string wrong_variables();
/// True if a profiler has put itself between NVTX and this process.
bool is_profiler_injected();
/// Where the CUDA toolkit's libraries may lie: CUDA_HOME, CUDA_PATH and the usual place, as a colon
/// list of folders.
std::string cuda_folders();

}  // namespace dlblas
