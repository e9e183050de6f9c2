// source_hash<"ops/…/x.cpp">(): 16 hex digits over a kernel's source and everything it includes.
// The digits are defined in <build>/generated/source_hashes.cpp (cmake/source_hashes.cmake says
// what they cover), so that editing a kernel recompiles that file and none of those that register.
// The build rejects a path that is no source with a message; it would not link either.
#pragma once

#include <cstddef>

namespace dlblas {

/// A string literal as a template argument.
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
