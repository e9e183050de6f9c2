// Words that must outlive the call they were said in: the reasons of users' implementations, which
// a Support holds by pointer. There are few different ones, so they are kept for the process.
#pragma once

#include <string>

namespace dlblas {

/// The same words, for as long as the process lives. From any thread.
const char* kept_text(const std::string& words);

}  // namespace dlblas
