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
  kProgress,
  kFirstCallSeconds
};
inline constexpr int kNumEnvVars = 14;

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
/// One line per problem: entries of DLBLAS_LIBS that do not exist, flags that are neither 0 nor 1,
/// and variables whose names nearly match one of the table's: "DLBLAS_LOGS: variable is unknown;
/// did you mean DLBLAS_LOG?". Usually empty.
std::string wrong_variables();
/// True if a profiler has injected itself into NVTX in this process.
bool is_profiler_injected();
/// Folders that may hold the CUDA toolkit's libraries, as a colon list: from CUDA_HOME, CUDA_PATH
/// and the usual place.
std::string cuda_folders();

}  // namespace dlblas
