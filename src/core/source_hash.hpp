// source_hash<"ops/…/x.cpp">(): 16 hex digits over a kernel's source and all that it includes.
// The digits lie in <build>/generated/source_hashes.cpp (cmake/source_hashes.cmake says what they
// cover), so that an edit of a kernel compiles that file again and none of those that register.
// A path that is no source is refused by the build in words, and links nowhere.
#pragma once

#include <cstddef>

namespace dlblas {

/// A string literal as a template's argument.
template <std::size_t N>
struct SourcePath {
  char text[N];
  consteval SourcePath(const char (&path)[N]) {  // NOLINT: a literal becomes one unasked
    for (std::size_t i = 0; i < N; ++i) text[i] = path[i];
  }
};

template <SourcePath kPath>
struct SourceHash {
  static const char kDigits[17];
};

template <SourcePath kPath>
consteval const char* source_hash() {
  return SourceHash<kPath>::kDigits;
}

}  // namespace dlblas
