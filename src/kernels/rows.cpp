// The operands of a row program out of its operator's schema, and the arguments of one call.
// Read next: kernels/rows_cuda.cpp, kernels/rows_cpu.cpp.
#include "kernels/rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/error.hpp"
#include "kernels/row_operator.hpp"
#include "registry/registry.hpp"

namespace dlblas::kernels {
namespace {

static_assert(static_cast<int>(DType::kF32) == static_cast<int>(FloatType::kF32) &&
              static_cast<int>(DType::kBF16) == static_cast<int>(FloatType::kBF16) &&
              static_cast<int>(DType::kF8E4M3) == static_cast<int>(FloatType::kF8E4M3) &&
              static_cast<int>(DType::kI8) == static_cast<int>(FloatType::kI8));

[[noreturn]] void bad(const Schema& schema, const char* what, std::string_view got) {
  throw Error(ErrorKind::kArgument,
              text(schema.name, ": row program's ", what,
                   " is unknown; expected one of the schema, got ", got),
              {.op = schema.name, .argument = what, .got = std::string(got)});
}

const RowProgramEntry& find_program(const Schema& schema, std::string_view name) {
  for (int i = 0; i < kNumRowPrograms; ++i)
    if (kRowPrograms[i].name == name) return kRowPrograms[i];
  bad(schema, "program", name);
}

int find_letter(const Schema& schema, std::string_view name) {
  for (std::size_t i = 0; i < schema.letters.size(); ++i)
    if (schema.letters[i].name == name) return static_cast<int>(i);
  bad(schema, "letter", name);
}

int find_tensor(const Schema& schema, std::string_view name) {
  for (std::size_t i = 0; i < schema.tensors.size(); ++i)
    if (schema.tensors[i].name == name) return static_cast<int>(i);
  bad(schema, "tensor", name);
}

RowRole role_of(const TensorSpec& spec, int width) {
  const DimExpr& last = spec.dims.back();
  if (!spec.has_leading())
    return spec.dims.size() == 1 && last.plain_letter() == width ? RowRole::kColumns
                                                                 : RowRole::kTable;
  if (spec.dims.size() == 1 || (last.is_constant() && last.addend == 1)) return RowRole::kValue;
  const bool of_width = last.num_terms == 1 && last.terms[0].letter == width &&
                        last.terms[0].times < 0 && last.addend == 0;
  if (spec.dims.size() != 2 || !of_width) return RowRole::kTable;
  return last.divisor > 1 || last.divisor_letter >= 0 ? RowRole::kGroup : RowRole::kRow;
}

/// Text that lives as long as the process.
const char* keep(const std::string& words) {
  auto* kept = new std::string(words);
  return kept->c_str();
}

}  // namespace

const RowOperator& make_row_operator(const OperatorDef& def, const RowOp& op) {
  const Schema schema = parse_schema(def.schema);
  auto* made = new RowOperator{op, &find_program(schema, op.program), {}, 0, 0, -1};
  made->width = find_letter(schema, op.width);
  if (!op.group.empty()) made->group = find_letter(schema, op.group);
  if (op.operands.size() > kMaxRowOperands) bad(schema, "operands", op.operands[kMaxRowOperands]);
  for (const std::string_view name : op.operands) {
    const int at = find_tensor(schema, name);
    const TensorSpec& spec = schema.tensors[static_cast<std::size_t>(at)];
    const RowRole role = role_of(spec, made->width);
    if (role == RowRole::kRow) made->rows = spec.dims.front().plain_letter();
    made->operands.push_back(
        {at, role, at >= schema.num_inputs || spec.written, keep(spec.name),
         keep(text("the last dimension of ", spec.name, " is not contiguous")),
         keep(text("the rows of ", spec.name, " overlap or are not contiguous"))});
  }
  return *made;
}

void fill_call(const RowOperator& op, const Args& args, RowCall& call, RowNest* nest) {
  call.rows = args.letters[op.rows];
  call.width = static_cast<std::int32_t>(args.letters[op.width]);
  call.tiles = 1;
  call.group = group_of(op, args.letters);
  for (RowUnpack& unpack : call.unpack) unpack = {16, 0xffff0000u};
  if (nest) nest->rank = 0;
  // Leading dimensions, innermost first; one joins the one inside where all operands allow it.
  std::int64_t sizes[RowNest::kMaxRank], strides[kMaxRowOperands][RowNest::kMaxRank] = {};
  int rank = 0;
  const TensorView* leader = nullptr;
  for (const RowOperandSpec& spec : op.operands)
    if (spec.role == RowRole::kRow && given(args, spec)) leader = &args.tensors[spec.tensor];
  const auto has_rows = [&](const RowOperandSpec& spec) {
    return given(args, spec) && spec.role != RowRole::kColumns && spec.role != RowRole::kTable;
  };
  for (int d = leader->rank - 2; d >= 0; --d) {
    const std::int64_t size = leader->shape[d];
    if (size == 1) continue;
    bool joins = rank > 0;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (!has_rows(op.operands[i])) continue;
      const std::int64_t stride = args.tensors[op.operands[i].tensor].strides[d];
      joins = joins && stride == strides[i][rank - 1] * sizes[rank - 1];
    }
    if (joins) {
      sizes[rank - 1] *= size;
      continue;
    }
    sizes[rank] = size;
    for (std::size_t i = 0; i < op.operands.size(); ++i)
      if (has_rows(op.operands[i]))
        strides[i][rank] = args.tensors[op.operands[i].tensor].strides[d];
    ++rank;
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const RowOperandSpec& spec = op.operands[i];
    if (!given(args, spec)) {
      call.operands[i] = {};
      continue;
    }
    const TensorView& t = args.tensors[spec.tensor];
    const int last = t.rank - 1;
    const bool single = spec.role == RowRole::kValue || t.rank == 0 || t.shape[last] <= 1;
    call.operands[i] = {t.data, rank > 0 ? strides[i][0] : 0, single ? 1 : t.strides[last]};
  }
  if (nest) {
    nest->rank = rank;
    for (int d = 0; d < rank; ++d) nest->sizes[d] = static_cast<std::uint32_t>(sizes[d]);
    std::memcpy(nest->strides, strides, sizeof strides);
  }
  if (op.op.fill) op.op.fill(args, call);
}

std::int32_t group_of(const RowOperator& op, const std::int64_t* letters) {
  if (op.group < 0) return 0;
  const std::int64_t width = std::max<std::int64_t>(1, letters[op.width]);
  std::int64_t group = std::min(letters[op.group], std::int64_t{1} << 30);
  if (group > width && !std::has_single_bit(static_cast<std::uint64_t>(group))) group = width;
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, group));
}

double bytes_of(const RowOperator& op, const Problem& problem) {
  const Schema& schema = Registry::process().by_id(problem.op).schema;
  double bytes = 0;
  for (const RowOperandSpec& spec : op.operands) {
    if (problem.tensors[spec.tensor].dtype == DType::kAbsent) continue;
    double elements = 1;
    for (const DimExpr& dim : schema.tensors[static_cast<std::size_t>(spec.tensor)].dims)
      elements *= static_cast<double>(dim.evaluate(problem.dims));
    bytes += elements * size_of(problem.tensors[spec.tensor].dtype);
  }
  return bytes;
}

void add_row_implementations(OperatorDef& def, const RowOp& op) {
  const RowOperator& made = make_row_operator(def, op);
  for (const Implementation& impl : row_cpu_implementations(made))
    def.implementations.push_back(impl);
  for (const Implementation& impl : row_cuda_implementations(made))
    def.implementations.push_back(impl);
}

}  // namespace dlblas::kernels
