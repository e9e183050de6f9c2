// More rows than one launch takes: parts of a call cover each row once, at its own place, whatever
// the leading dimensions and strides are. Read next: src/kernels/row_pieces.hpp.
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "kernels/row_pieces.hpp"
#include "kernels/rows_cuda_config.hpp"
#include "registry/registry.hpp"

namespace dlblas {
namespace {

const kernels::RowOperator& rows_of(const char* op) {
  const Implementation* impl = Registry::process().at(op).op->find("cuda_strided");
  return *static_cast<const kernels::RowKernel*>(impl->user)->op;
}

/// The bytes at which a call's rows begin, counted.
void count_rows(const TensorView& t, int leading, std::map<const char*, int>& found) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(leading), 0);
  for (;;) {
    std::int64_t offset = 0;
    for (int d = 0; d < leading; ++d) offset += at[static_cast<std::size_t>(d)] * t.strides[d];
    ++found[static_cast<const char*>(t.data) + offset * size_of(t.dtype)];
    int d = leading - 1;
    while (d >= 0 && ++at[static_cast<std::size_t>(d)] == t.shape[d])
      at[static_cast<std::size_t>(d--)] = 0;
    if (d < 0) return;
  }
}

TensorView view(char* data, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
  TensorView t{};
  t.data = data, t.dtype = DType::kF32, t.rank = static_cast<std::int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), t.shape);
  std::copy(strides.begin(), strides.end(), t.strides);
  return t;
}

TEST(RowPieces, CoverEachRowOnce) {
  const kernels::RowOperator& op = rows_of("softmax");
  ASSERT_TRUE(op.parts);
  std::vector<char> memory(1 << 16);
  const std::vector<std::int64_t> shapes[] = {{60, 8}, {1, 60, 8}, {3, 4, 5, 8}, {60, 1, 8}};
  for (const auto& shape : shapes)
    for (const std::int64_t most : {1, 4, 7, 20, 59, 60, 61}) {
      const int leading = static_cast<int>(shape.size()) - 1;
      std::vector<std::int64_t> strides(shape.size(),
                                        1);  // x: reversed order of leading dimensions
      std::int64_t next = 10;
      for (int d = 0; d < leading; ++d) {
        strides[static_cast<std::size_t>(d)] = next;
        next *= shape[static_cast<std::size_t>(d)];
      }
      Args args;
      args.schema = nullptr, args.present = 3;
      args.letters[op.rows] = 60, args.letters[op.width] = 8;
      args.tensors[0] = view(memory.data(), shape, strides);
      args.tensors[1] = args.tensors[0];
      args.tensors[1].data = memory.data() + 32768;
      std::map<const char*, int> wanted, found;
      for (int t : {0, 1}) count_rows(args.tensors[t], leading, wanted);
      std::int64_t rows = 0;
      const int code = kernels::for_rows(op, args, most, [&](const Args& part) {
        EXPECT_LE(part.letters[op.rows], most);
        EXPECT_EQ(part.letters[op.width], 8);
        rows += part.letters[op.rows];
        for (int t : {0, 1}) count_rows(part.tensors[t], leading, found);
        return 0;
      });
      EXPECT_EQ(code, 0);
      EXPECT_EQ(rows, 60);
      EXPECT_EQ(found, wanted) << most;
    }
}

TEST(RowPieces, StopAtTheFirstError) {
  const kernels::RowOperator& op = rows_of("gelu");
  std::vector<char> memory(4096);
  Args args;
  args.present = 3;
  args.letters[op.rows] = 9, args.letters[op.width] = 2;
  args.tensors[0] = args.tensors[1] = view(memory.data(), {9, 2}, {2, 1});
  int calls = 0;
  EXPECT_EQ(kernels::for_rows(op, args, 2, [&](const Args&) { return ++calls == 3 ? 7 : 0; }), 7);
  EXPECT_EQ(calls, 3);
}

TEST(RowPieces, SumsOverRowsStayWhole) {
  EXPECT_FALSE(rows_of("layer_norm_backward").parts);
  EXPECT_TRUE(rows_of("rope").parts);
  EXPECT_TRUE(rows_of("topk_softmax").parts);
}

}  // namespace
}  // namespace dlblas
