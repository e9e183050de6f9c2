// An attacked user: a store of uid 65534 is poisoned by another user (uid 65533) or root, and then
// read by the victim. Id 1 is the victim's own record, id 66 the poison. Read next:
// attacks_files.cpp.
#pragma once

#include "trial.hpp"

namespace dlblas::battery {

inline constexpr uid_t kAttacker = 65533;
inline constexpr int kMine = 1, kPoison = 66;

/// Runs `body` in a child process as this user; returns its code, or -1 if it crashed or hung.
inline int as_user(uid_t user, const std::function<int()>& body) {
  const int status = wait_for(spawn([&] {
    if (::geteuid() == 0 && (::setgid(user) != 0 || ::setuid(user) != 0)) return 100;
    return body();
  }));
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// A victim's store of one subject, and what the victim reads after the attack.
class Victim {
 public:
  Victim(Trial& trial, const Subject& subject) : trial_(trial), subject_(subject) {
    ::chown(scratch_.path().c_str(), kNobody, kNobody);
    if (as_user(kNobody, [&] { return !subject.keep(root(), kMine, 3); }) != 0)
      trial.stopped("making the store");
  }
  std::string root() const { return scratch_.root(); }
  const std::string& parent() const { return scratch_.path(); }
  const Subject& subject() const { return subject_; }
  std::string folder() const { return subject_.folders(root()).back(); }
  std::string poison_file() const { return subject_.file(root(), kPoison); }
  std::string poison() const { return subject_.bytes(kPoison, 3); }
  void give(const std::string& path, uid_t owner) const {
    if (::lchown(path.c_str(), owner, owner) != 0 && ::geteuid() == 0)
      trial_.stopped("giving " + path);
  }
  /// A complete store of the attacker's, with poison inside, beside the victim's. Everyone may read
  /// it and only the attacker may write: only the owner gives it away.
  std::string attackers_store() const {
    const std::string at = parent() + "/theirs";
    subject_.keep(at, kPoison, 3);
    std::error_code none;
    give(at, kAttacker);
    for (const auto& entry : fs::recursive_directory_iterator(at, none)) {
      give(entry.path().string(), kAttacker);
      ::chmod(entry.path().c_str(), entry.is_directory() ? 0755 : 0644);
    }
    ::chmod(at.c_str(), 0755);
    return at;
  }
  /// The victim reads: never the poison, and its own record unless the attack hides the store
  /// (`hidden`).
  void look(const std::string& what, bool hidden = false) {
    trial_.tried();
    const int code = as_user(kNobody, [&] {
      return 4 * static_cast<int>(subject_.look(root(), kMine, 3)) +
             static_cast<int>(subject_.look(root(), kPoison, 3));
    });
    if (code < 0 || code >= 12) return trial_.stopped(what);
    if (code % 4 != static_cast<int>(Seen::kAbsent)) trial_.wrong(what);
    if (code / 4 == static_cast<int>(Seen::kWrong)) trial_.wrong("own, " + what);
    if (!hidden && code / 4 == static_cast<int>(Seen::kAbsent)) trial_.lost("own, " + what);
  }
  /// The victim stores one more.
  void go_on(const std::string& what) {
    if (as_user(kNobody, [&] { return !subject_.keep(root(), 5, 3); }) != 0) trial_.stopped(what);
  }

 private:
  Trial& trial_;
  const Subject& subject_;
  Scratch scratch_;
};

/// Runs the same attack on results and on cubins.
inline void on_both(Trial& t, const std::function<void(Victim&)>& body) {
  for (const Subject* s : {&kResults, &kCubins}) {
    Victim victim(t, *s);
    body(victim);
  }
}

}  // namespace dlblas::battery
