// Reasons name a tensor as the schema does: every operator and implementation is queried about
// calls that it refuses, on CPUs and on GPUs that need not be present. Read next:
// core/implementation.hpp (Support).
#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <vector>

#include "registry/registry.hpp"
#include "tools/compile_all/problems.hpp"

namespace dlblas {
namespace {

/// Each tensor in each layout and with the worst alignment it may have, given and absent; sizes of
/// 0, of 1 and of billions.
std::vector<Problem> odd_problems(const Operator& op) {
  const Schema& schema = op.schema;
  std::vector<Problem> made;
  for (int t = 0; t < kNumDTypes; ++t) {
    const auto dtype = static_cast<DType>(t);
    if (!(schema.tensors.front().dtypes & set_of(dtype))) continue;
    Problem plain = compile_all::plain_problem(op, dtype);
    std::fill_n(plain.dims, schema.letters.size(), 256);
    for (const bool given : {false, true}) {
      for (std::size_t i = 0; given && i < schema.tensors.size(); ++i)
        plain.tensors[i] = {compile_all::dtype_of(schema, schema.tensors[i], dtype, false),
                            Layout::kContiguous, 4, 0};
      for (std::size_t i = 0; i < schema.tensors.size(); ++i)
        for (int layout = 0; layout <= static_cast<int>(Layout::kOther); ++layout)
          for (const std::uint8_t align_log2 : {0, 1, 4}) {
            Problem p = plain;
            if (p.tensors[i].dtype == DType::kAbsent) continue;
            p.tensors[i].layout = static_cast<Layout>(layout);
            p.tensors[i].align_log2 = align_log2;
            made.push_back(p);
          }
    }
    for (std::size_t letter = 0; letter < schema.letters.size(); ++letter)
      for (const std::int64_t size : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 33}) {
        Problem p = plain;
        p.dims[letter] = size;
        made.push_back(p);
      }
  }
  return made;
}

/// True if it says "tensor 2", or leaves a placeholder open.
bool is_raw(const std::string& reason) {
  if (reason.find("{}") != std::string::npos) return true;
  for (std::size_t at = 0; (at = reason.find("tensor ", at)) != std::string::npos; ++at)
    if (std::isdigit(static_cast<unsigned char>(reason[at + 7]))) return true;
  return reason.empty();
}

TEST(Reasons, NameTensorsAsTheSchemaDoes) {
  DeviceInfo baseline = cpu_info();
  baseline.isa = Isa::kBaseline;
  int refusals = 0;
  for (const Operator* op : Registry::process().operators())
    for (const Problem& odd : odd_problems(*op))
      for (const Implementation* impl : op->candidates())
        for (const DeviceInfo& device : {cpu_info(), baseline, typical_cuda_device(80),
                                         typical_cuda_device(89), typical_cuda_device(90)}) {
          if (device.device.type != impl->backend) continue;
          Problem p = odd;
          p.device_type = impl->backend;
          p.threads = impl->backend == DeviceType::kCpu ? 1 : 0;
          const Query q{p, device, *impl};
          for (const Support& s :
               {impl->supports(q), impl->same_bits ? impl->same_bits(q) : Support::yes()}) {
            if (s) continue;
            ++refusals;
            EXPECT_FALSE(is_raw(s.text(op->schema)))
                << op->schema.name << "." << impl->name << ": " << s.text(op->schema);
          }
        }
  EXPECT_GT(refusals, 1000);
}

TEST(Reasons, TheTensorIsTheOneThatWasRefused) {
  const Operator& op = *Registry::process().at("matmul").op;
  const DeviceInfo device = typical_cuda_device(90);
  Problem p = compile_all::plain_problem(op, DType::kBF16);
  p.dims[0] = p.dims[1] = p.dims[2] = 4096;
  p.tensors[1].layout = Layout::kOther;
  const Query q{p, device, *op.find("cuda_mma")};
  EXPECT_EQ(q.self.supports(q).text(op.schema), "b is contiguous in neither dimension");
  p.tensors[1] = {DType::kBF16, Layout::kContiguous, 2, 0};
  EXPECT_EQ(q.self.supports(q).text(op.schema), "rows of b are aligned to 4 bytes; 16 are needed");
}

TEST(Reasons, PartsComeInOrder) {
  const Schema& schema = Registry::process().at("matmul").op->schema;
  const Support s = Support::no("{} and {} of {} {}", tensor(1), 7, tensor(0));
  EXPECT_EQ(s.text(schema), "b and 7 of a {}");
  EXPECT_EQ(s.text(), "a tensor and 7 of a tensor {}");
}

}  // namespace
}  // namespace dlblas
