// Owners of the memory that a call lends to an implementation: for languages whose views may
// outlive the call, such as Python. In: lenders, nested like the calls of a thread. Out: on demand,
// handles that keep their memory alive. Read next: bindings/python/views.cpp (the caller).
#pragma once

#include <memory>
#include <vector>

namespace dlblas {

/// Lives on the stack around a launch, on the launching thread.
class Lender {
 public:
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;

  /// Appends handles that keep the memory of all lenders of this thread alive for as long as they
  /// are held. False: the arguments of the outermost call are not ours (its caller, a C program,
  /// may free them), or a lender cannot keep its memory.
  static bool hold_all(std::vector<std::shared_ptr<const void>>& to) {
    bool whole = false;
    for (Lender* lender = t_innermost; lender; lender = lender->outer_) {
      std::shared_ptr<const void> held = lender->hold();
      if (!held) return false;
      to.push_back(std::move(held));
      whole = whole || lender->owns_arguments_;
    }
    return whole;
  }

 protected:
  /// `owns_arguments`: it owns or keeps a call's tensors; otherwise only a workspace.
  explicit Lender(bool owns_arguments) : outer_(t_innermost), owns_arguments_(owns_arguments) {
    t_innermost = this;
  }
  ~Lender() { t_innermost = outer_; }

 private:
  /// Called during the call. Null: the memory cannot be kept.
  virtual std::shared_ptr<const void> hold() = 0;

  static inline thread_local constinit Lender* t_innermost = nullptr;
  Lender* const outer_;
  const bool owns_arguments_;
};

}  // namespace dlblas
