// Files that differ from what was written: truncated, bit-flipped, padded, of another version, key
// or compiler, or not regular files at all. Each time the patient must not be used, its neighbour
// must be served, and storing the patient again must repair it. Read next: trust.cpp.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "jit/disk_cache.hpp"
#include "store/sha256.hpp"
#include "trial.hpp"

namespace dlblas::battery {
namespace {

constexpr int kPatient = 1, kNeighbour = 2;

// A store with two good files, and the checks made after each way of spoiling the first.
class Ward {
 public:
  Ward(Trial& trial, const Subject& subject) : trial_(trial), subject_(subject) {
    for (const int id : {kPatient, kNeighbour})
      if (!subject.keep(root(), id, 3)) trial.stopped("making the store");
    file_ = subject.file(root(), kPatient);
  }
  std::string root() const { return scratch_.root(); }
  const std::string& outside() const { return scratch_.path(); }
  const std::string& file() const { return file_; }

  void spoil(const std::string& how, const std::string& bytes) {
    spill(file_, bytes);
    examine(how);
  }
  /// Checks the store after the patient's file was spoiled.
  void examine(const std::string& how) {
    trial_.tried();
    trial_.expect_unused(subject_, root(), kPatient, how);
    trial_.expect_kept(subject_, root(), kNeighbour, how);
    std::error_code ignored;
    if (fs::symlink_status(file_, ignored).type() == fs::file_type::directory)
      fs::remove_all(file_, ignored);
    if (!subject_.keep(root(), kPatient, 3)) return trial_.stopped("keeping again, " + how);
    trial_.expect_kept(subject_, root(), kPatient, "kept again, " + how);
  }

 private:
  Trial& trial_;
  const Subject& subject_;
  Scratch scratch_;
  std::string file_;
};

void truncated(Trial& t, const Subject& s) {
  Ward ward(t, s);
  const std::string whole = s.bytes(kPatient, 3);
  for (const int n : t.pick(static_cast<int>(whole.size())))
    ward.spoil("first " + std::to_string(n) + " bytes", whole.substr(0, static_cast<size_t>(n)));
}

void bits_flipped(Trial& t, const Subject& s) {
  Ward ward(t, s);
  const std::string whole = s.bytes(kPatient, 3);
  for (const int bit : t.pick(static_cast<int>(whole.size()) * 8, 64)) {
    std::string bad = whole;
    bad[static_cast<std::size_t>(bit / 8)] ^= static_cast<char>(1 << bit % 8);
    ward.spoil("bit " + std::to_string(bit), bad);
  }
}

// What remains after a file system wrote the length before the data.
void zeros_from(Trial& t, const Subject& s) {
  Ward ward(t, s);
  const std::string whole = s.bytes(kPatient, 3);
  for (const int n : t.pick(static_cast<int>(whole.size()))) {
    std::string bad = whole;
    std::fill(bad.begin() + n, bad.end(), '\0');
    ward.spoil("zeros from " + std::to_string(n), bad);
  }
}

void padded(Trial& t, const Subject& s) {
  Ward ward(t, s);
  const std::string whole = s.bytes(kPatient, 3);
  const std::string other = s.bytes(kNeighbour, 3);
  for (const std::string& bad :
       {whole + "\n", whole + std::string(1, '\0'), "\n" + whole, whole + whole, whole + other,
        other + whole, whole.substr(0, whole.size() / 2) + other, std::string(), std::string("\n"),
        std::string(4096, '\0'), s.reseal(s.body(kPatient) + "x"), s.reseal(""), s.reseal("\n"),
        s.reseal(whole)})
    ward.spoil(std::to_string(bad.size()) + " bytes of padding", bad);
}

// The digest is valid: only the parser and the names can detect it.
void other_version(Trial& t, const Subject& s) {
  Ward ward(t, s);
  const std::string body = s.body(kPatient);
  const std::size_t space = body.find(' '), end = body.find('\n');
  const std::string own = body.substr(space + 1, end - space - 1);
  for (const std::string version :
       {"0", "1", "2", "3", "9", "10", "01", "1.0", "-1", "", " 1", "2 ", "x"}) {
    if (version == own) continue;
    const std::string bad = s.reseal(body.substr(0, space + 1) + version + body.substr(end));
    ward.spoil("version " + version, bad);
    if (&s != &kResults) continue;
    // Also under the name that its digest requires.
    const std::string named = s.folders(ward.root()).back() + "/" + std::string(digest_of(bad));
    spill(named, bad);
    ward.spoil("version " + version + " by its own name", bad);
    if (fs::exists(named)) t.wrong("version " + version + " stays");
  }
}

// A good record of another device, schema, problem or flag at the place where this key looks; a
// good cubin of another source or architecture (its digest covers both) or compiler under this
// one's name.
void other_identity(Trial& t, const Subject& s) {
  Ward ward(t, s);
  if (&s == &kResults) {
    for (const char* field : {"device.arch", "device.model", "device.isa", "device.threads",
                              "schema", "dims", "flags", "scalars", "tensors", "op"}) {
      Record alien = sample_record(kPatient);
      alien.key.push_back({field, "another"});
      std::erase_if(alien.key,
                    [&](const auto& f) { return f.name == field && f.value != "another"; });
      const std::string text = print(alien);
      std::error_code ignored;
      fs::remove(ward.file(), ignored);
      spill(s.folders(ward.root()).back() + "/" + std::string(digest_of(text)), text);
      ward.examine(std::string("another ") + field);
    }
    return;
  }
  ward.spoil("another source's or architecture's", s.bytes(kNeighbour, 3));
  const std::string own = s.file_name(kPatient, 3), digest = own.substr(0, own.find('-'));
  jit::Cubin cubin;
  if (!jit::detail::unpack(s.bytes(kPatient, 3), digest, "13.0", &cubin)) t.stopped("unpack");
  for (const char* compiler : {"12.8", "13.1", "", "13.0 ", "13"})
    ward.spoil(std::string("by compiler ") + compiler, jit::detail::pack(digest, compiler, cubin));
}

void renamed(Trial& t, const Subject& s) {
  Ward ward(t, s);
  const std::string folder = s.folders(ward.root()).back(), whole = s.bytes(kPatient, 3);
  const std::string other = s.file_name(7, 3);
  for (const std::string& name :
       {std::string("README"), other, std::string(64, '0'), other + "x", std::string(255, 'n'),
        std::string("\x1b[31m\n"), std::string("-"), std::string("%s%n"), std::string("a b")}) {
    fs::rename(ward.file(), folder + "/" + name);
    ward.examine("named " + name);
    t.expect_unused(s, ward.root(), 7, "named " + name);
  }
}

void too_long(Trial& t, const Subject& s) {
  Ward ward(t, s);
  for (const std::int64_t length : {std::int64_t{kMaxRecordBytes} + 1, std::int64_t{65} << 20,
                                    std::int64_t{1} << 33, std::int64_t{1} << 40}) {
    if (::truncate(ward.file().c_str(), length) == 0)  // sparse: nothing is allocated
      ward.examine(std::to_string(length) + " bytes");
  }
}

void random_bytes(Trial& t, const Subject& s) {
  Ward ward(t, s);
  for (const int i : t.pick(1000)) {
    std::string bytes(t.random()() % 2000, '\0');
    for (char& c : bytes) c = static_cast<char>(t.random()());
    ward.spoil("random bytes", i % 2 ? bytes : s.reseal(bytes));
  }
}

bool listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  path.copy(address.sun_path, path.size());
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// FIFO: opening one would block for ever. Device: opening one can have side effects.
void not_a_file(Trial& t, const Subject& s) {
  Ward ward(t, s);
  const std::string& file = ward.file();
  const std::string elsewhere = ward.outside() + "/elsewhere";
  spill(elsewhere, s.bytes(kPatient, 3));
  const std::vector<std::pair<const char*, std::function<bool()>>> kinds = {
      {"FIFO", [&] { return ::mkfifo(file.c_str(), 0600) == 0; }},
      {"folder", [&] { return ::mkdir(file.c_str(), 0700) == 0; }},
      {"folder with a file", [&] { return fs::create_directories(file + "/inside"); }},
      {"symlink to a good copy", [&] { return ::symlink(elsewhere.c_str(), file.c_str()) == 0; }},
      {"dangling symlink", [&] { return ::symlink("nowhere", file.c_str()) == 0; }},
      {"symlink to itself", [&] { return ::symlink(file.c_str(), file.c_str()) == 0; }},
      {"symlink to a device", [&] { return ::symlink("/dev/zero", file.c_str()) == 0; }},
      {"device", [&] { return ::mknod(file.c_str(), S_IFCHR | 0600, makedev(1, 5)) == 0; }},
      {"socket", [&] {
         const std::string near = ward.outside() + "/s";
         return listen_at(near) && ::rename(near.c_str(), file.c_str()) == 0;
       }}};
  for (const auto& [kind, make] : kinds) {
    fs::remove_all(file);
    if (make()) {
      ward.examine(kind);
    } else if (!s.keep(ward.root(), kPatient, 3)) {
      t.stopped(kind);
    }
  }
  if (slurp(elsewhere) != s.bytes(kPatient, 3)) t.wrong("the link's target was changed");
}

}  // namespace

const std::vector<Fault>& damage_faults() {
  static const std::vector<Fault> faults = {
      {"truncated at every byte", "set aside; the neighbour is there; kept again", truncated},
      {"every bit flipped", "the same", bits_flipped},
      {"zeros from every byte to the end", "the same", zeros_from},
      {"padded, doubled, mixed, emptied", "the same", padded},
      {"another version, the digest good", "the same", other_version},
      {"another key, device, schema; another architecture or compiler", "the same", other_identity},
      {"under another name", "the same", renamed},
      {"too long, up to 1 TiB", "the same; not read", too_long},
      {"random bytes, with and without a digest", "the same", random_bytes},
      {"FIFO, folder, symlink, device, socket", "never opened", not_a_file},
  };
  return faults;
}

}  // namespace dlblas::battery
