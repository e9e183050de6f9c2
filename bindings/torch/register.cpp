// Definitions and kernels, one per form; see register.hpp.
#include "bindings/torch/register.hpp"

#include <algorithm>
#include <initializer_list>
#include <mutex>
#include <set>

#include "bindings/torch/kernel.hpp"
#include "core/error.hpp"

namespace dlblas::torch {
namespace {

// The ABI version that the kernels are written for: torch converts a stack to it. Major, minor and
// patch occupy the three upper bytes.
constexpr std::uint64_t kTorchAbi = std::uint64_t{2} << 56 | std::uint64_t{10} << 48;
constexpr char kNamespace[] = "dlblas";

void check(int code, const std::string& name, const char* what) {
  if (code != 0)
    throw Error(ErrorKind::kInternal,
                text(name, ": torch refused to ", what, "; expected success, got its error (on ",
                     "the standard error stream); please report it"),
                {.op = name});
}

// Opened once and kept: closing a library would remove its definitions.
struct Libraries {
  Library* fragment = nullptr;
  Library* cpu = nullptr;
  Library* cuda = nullptr;
  Library* lazy[3] = {};
  Libraries() {
    check(shims.library_fragment(kNamespace, __FILE__, __LINE__, &fragment), kNamespace, "open");
    check(shims.library_kernels(kNamespace, "CPU", __FILE__, __LINE__, &cpu), kNamespace, "open");
    check(shims.library_kernels(kNamespace, "CUDA", __FILE__, __LINE__, &cuda), kNamespace, "open");
    const char* const keys[] = {"Negative", "Conjugate", "ZeroTensor"};
    for (int i = 0; i < 3; ++i)
      check(shims.library_kernels(kNamespace, keys[i], __FILE__, __LINE__, &lazy[i]), kNamespace,
            "open");
  }
};

void add_kernel(const Operation& op, std::initializer_list<Library*> keys) {
  const BoxedKernel kernel = bind_kernel(op);
  if (!kernel)
    throw Error(ErrorKind::kUnsupported,
                text(op.name, ": torch has no room left; expected at most ", kMaxKernels,
                     " kernels, got one more"),
                {.op = op.name});
  for (Library* key : keys)
    check(shims.library_kernel(key, op.name.c_str(), kernel, kTorchAbi), op.name,
          "register its kernel");
}

void define(const Operation& op) {
  static const auto* const libraries = new Libraries;
  check(shims.library_define(libraries->fragment, op.schema.c_str()), op.name, "define it");
  add_kernel(op, {libraries->cpu, libraries->cuda});
  if (!op.written) return;
  // torch resolves lazy arguments through a fallback. For operators that return nothing, the
  // fallback fails an assertion of torch's own and leaves a tensor with one reference too many
  // (2.10 … 2.15).
  auto* lazy = new Operation(op);
  lazy->lazy = true;
  add_kernel(*lazy, {libraries->lazy[0], libraries->lazy[1], libraries->lazy[2]});
}

}  // namespace

std::vector<const Operation*> register_operators(
    const std::vector<std::string_view>& differentiable) {
  static std::mutex mutex;
  static auto* const known = new std::set<const Form*>;
  static auto* const operations = new std::deque<Operation>;  // stable addresses
  if (const std::string why = load_shims(); !why.empty())
    throw Error(ErrorKind::kUnsupported,
                text("dlblas: torch cannot be reached; expected torch 2.10 or later, got a process "
                     "where ",
                     why, "; update torch"));
  const std::lock_guard lock(mutex);
  std::vector<const Operation*> made;
  for (const Operator* op : Registry::process().operators())
    for (const Form& form : op->forms) {
      if (!known->insert(&form).second) continue;
      const bool with_private = std::find(differentiable.begin(), differentiable.end(),
                                          op->schema.name) != differentiable.end();
      for (Operation& operation : operations_of(form, with_private)) {
        operations->push_back(std::move(operation));
        define(operations->back());
        made.push_back(&operations->back());
      }
    }
  return made;
}

}  // namespace dlblas::torch
