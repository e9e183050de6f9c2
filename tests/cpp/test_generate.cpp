// The generator on schemas with every oddity of the grammar: its three outputs against the golden
// files beside this test. test_api.cpp compiles golden/odd_ops.hpp, so the output is also valid
// C++. After an intended change: DLBLAS_GOLDEN=write <this program>, then read the diff.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tools/generate/cpp.hpp"
#include "tools/generate/pages.hpp"
#include "tools/generate/python.hpp"

namespace dlblas {
namespace {

OperatorDef define(std::string_view schema, std::vector<std::string_view> inplace = {}) {
  OperatorDef def;
  def.family = "odd";
  def.schema = schema;
  def.inplace = std::move(inplace);
  def.formula = "y = f(x)";
  def.reference = [](const Args&, const std::int64_t*, std::int64_t, OracleOut*) {};
  def.bound = [](const Problem&, int) { return Bound{}; };
  def.work_per_row = [](const Problem&) { return 1.0; };
  return def;
}

// Two results, an optional tensor, enumerated labels that collide, `2F`, a dtype scalar,
// keyword-only arguments, an in-place form with fewer arguments; names that are keywords of C++; a
// required argument after an optional one; no tensor at all; a written input; a scalar result.
void add_odd_operators(Registry& registry) {
  registry.add(
      define("odd_two(x: f[*T, 2F], bias: like(x)|f32[F]?, mode: \"\"|\"1x128\"|\"a-b\"|\"a_b\" = "
             "\"1x128\", "
             "scale: float = 1e-6, *, steps: int = 3 key, flag: bool = true, out_dtype: "
             "dtype(f|f8) = none) -> "
             "(y: out_dtype|like(x)[*T, F], scale_out: f32[*T, F/128]) where T: bucket(tokens)",
             {"odd_two_(x!y, bias!scale_out, mode)"}));
  registry.add(define(
      "switch(default: i8[B+1]! ~offsets, options: index[B] ~index<B, k: int) -> default: f32[]"));
  registry.add(define(
      "odd_after(x: f[N]?, y: f[N], dt: dtype(f), mode: \"none\"|\"\") -> y: dt|like(y)[N]"));
  registry.add(define("odd_no_tensor(n: int, seed: int = -7) -> y: f32[4]"));
}

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(__FILE__).parent_path() / "golden" / name;
}

void expect_golden(const std::string& written, const std::string& name) {
  if (const char* mode = std::getenv("DLBLAS_GOLDEN"); mode && std::string(mode) == "write") {
    std::ofstream(golden(name), std::ios::binary) << written;
    return;
  }
  std::ifstream file(golden(name), std::ios::binary);
  EXPECT_EQ(written, std::string(std::istreambuf_iterator<char>(file), {})) << name;
}

TEST(Generate, WritesTheGoldenFiles) {
  Registry registry;
  add_odd_operators(registry);
  expect_golden(generate::CppWriter().write(registry), "odd_ops.hpp");
  expect_golden(generate::PythonWriter().write(registry), "odd_ops.pyi");
  expect_golden(generate::PageWriter().write(registry), "odd_operators.md");
}

TEST(Generate, IsTheSameTwice) {
  Registry a, b;
  add_odd_operators(a);
  add_odd_operators(b);
  EXPECT_EQ(generate::CppWriter().write(a), generate::CppWriter().write(b));
  EXPECT_EQ(generate::PageWriter().write(a), generate::PageWriter().write(b));
}

TEST(Generate, NumbersReadBackExactly) {
  for (double v : {1e-6, 0.0, 1.0, 0.1, 1.702, 1e300, -3.0}) {
    EXPECT_EQ(std::stod(generate::print_float(v)), v);
    EXPECT_NE(generate::print_float(v).find_first_of(".e"), std::string::npos) << v;
  }
}

}  // namespace
}  // namespace dlblas
