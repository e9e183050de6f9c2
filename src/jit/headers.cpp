// Where a kernel's text comes from; see headers.hpp.
#include "jit/headers.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

#include "core/env.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "jit/jit.hpp"
#include "store/sha256.hpp"

namespace dlblas::jit {
namespace {

bool read_live(const std::string& name, std::string* out) {
  const std::string_view root = env(EnvVar::kSourceDir);
  if (root.empty()) return false;
  std::ifstream file(text(root, "/", name), std::ios::binary);
  if (!file) return false;
  out->assign(std::istreambuf_iterator<char>(file), {});
  return true;
}

// The texts given to add_header.
struct Added {
  std::mutex mutex;
  std::map<std::string, std::string> texts;
};
Added& added() {
  static auto* const headers = new Added;
  return *headers;
}

bool read_added(const std::string& name, std::string* out) {
  const std::lock_guard lock(added().mutex);
  const auto at = added().texts.find(name);
  if (at == added().texts.end()) return false;
  *out = at->second;
  return true;
}

bool read_embedded(const std::string& name, std::string* out) {
  const auto* end = detail::kEmbedded + detail::kNumEmbedded;
  const auto* at =
      std::find_if(detail::kEmbedded, end, [&](const auto& e) { return e.name == name; });
  if (at == end) return false;
  *out = at->text;
  return true;
}

// The names in `#include "…"` lines. Kernels write them from the tree's root, one per line.
std::vector<std::string> includes_in(std::string_view source) {
  std::vector<std::string> names;
  while (!source.empty()) {
    std::string_view line = source.substr(0, source.find('\n'));
    source.remove_prefix(std::min(source.size(), line.size() + 1));
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t")));
    if (!line.starts_with("#include \"")) continue;
    line.remove_prefix(10);
    names.emplace_back(line.substr(0, line.find('"')));
  }
  return names;
}

}  // namespace

std::vector<Header> closure_of(const std::string& include) {
  struct Wanted {
    std::string name;
    bool by_user;  // named by a text that a user has added, or asked for
  };
  std::vector<Header> found;
  std::vector<Wanted> pending{{include, true}};
  while (!pending.empty()) {
    const Wanted wanted = std::move(pending.back());
    Header header{wanted.name, {}};
    pending.pop_back();
    const auto known = [&](const Header& h) { return h.name == header.name; };
    if (std::any_of(found.begin(), found.end(), known)) continue;
    const bool added = read_added(header.name, &header.text);
    if (!added && !read_live(header.name, &header.text) &&
        !read_embedded(header.name, &header.text)) {
      // A host branch in a text of the library may include headers that no kernel needs.
      if (!wanted.by_user) continue;
      throw Error(ErrorKind::kCompile,
                  text("jit: header is unknown; expected a file of the library or of "
                       "DLBLAS_SOURCE_DIR, got ",
                       header.name),
                  {.op = "jit", .argument = "header", .got = header.name});
    }
    for (std::string& name : includes_in(header.text)) pending.push_back({std::move(name), added});
    found.push_back(std::move(header));
  }
  std::sort(found.begin(), found.end(),
            [](const Header& a, const Header& b) { return a.name < b.name; });
  return found;
}

void add_header(const std::string& name, const std::string& text) {
  const std::lock_guard lock(added().mutex);
  added().texts.emplace(name, text);
}

const char* source_version() {
  static const std::string* const version = [] {
    auto* digest = new std::string;
    if (env(EnvVar::kSourceDir).empty()) return digest;
    if (std::string types; !read_live("device/types.hpp", &types))
      log(LogLevel::kWarn,
          text("DLBLAS_SOURCE_DIR is no source tree; expected device/types.hpp in it, got ",
               env(EnvVar::kSourceDir), "; the embedded kernels are compiled"));
    std::string all, one;
    for (int i = 0; i < detail::kNumEmbedded; ++i) {
      const std::string name(detail::kEmbedded[i].name);
      if (read_live(name, &one)) all += text(name, "\n", one, "\n");
    }
    *digest = "live" + sha256_hex(all).substr(0, 12);
    return digest;
  }();
  return version->c_str();
}

void attach() { Implementation::live_sources = &source_version; }

}  // namespace dlblas::jit
