// Views may outlive calls: NumPy and torch count references, so an array that is kept, a slice of
// it or a frame that has one refers to the call's State. The last reference also releases the
// owners of the memory: the caller's arrays, the tuner's buffers. Nearly all calls have no views
// left when they return, and nothing is held. See views.hpp.  Read next: core/lender.hpp.
#include "bindings/python/views.hpp"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/c/context.hpp"
#include "core/lender.hpp"

namespace dlblas::py {

struct Views::State {
  std::atomic<int> references{1};
  std::vector<std::shared_ptr<const void>> memory;  // written by the call, while it has a reference
};

namespace {

constexpr char kToken[] = "dlblas.views";

void let_go(Object* token) {
  Views::drop(static_cast<Views::State*>(api.capsule_get(token, kToken)));
}

}  // namespace

Views::Views() : state_(new State) {}
Views::~Views() { drop(state_); }

Object* Views::make_token() const {
  Object* token = api.capsule_new(share(), kToken, let_go);
  if (!token) drop(state_);
  return token;
}

Views::State* Views::share() const {
  state_->references.fetch_add(1, std::memory_order_relaxed);
  return state_;
}

void Views::drop(State* state) {
  if (state->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete state;
}

bool Views::end() {
  if (state_->references.load(std::memory_order_acquire) == 1) return true;
  std::vector<std::shared_ptr<const void>> memory;
  if (!Lender::hold_all(memory)) return false;
  if (auto workspace = hold_workspace()) memory.push_back(std::move(workspace));
  state_->memory = std::move(memory);
  return true;
}

}  // namespace dlblas::py
