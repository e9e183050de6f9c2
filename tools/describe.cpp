// Writes, for the operators' pages, what only the implementations' own functions know: from which
// arch an implementation runs, which headers its kernels are in, a default configuration, and each
// reason for which it refuses.
// In: nothing; Problems are made from the schemas and devices are typical ones, so that every
// machine reports the same about a GPU. Out: JSON on stdout: for each operator its in-place forms
// and, by name, its implementations. Read next: tools/compile_all/problems.hpp,
// tools/website/operators.py.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/json.hpp"
#include "dispatch/dispatch.hpp"
#include "tools/compile_all/problems.hpp"

namespace dlblas::describe {
namespace {

using compile_all::problems_of;

// oneDNN answers by creating a primitive, 0.2 ms each; so at most this many problems per operator.
constexpr std::size_t kMaxProblems = 1500;

/// The most common calls: one token, a few, thousands, each with thousands of elements.
void add_usual_ones(const Operator& op, std::vector<Problem>& problems) {
  const DTypeSet dtypes = op.schema.tensors.front().dtypes;
  const bool short_ones = dtypes & set_of(DType::kBF16);
  Problem plain =
      compile_all::plain_problem(op, short_ones ? DType::kBF16 : compile_all::first_of(dtypes));
  std::fill_n(plain.dims, op.schema.letters.size(), 4096);
  for (const std::int64_t first : {1, 16, 4096}) {
    plain.dims[0] = first;
    problems.push_back(plain);
  }
}

/// Calls that problems_of leaves out, at one size: tensors in odd layouts, and empty ones.
void add_odd_ones(const Operator& op, std::vector<Problem>& problems) {
  const Schema& schema = op.schema;
  Problem plain = compile_all::plain_problem(op, compile_all::first_of(schema.tensors[0].dtypes));
  std::fill_n(plain.dims, schema.letters.size(), 128);
  for (std::size_t i = 0; i < schema.tensors.size(); ++i) {
    const DType dtype = compile_all::dtype_of(schema, schema.tensors[i], plain.tensors[0].dtype,
                                              false);  // an optional tensor is given here
    for (const Layout layout :
         {Layout::kRowsOuter, Layout::kTransposed, Layout::kBroadcast, Layout::kOther}) {
      Problem odd = plain;
      odd.tensors[i] = {dtype, layout, 4, 0};
      problems.push_back(odd);
    }
  }
  for (std::size_t letter = 0; letter < schema.letters.size(); ++letter) {
    Problem empty = plain;
    empty.dims[letter] = 0;
    problems.push_back(empty);
  }
}

std::vector<Problem> chosen_problems(const Operator& op) {
  const std::vector<Problem> all = problems_of(op);
  std::vector<Problem> chosen;
  add_usual_ones(op, chosen);
  const std::size_t step = all.size() / kMaxProblems + 1;
  for (std::size_t i = 0; i < all.size(); i += step) chosen.push_back(all[i]);
  add_odd_ones(op, chosen);
  return chosen;
}

std::vector<DeviceInfo> devices_of(const Implementation& impl) {
  if (impl.backend == DeviceType::kCuda)
    return {typical_cuda_device(std::max(impl.min_arch, 80)), typical_cuda_device(90)};
  DeviceInfo best = cpu_info(), least = cpu_info();
  best.isa = Isa::kAvx512, best.vnni = best.avx512_bf16 = best.amx = true;
  least.isa = Isa::kBaseline, least.vnni = least.avx512_bf16 = least.amx = false;
  return {best, least};
}

/// The text with its numbers blanked, so that one reason at two sizes counts once. Digits inside a
/// word (sm_90, f32) stay.
std::string shape_of(const std::string& reason) {
  std::string shape;
  for (const char ch : reason) {
    const bool digit = std::isdigit(static_cast<unsigned char>(ch));
    const bool in_word =
        !shape.empty() && (std::isalnum(static_cast<unsigned char>(shape.back())) ||
                           shape.back() == '_' || shape.back() == '-');
    if (!digit || in_word)
      shape += ch;
    else if (shape.empty() || shape.back() != '#')
      shape += '#';
  }
  return shape;
}

/// How far a problem is from the common case: 16 bits, and thousands of everything.
double oddness(const Operator& op, const Problem& problem) {
  double far = size_of(problem.tensors[0].dtype) == 2 ? 0 : 1;
  for (std::size_t i = 0; i < op.schema.letters.size(); ++i)
    far += std::abs(std::log2(static_cast<double>(problem.dims[i] + 1) / 4096));
  return far;
}

struct Facts {
  std::set<std::string> kernels;                // headers
  std::string problem, config;                  // of one call that it serves
  std::map<std::string, std::string> refusals;  // text → the first problem
};

Facts ask(const Operator& op, const Implementation& impl, const std::vector<Problem>& problems) {
  Facts facts;
  std::set<std::string> shapes;
  double least = HUGE_VAL;
  for (const DeviceInfo& device : devices_of(impl))
    for (Problem problem : problems) {
      problem.device_type = impl.backend;
      problem.threads = impl.backend == DeviceType::kCpu ? 1 : 0;
      const Query q{problem, device, impl};
      if (const Support s = impl.supports(q); !s) {
        const std::string reason = s.text(op.schema);
        if (shapes.insert(shape_of(reason)).second)
          facts.refusals[reason] = print_problem(op, problem);
        continue;
      }
      const Config config = default_config(q);
      if (const double far = oddness(op, problem); far < least) {
        least = far;
        facts.problem = print_problem(op, problem);
        facts.config = impl.table().print(config);
      }
      if (impl.sources)
        for (const KernelSource& source : impl.sources(q, config))
          facts.kernels.insert(source.include);
    }
  return facts;
}

void write(JsonWriter& json, const Implementation& impl, const Facts& facts) {
  json.key(impl.name).open_object();
  json.field("min_arch", impl.min_arch);
  json.key("kernels").open_array();
  for (const std::string& kernel : facts.kernels) json.value(kernel);
  json.close_array().field("problem", facts.problem).field("config", facts.config);
  json.key("refusals").open_array();
  for (const auto& [reason, problem] : facts.refusals)
    json.open_object().field("reason", reason).field("problem", problem).close_object();
  json.close_array().close_object();
}

}  // namespace
}  // namespace dlblas::describe

int main() {
  using namespace dlblas;
  try {
    JsonWriter json;
    json.open_object();
    for (const Operator* op : Registry::process().operators()) {
      const std::vector<Problem> problems = describe::chosen_problems(*op);
      json.key(op->schema.name).open_object().key("inplace").open_object();
      for (const InplaceForm& form : op->inplace_forms) json.field(form.name, form.text);
      json.close_object().key("implementations").open_object();
      for (const Implementation* impl : op->candidates())
        describe::write(json, *impl, describe::ask(*op, *impl, problems));
      json.close_object().close_object();
    }
    std::puts(json.close_object().text().c_str());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "dlblas_describe: %s\n", e.what());
    return 1;
  }
}
