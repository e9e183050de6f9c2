// Row programs beyond what the operators' cases reach: groups, one-byte results, column vectors and
// row values, on the CPU walker against f64 loops; the same program compiled for GPUs; reasons and
// default configurations on the host side. Read next: tests/device/row_quantize_program.hpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "core/error.hpp"
#include "cpu/row/walk_rows.hpp"
#include "jit/jit.hpp"
#include "registry/registry.hpp"
#include "tests/cpp/source_tree.hpp"
#include "tests/device/row_quantize_program.hpp"

namespace dlblas {
namespace {

using test::RowQuantize;

/// E4M3 decoded by the format's table, for the expected values.
double e4m3(std::uint8_t byte) {
  const int exponent = byte >> 3 & 15, fraction = byte & 7;
  const double size =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return byte & 0x80 ? -size : size;
}

struct Quantized {
  std::vector<std::uint8_t> q;
  std::vector<float> scale, peak;
};

/// Runs rows [tokens, heads, width] with the outer and inner strides of x.
Quantized run(const std::vector<float>& x, const std::vector<float>& weight, DType type, int tokens,
              int heads, int width, std::int64_t outer, std::int64_t inner) {
  const int rows = tokens * heads, groups = (width + 127) / 128;
  Quantized out{std::vector<std::uint8_t>(static_cast<std::size_t>(rows * width)),
                std::vector<float>(static_cast<std::size_t>(rows * groups)),
                std::vector<float>(static_cast<std::size_t>(rows))};
  RowJob job{};
  job.call.rows = rows, job.call.width = width, job.call.tiles = 1, job.call.group = 128;
  job.call.f[0] = type == DType::kI8 ? 127 : 448;
  job.call.options[0] = !weight.empty();
  void* data[] = {const_cast<float*>(x.data()), const_cast<float*>(weight.data()), out.q.data(),
                  out.scale.data(), out.peak.data()};
  const DType types[] = {DType::kF32, DType::kF32, type, DType::kF32, DType::kF32};
  const std::int64_t pitch[] = {0, 0, width, groups, 1};
  job.call.nest.rank = 2;
  job.call.nest.sizes[0] = static_cast<std::uint32_t>(heads);
  job.call.nest.sizes[1] = static_cast<std::uint32_t>(tokens);
  for (int i = 0; i < 5; ++i) {
    job.call.operands[i] = {data[i], 0, 1};
    job.types[i] = types[i];
    job.call.nest.strides[i][0] = i == 0 ? inner : pitch[i];
    job.call.nest.strides[i][1] = i == 0 ? outer : pitch[i] * heads;
  }
  job.operands = 5, job.rows_of = 0b11101, job.written = 0b11100, job.tile = width;
  job.at_columns = weight.empty() ? 0b00101 : 0b00111;
  DLBLAS_ISA::walk_rows<RowQuantize>(job, 0, rows);
  return out;
}

class RowGroups : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Widths, RowGroups, testing::Values(1, 7, 128, 129, 256, 300, 1024));

TEST_P(RowGroups, AreQuantizedAsInF64) {
  const int width = GetParam(), tokens = 3, heads = 2, groups = (width + 127) / 128;
  const std::int64_t inner = width + 5, outer = 4 * inner;  // a slice of a wider projection
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(tokens * outer)),
      weight(static_cast<std::size_t>(width));
  for (float& v : x) v = normal(random);
  for (float& v : weight) v = normal(random);
  for (const DType type : {DType::kF8E4M3, DType::kI8}) {
    for (const bool weighted : {false, true}) {
      const Quantized got = run(x, weighted ? weight : std::vector<float>{}, type, tokens, heads,
                                width, outer, inner);
      for (int r = 0; r < tokens * heads; ++r) {
        const float* row = x.data() + r / heads * outer + r % heads * inner;
        float peak = 0;
        const auto value = [&](int c) {
          return weighted ? row[c] * weight[static_cast<std::size_t>(c)] : row[c];
        };
        for (int g = 0; g < groups; ++g) {
          const int end = std::min(width, (g + 1) * 128);
          float most = 0;
          for (int c = g * 128; c < end; ++c) most = std::max(most, std::abs(value(c)));
          peak = std::max(peak, most);
          const float scale = most / (type == DType::kI8 ? 127.0f : 448.0f);
          ASSERT_FLOAT_EQ(got.scale[static_cast<std::size_t>(r * groups + g)], scale);
          for (int c = g * 128; c < end; ++c) {
            const std::uint8_t byte = got.q[static_cast<std::size_t>(r * width + c)];
            const double q = type == DType::kI8 ? static_cast<std::int8_t>(byte) : e4m3(byte);
            const double want = static_cast<double>(value(c)) / scale;
            const double half =
                type == DType::kI8
                    ? 0.5
                    : std::exp2(std::max(-6.0, std::floor(std::log2(std::abs(want)))) - 4);
            ASSERT_NEAR(q, want, half * 1.0001) << "row " << r << " column " << c;
          }
        }
        ASSERT_EQ(got.peak[static_cast<std::size_t>(r)], peak);
      }
    }
  }
}

/// The program as a GPU kernel.
KernelSource kernel(const char* skeleton, DType type, const char* traits, const char* config) {
  return {"tests/device/row_quantize_program.hpp",
          text("dlblas::", skeleton, "<dlblas::test::RowQuantize, dlblas::RowTraits{.types = {",
               "dlblas::DType(2), dlblas::DType(2), dlblas::DType(", static_cast<int>(type),
               "), dlblas::DType(0), dlblas::DType(0)}, ", traits, "}, dlblas::RowConfig{", config,
               "}>"),
          0};
}

TEST(RowProgramsOnGpus, GroupsAndBytesCompileClean) {
  if (const std::string why = jit::unavailable(); !why.empty()) GTEST_SKIP() << why;
  const auto clean = [](const KernelSource& source, int arch) {
    const jit::Cubin& cubin = jit::compile(source, arch);
    EXPECT_EQ(cubin.spill_bytes, 0) << source.entry;
    EXPECT_TRUE(cubin.warnings.empty()) << source.entry << cubin.warnings.front();
  };
  for (const char* traits : {".n = 8, .full = true, .group = 128, .options = {1}",
                             ".n = 4, .nested = true, .group = 128"}) {
    clean(kernel("row_registers", DType::kI8, traits, ".threads = 128, .vectors = 4"), 80);
    clean(kernel("row_registers", DType::kF8E4M3, traits, ".threads = 128, .vectors = 4"), 90);
  }
  clean(
      kernel("row_registers", DType::kF8E4M3, ".n = 8, .group = 128", ".vectors = 4, .cluster = 4"),
      90);
  clean(kernel("row_passes", DType::kF8E4M3, ".n = 8, .kept = 32, .group = 128",
               ".threads = 256, .vectors = 2"),
        90);
  clean(kernel("row_passes", DType::kF8E5M2,
               ".n = 1, .nested = true, .strided = true, .aligned = false, .group = 100",
               ".threads = 256, .vectors = 1, .keep = false, .early = false"),
        80);
}

Problem problem_of(const char* name, DType dtype, std::int64_t rows, std::int64_t width) {
  const Operator& op = *Registry::process().at(name).op;
  Problem p;
  p.op = op.id;
  p.device_type = DeviceType::kCuda;
  p.tensors[0] = p.tensors[1] = {dtype, Layout::kContiguous, 4, 0};
  p.dims[0] = rows, p.dims[1] = width;
  return p;
}

TEST(RowImplementations, ReasonsNameTheTensor) {
  Problem p = problem_of("softmax", DType::kBF16, 16, 128);
  const Operator& op = *Registry::process().at("softmax").op;
  const Implementation& impl = *op.find("cuda_registers");
  const DeviceInfo device = typical_cuda_device(90);
  const Query q{p, device, impl};
  EXPECT_TRUE(impl.supports(q));
  p.tensors[0].layout = Layout::kRowsOuter;  // a slice of a fused projection
  EXPECT_TRUE(impl.supports(q));
  p.tensors[0].layout = Layout::kTransposed;
  EXPECT_EQ(impl.supports(q).text(op.schema), "the last dimension of x is not contiguous");
  p.tensors[0].layout = Layout::kContiguous, p.tensors[1].layout = Layout::kBroadcast;
  EXPECT_EQ(impl.supports(q).text(op.schema), "the rows of y overlap or are not contiguous");
}

TEST(RowImplementations, DefaultsLieInTheirSpaces) {
  for (const char* name : {"softmax", "silu_and_mul"}) {
    for (const int arch : {80, 86, 90}) {
      const DeviceInfo device = typical_cuda_device(arch);
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        for (const std::int64_t width : {1, 3, 64, 100, 127, 4095, 4096, 11264, 65536, 4194304}) {
          for (const std::int64_t rows : {1, 128, 16384}) {
            const Problem p = problem_of(name, dtype, rows, width);
            int served = 0;
            for (const Implementation* impl : Registry::process().at(name).op->candidates()) {
              if (impl->backend != DeviceType::kCuda || impl->min_arch > arch) continue;
              const Query q{p, device, *impl};
              if (!impl->supports(q)) continue;
              ++served;
              if (!impl->knobs) continue;
              const Config config = default_config(q);
              EXPECT_TRUE(make_space(q).contains(config))
                  << name << " " << impl->name << " " << rows << "×" << width << ": "
                  << impl->table().print(config);
            }
            EXPECT_GE(served, 2) << name << " " << rows << "×" << width;
          }
        }
      }
    }
  }
}

/// rope of q [T, heads, D] and k [T, 8, D], of which `turned` channels rotate.
Problem heads_of(std::int64_t tokens, std::int64_t heads, std::int64_t d, std::int64_t turned) {
  const Operator& op = *Registry::process().at("rope").op;
  Problem p;
  p.op = op.id;
  p.device_type = DeviceType::kCuda;
  for (std::size_t i = 0; i < op.schema.tensors.size(); ++i)
    p.tensors[i] = {DType::kBF16, Layout::kContiguous, 4, 0};
  p.tensors[2].dtype = DType::kI64;
  const std::int64_t sizes[] = {tokens, heads, turned / 2, d - turned, 8, 0};
  std::copy(std::begin(sizes), std::end(sizes), p.dims);
  return p;
}

TEST(RowImplementations, HeadsShareWhatATokenHas) {
  const Implementation& impl = *Registry::process().at("rope").op->find("cuda_registers");
  const DeviceInfo device = typical_cuda_device(90);
  Problem p = heads_of(16384, 32, 128, 128);
  const std::string plain = impl.table().print(default_config({p, device, impl}));
  // 160 threads hold 20 heads at a time: a thread's two accesses use one row of the table.
  EXPECT_NE(plain.find("threads=160 vectors=2 rows=1"), std::string::npos) << plain;
  // q and k, and their results, as slices of a projection: the same kernel.
  const std::string entry =
      impl.sources({p, device, impl}, default_config({p, device, impl}))[0].entry;
  EXPECT_NE(entry.find(".heads = {32, 8}"), std::string::npos) << entry;
  for (const int i : {0, 1, 4, 5}) p.tensors[i].layout = Layout::kRowsOuter;
  EXPECT_EQ(impl.sources({p, device, impl}, default_config({p, device, impl}))[0].entry, entry);
  // Tokens that no stride joins: a thread locates its row in each tensor.
  EXPECT_NE(entry.find(".nested = false"), std::string::npos) << entry;
  p.tensors[0].layout = Layout::kTokensOuter;
  ASSERT_TRUE(impl.supports({p, device, impl}));
  const std::string apart =
      impl.sources({p, device, impl}, default_config({p, device, impl}))[0].entry;
  EXPECT_NE(apart.find(".nested = true"), std::string::npos) << apart;
  EXPECT_EQ(impl.table().print(default_config({p, device, impl})), plain);
  // Channels that do not rotate are walked too, except in place.
  p = heads_of(64, 4, 96, 64);
  const auto width = [&] {
    const std::string text =
        impl.sources({p, device, impl}, default_config({p, device, impl}))[0].entry;
    return text.substr(text.find(".head_width"), 16);
  };
  EXPECT_EQ(width(), ".head_width = 64");
  p.tensors[4].alias = 1, p.tensors[5].alias = 2;
  EXPECT_EQ(width(), ".head_width = 32");
}

TEST(RowImplementations, DefaultsOfHeadsLieInTheirSpaces) {
  for (const int arch : {80, 90}) {
    const DeviceInfo device = typical_cuda_device(arch);
    for (const std::int64_t heads : {0, 1, 3, 32, 128}) {
      for (const std::int64_t d : {1, 2, 65, 80, 128, 256}) {
        const Problem p = heads_of(128, heads, d, d / 4 * 2);
        const Implementation& impl = *Registry::process().at("rope").op->find("cuda_registers");
        ASSERT_TRUE(impl.supports({p, device, impl})) << heads << " heads of " << d;
        EXPECT_TRUE(make_space({p, device, impl}).contains(default_config({p, device, impl})));
      }
    }
  }
}

}  // namespace
}  // namespace dlblas
