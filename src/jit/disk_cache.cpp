// See disk_cache.hpp.
#include "jit/disk_cache.hpp"

#include <fcntl.h>
#include <stdio.h>

#include <atomic>
#include <charconv>

#include "core/error.hpp"
#include "core/log.hpp"
#include "store/sha256.hpp"
#include "store/store.hpp"

namespace dlblas::jit {
namespace {

constexpr std::string_view kMagic = "dlblas-cubin 2\n";
// Folders above `cubins` that a first write may have created: v1, dlblas, .cache.
constexpr int kParents = 4;
constexpr std::size_t kDigestBytes = 64;
constexpr std::size_t kMaxCubinBytes = std::size_t{64} << 20;

Folder open_cubins(const std::string& root_path, Missing missing) {
  Folder root = open_root(root_path, Trust::kOurs, missing);
  if (!root.fd) return root;
  return open_folder(root.fd.get(), "cubins", Trust::kOurs, missing);
}

// Splits a file's name into its two halves; false for a name that write_cubin would not write.
bool split_name(const std::string& name, std::string* digest, std::string* compiler) {
  const std::size_t dash = name.find('-');
  if (dash == name.npos || dash == 0 || dash + 1 == name.size()) return false;
  *digest = name.substr(0, dash);
  *compiler = name.substr(dash + 1);
  return true;
}

// Reads a file and checks it against the name it should have.
Flaw examine(int folder, const std::string& file, const std::string& name, Cubin* cubin) {
  std::string bytes, digest, compiler;
  const Flaw flaw = read_file(folder, file, Trust::kOurs, &bytes, kMaxCubinBytes);
  if (flaw != Flaw::kNone) return flaw;
  const bool good =
      split_name(name, &digest, &compiler) && detail::unpack(bytes, digest, compiler, cubin);
  return good ? Flaw::kNone : Flaw::kDigest;
}

// Moves a bad cubin to quarantine/, as bad records are, so that it is examined only once. One that
// cannot be moved stays and is skipped: a later write of the same kernel takes its name. If another
// process has meanwhile written a good file over it, that one is moved back.
void set_aside(const std::string& root_path, const Folder& cubins, const std::string& name) {
  constexpr std::size_t kNamePart = 200;  // within NAME_MAX whatever the name was
  Folder root = open_root(root_path, Trust::kOurs, Missing::kFail);
  Folder quarantine =
      root.fd ? open_folder(root.fd.get(), "quarantine", Trust::kOurs, Missing::kCreate) : Folder();
  const std::string to = "cubin-" + name.substr(0, kNamePart);
  if (quarantine.fd &&
      ::renameat(cubins.fd.get(), name.c_str(), quarantine.fd.get(), to.c_str()) == 0) {
    Cubin cubin;
    if (examine(quarantine.fd.get(), to, name, &cubin) == Flaw::kNone) {
      ::renameat(quarantine.fd.get(), to.c_str(), cubins.fd.get(), name.c_str());
      return;
    }
  }
  log(LogLevel::kWarn,
      text("cubin ", printable(name), " is damaged; it is set aside and compiled again"));
}

// Reads one file: good, or set aside. A file that merely could not be read now stays where it is.
enum class Taken { kGood, kBad, kPassed };
Taken take(const std::string& root_path, const Folder& cubins, const std::string& name,
           Cubin* cubin) {
  const Flaw flaw = examine(cubins.fd.get(), name, name, cubin);
  if (flaw == Flaw::kNone) return Taken::kGood;
  if (flaw == Flaw::kVanished || flaw == Flaw::kBusy || flaw == Flaw::kUnreadable)
    return Taken::kPassed;
  set_aside(root_path, cubins, name);
  return Taken::kBad;
}

// Takes `<name> <value>\n` off the front.
bool take_line(std::string_view& bytes, std::string_view name, std::string_view* value) {
  const std::size_t end = bytes.find('\n');
  if (end == bytes.npos || !bytes.starts_with(name) || bytes.size() <= name.size() ||
      bytes[name.size()] != ' ' || end <= name.size())
    return false;
  *value = bytes.substr(name.size() + 1, end - name.size() - 1);
  bytes.remove_prefix(end + 1);
  return true;
}

template <typename T>
bool take_number(std::string_view& bytes, std::string_view name, T* value) {
  std::string_view word;
  if (!take_line(bytes, name, &word)) return false;
  const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), *value);
  return failed == std::errc{} && end == word.data() + word.size() && *value >= 0 &&
         std::to_string(*value) == word;  // one text per number
}

}  // namespace

namespace detail {

std::string pack(const std::string& digest, const std::string& compiler, const Cubin& c) {
  std::string s =
      text(kMagic, "source ", digest, "\ncompiler ", compiler, "\nsymbol ", c.symbol,
           "\nregisters ", c.registers, "\nspill_bytes ", c.spill_bytes, "\nstack_bytes ",
           c.stack_bytes, "\nshared_bytes ", c.shared_bytes, "\nbytes ", c.image.size(), "\n");
  s += c.image;
  return s + sha256_hex(s);
}

bool unpack(std::string_view bytes, const std::string& digest, const std::string& compiler,
            Cubin* cubin) {
  if (bytes.size() < kMagic.size() + kDigestBytes) return false;
  const std::string_view body = bytes.substr(0, bytes.size() - kDigestBytes);
  if (sha256_hex(body) != bytes.substr(body.size())) return false;
  std::string_view rest = body, source, by, symbol;
  if (!rest.starts_with(kMagic)) return false;
  rest.remove_prefix(kMagic.size());
  Cubin c;
  std::int64_t size = 0;
  if (!take_line(rest, "source", &source) || source != digest ||
      !take_line(rest, "compiler", &by) || by != compiler || !take_line(rest, "symbol", &symbol) ||
      !take_number(rest, "registers", &c.registers) ||
      !take_number(rest, "spill_bytes", &c.spill_bytes) ||
      !take_number(rest, "stack_bytes", &c.stack_bytes) ||
      !take_number(rest, "shared_bytes", &c.shared_bytes) || !take_number(rest, "bytes", &size) ||
      size != static_cast<std::int64_t>(rest.size()))
    return false;
  c.symbol = symbol;
  c.image = rest;
  *cubin = std::move(c);
  return true;
}

bool read_cubin(const std::string& root, const std::string& digest, const std::string& compiler,
                Cubin* cubin) {
  const Folder folder = open_cubins(root, Missing::kFail);
  if (!folder.fd) return false;
  std::vector<std::string> names;
  if (!compiler.empty()) {
    names.push_back(text(digest, "-", compiler));
  } else {
    for (std::string& name : list_folder(folder.fd.get()))
      if (name.starts_with(digest + "-")) names.push_back(std::move(name));
  }
  for (const std::string& name : names)
    if (take(root, folder, name, cubin) == Taken::kGood) return true;
  return false;
}

bool write_cubin(const std::string& root, const std::string& digest, const std::string& compiler,
                 const Cubin& cubin, bool rooted) {
  const Folder folder = open_cubins(root, Missing::kCreate);
  if (!folder.fd) return false;  // the store has said why already, or will
  const std::string bytes = pack(digest, compiler, cubin);
  Cubin back;  // what could not be read back (a symbol with a newline) is never written
  return bytes.size() <= kMaxCubinBytes && unpack(bytes, digest, compiler, &back) &&
         write_file(folder.fd.get(), text(digest, "-", compiler), bytes) == 0 &&
         sync_parents(folder.fd.get(), rooted ? 0 : kParents) == 0;
}

CubinCheck verify_cubins(const std::string& root) {
  CubinCheck check;
  const Folder folder = open_cubins(root, Missing::kFail);
  if (!folder.fd) return check;
  for (const std::string& name : list_folder(folder.fd.get())) {
    Cubin cubin;
    const Taken taken = take(root, folder, name, &cubin);
    check.good += taken == Taken::kGood;
    check.bad += taken == Taken::kBad;
  }
  sweep_folder(folder.fd.get());
  return check;
}

}  // namespace detail

bool read_cubin(const std::string& digest, const std::string& compiler, Cubin* cubin) {
  return detail::read_cubin(Store::process().path(), digest, compiler, cubin);
}

bool write_cubin(const std::string& digest, const std::string& compiler, const Cubin& cubin) {
  // Saves four syncs for every kernel but the first: the folders' names are on the disk by then.
  static std::atomic<bool> rooted{false};
  const bool written =
      detail::write_cubin(Store::process().path(), digest, compiler, cubin, rooted.load());
  if (written) rooted = true;
  return written;
}

CubinCheck verify_cubins() { return detail::verify_cubins(Store::process().path()); }

}  // namespace dlblas::jit
