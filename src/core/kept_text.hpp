// Text that must outlive the call that produced it: the reasons of users' implementations, which
// the C interface passes on by pointer. Distinct ones are few, so they are kept for the life of the
// process; at most kMaxKept, since an implementation may word a new one for every problem.
#pragma once

#include <cstddef>
#include <string>

namespace dlblas {

inline constexpr std::size_t kMaxKept = 1024, kMaxKeptBytes = 1000;

/// The same text, cut at kMaxKeptBytes, valid for the life of the process; once kMaxKept others are
/// kept, a sentence that says so. Thread-safe.
const char* kept_text(const std::string& words);

}  // namespace dlblas
