// Cubins on the disk: `<cache>/v1/cubins/<digest of what was compiled>-<compiler>`, one file each,
// written whole or not at all, closed by a SHA-256. A file that is not exactly what was written is
// set aside and compiled again; it is never loaded. Read next: jit/jit.hpp, store/files.hpp.
#pragma once

#include <string>

#include "jit/jit.hpp"

namespace dlblas::jit {

/// `digest` names what was compiled, `compiler` by what ("13.0"; empty: by any).
bool read_cubin(const std::string& digest, const std::string& compiler, Cubin* cubin);
/// Failing disks cost a compilation next time, nothing else.
void write_cubin(const std::string& digest, const std::string& compiler, const Cubin& cubin);

namespace detail {
/// The file's bytes, and the strict inverse: false unless every byte is as written.
std::string pack(const std::string& digest, const Cubin& cubin);
bool unpack(std::string_view bytes, const std::string& digest, Cubin* cubin);
}  // namespace detail

}  // namespace dlblas::jit
