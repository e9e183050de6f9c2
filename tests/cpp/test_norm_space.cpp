// The defaults of the norm kernels on GPUs: always a configuration of the space, and one whose row
// fits in its registers. Compiles, without a GPU, what dlblas_compile_all reaches only with --all,
// or not at all. Read next: ops/norm/cuda/norm_cuda_config.hpp.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "jit/jit.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

struct Call {
  const char* op;
  DType dtype, weight;
  bool cast_before_weight;
};

Problem problem_of(const Call& call, std::int64_t width) {
  const Operator& op = *Registry::process().at(call.op).op;
  Problem p;
  p.op = op.id;
  p.device_type = DeviceType::kCuda;
  for (std::size_t i = 0; i < op.schema.tensors.size(); ++i) {
    const TensorSpec& spec = op.schema.tensors[i];
    const DType dtype = spec.name == "weight" ? call.weight
                        : spec.optional       ? DType::kAbsent
                                              : call.dtype;
    p.tensors[i] = {dtype, Layout::kContiguous, 4, 0};
  }
  for (const ScalarSpec& spec : op.schema.scalars)
    if (spec.key) p.scalars[spec.key_slot] = call.cast_before_weight;
  p.dims[0] = 1024, p.dims[1] = width;
  return p;
}

void expect_default_holds(const char* name, const Call& call, std::int64_t width, int arch) {
  const Problem p = problem_of(call, width);
  const Implementation& impl = *Registry::process().at(call.op).op->find(name);
  const DeviceInfo device = typical_cuda_device(arch);
  const Query q{p, device, impl};
  const Config config = default_config(q);
  const std::string where =
      text(call.op, ".", name, " of ", width, ", sm_", arch, ": ", impl.table().print(config));
  EXPECT_TRUE(impl.supports(q)) << where;
  EXPECT_EQ(make_space(q).broken_constraint(config), "") << where;
  for (const KernelSource& source : impl.sources(q, config))
    EXPECT_EQ(jit::compile(source, arch).spill_bytes, 0) << where << "\n" << source.entry;
}

class NormSpace : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  }
};

// One block, and clusters of two blocks of 512 and of 1,024 threads.
TEST_F(NormSpace, DefaultsInTwoPassesHoldWhatIsInFlight) {
  for (const char* op : {"rms_norm", "add_rms_norm"})
    for (const DType dtype : {DType::kF16, DType::kBF16})
      for (const bool cast : {false, true})
        for (const std::int64_t width : {4096, 60000, 65536})
          expect_default_holds("cuda_shared", {op, dtype, dtype, cast}, width, 90);
  for (const int arch : {80, 90})
    expect_default_holds("cuda_rows", {"rms_norm", DType::kBF16, DType::kF32, true}, 65536, arch);
}

// A full row of four accesses per thread, the most that one block holds.
TEST_F(NormSpace, DefaultsOfTheGradientHoldARoundedRow) {
  for (const int arch : {80, 90})
    for (const DType dtype : {DType::kF16, DType::kBF16})
      expect_default_holds("cuda_registers", {"rms_norm_backward", dtype, dtype, true}, 16384,
                           arch);
}

// Rows of odd length, element by element.
TEST_F(NormSpace, DefaultsOfTheGradientByColumnsHoldTheirSums) {
  for (const int arch : {80, 90})
    expect_default_holds("cuda_columns", {"rms_norm_backward", DType::kF32, DType::kF32, false},
                         1001, arch);
}

}  // namespace
}  // namespace dlblas
