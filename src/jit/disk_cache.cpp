// See disk_cache.hpp.
#include "jit/disk_cache.hpp"

#include <fcntl.h>
#include <stdio.h>

#include <charconv>

#include "core/error.hpp"
#include "core/log.hpp"
#include "store/sha256.hpp"
#include "store/store.hpp"

namespace dlblas::jit {
namespace {

constexpr std::string_view kMagic = "dlblas-cubin 1\n";
constexpr std::size_t kDigestBytes = 64;
constexpr std::size_t kMaxCubinBytes = std::size_t{64} << 20;

Folder open_cubins(Missing missing) {
  Folder root = open_root(Store::process().path(), Trust::kOurs, missing);
  if (!root.fd) return root;
  return open_folder(root.fd.get(), "cubins", Trust::kOurs, missing);
}

// Out of the way, so that it is looked at once: in quarantine/, as bad records are.
void set_aside(const Folder& cubins, const std::string& name) {
  Folder root = open_root(Store::process().path(), Trust::kOurs, Missing::kFail);
  Folder quarantine =
      root.fd ? open_folder(root.fd.get(), "quarantine", Trust::kOurs, Missing::kCreate) : Folder();
  if (quarantine.fd)
    ::renameat(cubins.fd.get(), name.c_str(), quarantine.fd.get(), ("cubin-" + name).c_str());
  log(LogLevel::kWarn, text("cubin ", name, " is damaged; it is set aside and compiled again"));
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
  return failed == std::errc{} && end == word.data() + word.size() && *value >= 0;
}

}  // namespace

namespace detail {

std::string pack(const std::string& digest, const Cubin& c) {
  std::string s =
      text(kMagic, "source ", digest, "\nsymbol ", c.symbol, "\nregisters ", c.registers,
           "\nspill_bytes ", c.spill_bytes, "\nstack_bytes ", c.stack_bytes, "\nshared_bytes ",
           c.shared_bytes, "\nbytes ", c.image.size(), "\n");
  s += c.image;
  return s + sha256_hex(s);
}

bool unpack(std::string_view bytes, const std::string& digest, Cubin* cubin) {
  if (bytes.size() < kMagic.size() + kDigestBytes) return false;
  const std::string_view body = bytes.substr(0, bytes.size() - kDigestBytes);
  if (sha256_hex(body) != bytes.substr(body.size())) return false;
  std::string_view rest = body, source, symbol;
  if (!rest.starts_with(kMagic)) return false;
  rest.remove_prefix(kMagic.size());
  Cubin c;
  std::int64_t size = 0;
  if (!take_line(rest, "source", &source) || source != digest ||
      !take_line(rest, "symbol", &symbol) || !take_number(rest, "registers", &c.registers) ||
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

}  // namespace detail

bool read_cubin(const std::string& digest, const std::string& compiler, Cubin* cubin) {
  const Folder folder = open_cubins(Missing::kFail);
  if (!folder.fd) return false;
  std::vector<std::string> names;
  if (!compiler.empty()) {
    names.push_back(text(digest, "-", compiler));
  } else {
    for (std::string& name : list_folder(folder.fd.get()))
      if (name.starts_with(digest)) names.push_back(std::move(name));
  }
  for (const std::string& name : names) {
    std::string bytes;
    const Flaw flaw = read_file(folder.fd.get(), name, Trust::kOurs, &bytes, kMaxCubinBytes);
    if (flaw == Flaw::kVanished || flaw == Flaw::kBusy) continue;
    if (flaw == Flaw::kNone && detail::unpack(bytes, digest, cubin)) return true;
    set_aside(folder, name);
  }
  return false;
}

void write_cubin(const std::string& digest, const std::string& compiler, const Cubin& cubin) {
  const Folder folder = open_cubins(Missing::kCreate);
  if (!folder.fd) return;  // the store has said why already, or will
  const std::string bytes = detail::pack(digest, cubin);
  if (bytes.size() <= kMaxCubinBytes)
    write_file(folder.fd.get(), text(digest, "-", compiler), bytes);
}

}  // namespace dlblas::jit
