// Words that must outlive the call they were said in: the reasons of users' implementations, which
// the C interface hands on by pointer. There are few different ones, so they are kept for the
// process; of one that says another sentence for every problem, the first kMaxKept.
#pragma once

#include <cstddef>
#include <string>

namespace dlblas {

inline constexpr std::size_t kMaxKept = 1024, kMaxKeptBytes = 1000;

/// The same words, cut at kMaxKeptBytes, for as long as the process lives; once kMaxKept others
/// are kept, a sentence that says so. From any thread.
const char* kept_text(const std::string& words);

}  // namespace dlblas
