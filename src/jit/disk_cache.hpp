// Cubins on the disk: `<cache>/v1/cubins/<digest of what was compiled>-<compiler>`, one file each,
// written atomically, with a SHA-256 at the end. A file that is not exactly what was written is set
// aside and compiled again; it is never loaded. Read next: jit/jit.hpp, store/files.hpp.
#pragma once

#include <cstdint>
#include <string>

#include "jit/jit.hpp"

namespace dlblas::jit {

/// `digest` identifies what was compiled, `compiler` the compiler's version ("13.0"; empty: any).
bool read_cubin(const std::string& digest, const std::string& compiler, Cubin* cubin);
/// True: it is on the disk and survives a crash from here on. A failing disk only costs a
/// compilation next time.
bool write_cubin(const std::string& digest, const std::string& compiler, const Cubin& cubin);

struct CubinCheck {
  std::int64_t good = 0, bad = 0;  // the bad ones are in quarantine/ now, or skipped
};
/// Reads every cubin again, sets bad ones aside, removes leftovers of killed writers.
CubinCheck verify_cubins();

namespace detail {
/// The file's bytes, and the strict inverse: false unless every byte is as written, for this
/// digest, by this compiler.
std::string pack(const std::string& digest, const std::string& compiler, const Cubin& cubin);
bool unpack(std::string_view bytes, const std::string& digest, const std::string& compiler,
            Cubin* cubin);

/// The same in the store folder `root` instead of the process's.
bool read_cubin(const std::string& root, const std::string& digest, const std::string& compiler,
                Cubin* cubin);
/// `rooted`: the folders' names are on the disk already.
bool write_cubin(const std::string& root, const std::string& digest, const std::string& compiler,
                 const Cubin& cubin, bool rooted = false);
CubinCheck verify_cubins(const std::string& root);
}  // namespace detail

}  // namespace dlblas::jit
