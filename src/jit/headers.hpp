// The text of kernels: embedded in the library by the build, or read from the tree that
// DLBLAS_SOURCE_DIR names. In: a path from the tree's root. Out: the header and all that it
// includes, as NVRTC takes them. Read next: jit/nvrtc.hpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dlblas::jit {

struct Header {
  std::string name;  // "device/vec.cuh", as an include names it
  std::string text;
};

/// The header and, transitively, its quoted includes, in path order. Throws Error(kCompile) for a
/// file that is not there.
std::vector<Header> closure_of(const std::string& include);

/// Adds a text under a name of its own, for kernels from outside. A name once given
/// keeps its text: give a new text a new name (its digest).
void add_header(const std::string& name, const std::string& text);

namespace detail {
/// Made by the build: every device/ header, and every .cuh and _config.hpp of the families.
struct Embedded {
  std::string_view name, text;
};
extern const Embedded* const kEmbedded;
extern const int kNumEmbedded;
}  // namespace detail

}  // namespace dlblas::jit
