// Every operator of the contracts, built or not (tests/schemas.txt): its schema parses and prints
// as written, its calls validate with and without optional tensors, and the tuner can make inputs
// that satisfy it.
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/cpp/schema_dummy.hpp"
#include "tuner/filler.hpp"
#include "tuner/inputs.hpp"

namespace dlblas::test {
namespace {

struct Block {
  std::string schema;
  std::vector<std::string> inplace;
  std::map<std::string, std::int64_t> sizes;
};

// Sizes of letters; tests/schema_checks.py has the same.
std::map<std::string, std::int64_t> usual_sizes() {
  return {{"T", 6},  {"C", 48},  {"F", 16},  {"B", 2},    {"S", 3},      {"L", 4},
          {"H", 4},  {"Hkv", 2}, {"D", 8},   {"Dv", 8},   {"K", 64},     {"N", 16},
          {"M", 6},  {"E", 4},   {"G", 4},   {"W", 3},    {"R", 8},      {"V", 32},
          {"Np", 2}, {"k", 2},   {"P", 12},  {"topk", 2}, {"group", 16}, {"group_size", 16},
          {"U", 9},  {"I", 5},   {"page", 4}};
}

std::vector<Block> read_blocks() {
  std::ifstream file(std::filesystem::path(__FILE__).parent_path().parent_path() / "schemas.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == ' ')
      lines.back() += line;
    else
      lines.push_back(line);
  }
  std::vector<Block> blocks;
  for (const std::string& line : lines) {
    if (line.starts_with("in place: ")) {
      blocks.back().inplace.push_back(line.substr(10));
    } else if (line.starts_with("sizes: ")) {
      std::istringstream words(line.substr(7));
      for (std::string word; words >> word;)
        blocks.back().sizes[word.substr(0, word.find('='))] =
            std::stoll(word.substr(word.find('=') + 1));
    } else {
      blocks.push_back({line, {}, usual_sizes()});
    }
  }
  return blocks;
}

struct Example {
  std::string op;
  Problem problem;
};

// A call on tensors without memory: optional ones present or absent.
Problem example(const Operator& op, const Block& block, bool optional, Args* bound) {
  const Schema& s = op.schema;
  std::int64_t letters[kMaxLetters] = {};
  for (std::size_t i = 0; i < s.letters.size(); ++i) {
    const auto known = block.sizes.find(s.letters[i].name);
    letters[i] = known == block.sizes.end() ? 3 : known->second;
  }
  std::vector<DType> dtypes(s.tensors.size());
  Call call(op.forms[0]);
  for (const Param& p : s.params) {
    if (!p.is_tensor) {
      const ScalarSpec& scalar = s.scalars[p.index];
      if (scalar.letter >= 0)
        call.integer(letters[scalar.letter]);
      else if (scalar.has_default)
        call.none();
      else if (scalar.type == ScalarType::kDType)
        call.word(name_of(static_cast<DType>(std::countr_zero(scalar.dtypes + 0u))).data());
      else
        call.integer(1);
      continue;
    }
    const TensorSpec& t = s.tensors[p.index];
    const bool like = t.like >= 0 && (optional || !s.tensors[t.like].optional);
    const auto fixed = static_cast<DType>(std::countr_zero(t.dtypes + 0u));
    dtypes[p.index] = like ? dtypes[t.like] : fixed;
    if (t.optional && !optional) {
      call.none();
      continue;
    }
    Array array{{}, {}, dtypes[p.index]};
    for (const DimExpr& d : t.dims) array.shape.push_back(d.evaluate(letters));
    call.tensor(array);
  }
  const Problem problem = call.problem();
  *bound = call.args;
  return problem;
}

// Values of index-valued inputs stay inside the range of their fill; shapes match the letters.
void expect_inputs(const Operator& op, const Problem& problem) {
  HostMemory memory{Context{}};
  const CallData data(op, problem, 7, nullptr, memory);
  EXPECT_TRUE(data.guards_intact()) << op.schema.text;
  const auto sizes = op.schema.sizes_of(problem);
  for (std::size_t i = 0; i < op.schema.tensors.size(); ++i) {
    if (!data.args().has(static_cast<int>(i))) continue;
    const TensorSpec& spec = op.schema.tensors[i];
    const TensorView& t = data.args().tensors[i];
    ASSERT_EQ(t.rank, static_cast<int>(spec.dims.size())) << op.schema.text;
    for (int k = 0; k < t.rank; ++k)
      EXPECT_EQ(t.shape[k], spec.dims[static_cast<std::size_t>(k)].evaluate(sizes.data()))
          << op.schema.text;
  }
}

TEST(Schemas, ParsePrintValidateAndGetInputs) {
  const std::vector<Block> blocks = read_blocks();
  EXPECT_GE(blocks.size(), 90u);
  for (const Block& block : blocks) {
    SCOPED_TRACE(block.schema);
    const Operator* op = nullptr;
    ASSERT_NO_THROW(op = &register_schema(block.schema, block.inplace));
    for (const TensorSpec& t : op->schema.tensors)
      EXPECT_NE(t.type_text.find(op->schema.print_dims(t)), std::string::npos) << t.type_text;
    for (const bool optional : {true, false}) {
      Args args;
      Problem problem;
      ASSERT_NO_THROW(problem = example(*op, block, optional, &args));
      for (std::size_t i = 0; i < op->schema.letters.size(); ++i) {
        const auto known = block.sizes.find(op->schema.letters[i].name);
        if (args.letters[i] == 0) continue;  // only absent tensors bear it
        EXPECT_EQ(args.letters[i], known == block.sizes.end() ? 3 : known->second)
            << op->schema.letters[i].name;
      }
      EXPECT_FALSE(print_problem(*op, problem).empty());
      expect_inputs(*op, problem);
    }
  }
}

}  // namespace
}  // namespace dlblas::test
