// Who owns the memory that a call has lent to an implementation: for functions of languages whose
// views outlive the call, as Python's do. In: lenders, nested as the calls of a thread are. Out: on
// demand what keeps their memory. Read next: bindings/python/views.cpp (who asks).
#pragma once

#include <memory>
#include <vector>

namespace dlblas {

/// Stands on the stack around a launch, on the thread that launches.
class Lender {
 public:
  Lender(const Lender&) = delete;
  Lender& operator=(const Lender&) = delete;

  /// What keeps the memory of all lenders of this thread, however long. False: the arguments of the
  /// outermost call are not ours (its caller may free them: a C program), or one cannot keep them.
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
  /// `owns_arguments`: a call's tensors are this one's, or kept by it; else a workspace alone.
  explicit Lender(bool owns_arguments) : outer_(t_innermost), owns_arguments_(owns_arguments) {
    t_innermost = this;
  }
  ~Lender() { t_innermost = outer_; }

 private:
  /// Asked during the call. Null: it cannot.
  virtual std::shared_ptr<const void> hold() = 0;

  static inline thread_local constinit Lender* t_innermost = nullptr;
  Lender* const outer_;
  const bool owns_arguments_;
};

}  // namespace dlblas
