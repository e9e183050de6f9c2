// Words that must outlive the call they were said in: the reasons of users' implementations, which
// a Support holds by pointer. There are few different ones, so they are kept for the process; of
// one that says another sentence for every problem, the first kMostKept.
#pragma once

#include <cstddef>
#include <string>

namespace dlblas {

inline constexpr std::size_t kMostKept = 1024, kMostKeptBytes = 1000;

/// The same words, cut at kMostKeptBytes, for as long as the process lives; once kMostKept others
/// are kept, a sentence that says so. From any thread.
const char* kept_text(const std::string& words);

}  // namespace dlblas
