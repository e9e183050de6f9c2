// The operands of a row program, derived from its operator's schema, and the arguments of one call.
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

bool is_index(const TensorSpec& spec) {
  const DTypeSet indices = set_of(DType::kI32) | set_of(DType::kI64);
  return spec.dtypes != 0 && (spec.dtypes & ~indices) == 0 && spec.dims.size() == 1;
}

/// [P, …] with the letter of RowOp::period.
bool is_periodic(const TensorSpec& spec, const RowOperator& op) {
  return op.period >= 0 && spec.dims.size() == 2 && spec.dims.front().plain == op.period;
}

RowRole role_of(const TensorSpec& spec, const RowOperator& op, std::uint32_t indexed) {
  if (spec.dims.empty()) return RowRole::kScalar;
  const int width = op.width, first = spec.dims.front().plain;
  if (is_index(spec)) return RowRole::kIndex;
  if (first >= 0 && (indexed >> first & 1u) && spec.dims.size() > 1) return RowRole::kGathered;
  if (op.op.heads && spec.dims.size() == 3 && first == op.rows) return RowRole::kHeads;
  const DimExpr& last = spec.dims.back();
  if (is_periodic(spec, op))
    return last.divisor > 1 || last.divisor_letter >= 0 ? RowRole::kGroup : RowRole::kRow;
  if (!op.op.heads && spec.dims.size() == 3 && last.num_terms == 1 &&
      last.terms[0].letter == width && last.addend == 0)
    return RowRole::kLayers;
  if (op.op.heads && !spec.has_leading() && first != op.rows && spec.dims.size() <= 2)
    return spec.dims.size() == 1 ? RowRole::kColumns : RowRole::kHeadColumns;
  if (!spec.has_leading() && first != op.rows)
    return spec.dims.size() == 1 && last.plain == width ? RowRole::kColumns : RowRole::kTable;
  if (spec.dims.size() == 1 || (last.is_constant() && last.addend == 1)) return RowRole::kValue;
  const bool of_width = last.num_terms == 1 && last.terms[0].letter == width &&
                        last.terms[0].times < 0 && last.addend == 0;
  if (spec.dims.size() != 2 || !of_width) return RowRole::kTable;
  return last.divisor > 1 || last.divisor_letter >= 0 ? RowRole::kGroup : RowRole::kRow;
}

/// The letter of `*T`.
int leading_letter(const Schema& schema) {
  for (const TensorSpec& spec : schema.tensors)
    if (spec.has_leading()) return spec.dims.front().plain;
  bad(schema, "rows", "no leading dimensions");
}

/// True if no column of a row needs another one.
bool may_cut(const RowOperator& op) {
  if (op.op.reduces || op.op.reduces_groups || op.op.selects || op.op.heads || op.folded != 0 ||
      !op.indices.empty())
    return false;
  return std::all_of(op.operands.begin(), op.operands.end(), [](const RowOperandSpec& spec) {
    return spec.role == RowRole::kColumns || spec.role == RowRole::kGroup ||
           spec.role == RowRole::kValue || spec.role == RowRole::kScalar ||
           (spec.role == RowRole::kRow && spec.times == 1);
  });
}

/// Text that lives as long as the process.
const char* keep(const std::string& words) {
  auto* kept = new std::string(words);
  return kept->c_str();
}

}  // namespace

const RowOperator& make_row_operator(const OperatorDef& def, const RowOp& op) {
  const Schema schema = parse_schema(def.schema);
  auto* made = new RowOperator{.op = op, .program = &find_program(schema, op.program)};
  made->width = find_letter(schema, op.width);
  made->rows = op.rows.empty() ? leading_letter(schema) : find_letter(schema, op.rows);
  if (!op.group.empty()) made->group = find_letter(schema, op.group);
  if (!op.period.empty()) made->period = find_letter(schema, op.period);
  // `q|k`: the second operands come after all the others. `|k`: it takes the first one's place.
  std::vector<std::string_view> names, seconds;
  for (const std::string_view name : op.operands) {
    const std::size_t bar = name.find('|');
    names.push_back(bar == 0 ? name.substr(1) : name.substr(0, bar));
    seconds.push_back(bar == 0 || bar == name.npos ? std::string_view() : name.substr(bar + 1));
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i)
    if (!seconds[i].empty()) names.push_back(seconds[i]);
  for (const std::string_view name : op.kept)
    if (std::find(names.begin(), names.end(), name) == names.end())
      bad(schema, "kept operand", name);
  if (names.size() > kMaxRowOperands) bad(schema, "operands", names[kMaxRowOperands]);
  std::uint32_t indexed = 0;  // letters that an index tensor's elements are below
  std::vector<std::uint32_t> below;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int tensor = find_tensor(schema, names[i]);
    const TensorSpec& spec = schema.tensors[static_cast<std::size_t>(tensor)];
    if (!is_index(spec)) continue;
    if (below.size() == kMaxRowIndices) bad(schema, "indices", names[i]);
    const bool any =
        std::find(op.any_number.begin(), op.any_number.end(), names[i]) != op.any_number.end();
    if (!any) made->leaves_out |= 1u << below.size();
    below.push_back(spec.fill.size.letters);
    indexed |= below.back();
    made->indices.push_back(static_cast<int>(i));
  }
  int next = static_cast<int>(op.operands.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const int at = find_tensor(schema, names[i]);
    const TensorSpec& spec = schema.tensors[static_cast<std::size_t>(at)];
    RowOperandSpec made_of = {
        at,
        role_of(spec, *made, indexed),
        at >= schema.num_inputs || spec.written,
        keep(spec.name),
        keep(text("the last dimension of ", spec.name, " is not contiguous")),
        keep(text("the rows of ", spec.name, " overlap or are not contiguous"))};
    if (made_of.role == RowRole::kTable && at >= schema.num_inputs && spec.has_leading() &&
        spec.dims.size() == 2)
      made_of.role = RowRole::kPlaces;
    if (i < seconds.size() && !seconds[i].empty()) made_of.second = next++;
    made_of.second_only = i < op.operands.size() && op.operands[i].front() == '|';
    if (made_of.role == RowRole::kGathered)
      while (
          !(below[static_cast<std::size_t>(made_of.gathered_by)] >> spec.dims.front().plain & 1u))
        ++made_of.gathered_by;
    if (made_of.role == RowRole::kRow || made_of.role == RowRole::kLayers)
      made_of.times = spec.dims.back().terms[0].coefficient;
    made_of.paged = made_of.role == RowRole::kGathered && spec.dims.size() > 2;
    if (made_of.paged) made->page = spec.dims[1].plain;
    made_of.headed = made_of.role == RowRole::kHeads || made_of.role == RowRole::kHeadColumns ||
                     (made_of.role == RowRole::kGathered && spec.dims.size() > 3);
    if (made_of.role == RowRole::kHeads) made->heads[i >= seconds.size()] = spec.dims[1].plain;
    made_of.periodic = is_periodic(spec, *made);
    if (at >= schema.num_inputs && (made_of.periodic || made_of.role == RowRole::kColumns)) {
      made->folded |= 1u << i;
      made->folds_groups |= made_of.role == RowRole::kGroup;
      made_of.role = RowRole::kColumns;
    }
    const bool named = std::find(op.kept.begin(), op.kept.end(), names[i]) != op.kept.end();
    if (op.kept.empty() ? made_of.is_row() && !made_of.written : named) made->kept |= 1u << i;
    made->operands.push_back(made_of);
  }
  made->cuts = may_cut(*made);
  made->parts = made->folded == 0 && made->period < 0;
  for (const RowOperandSpec& of : made->operands) {
    const TensorSpec& spec = schema.tensors[static_cast<std::size_t>(of.tensor)];
    const bool by_row =
        spec.has_leading() || (!spec.dims.empty() && spec.dims.front().plain == made->rows);
    if (of.role == RowRole::kTable && by_row) made->parts = false;
  }
  return *made;
}

bool in_place(const RowOperator& op, const Problem& problem) {
  for (const RowOperandSpec& spec : op.operands)
    if (problem.tensors[spec.tensor].alias != 0) return true;
  return false;
}

bool all_in_place(const RowOperator& op, const Problem& problem) {
  const Schema& schema = Registry::process().by_id(problem.op).schema;
  bool all = schema.num_results > 0;
  for (const RowOperandSpec& spec : op.operands)
    all = all && (spec.tensor < schema.num_inputs || problem.tensors[spec.tensor].alias != 0);
  return all;
}

RowShape shape_of(const RowOperator& op, const Problem& problem) {
  RowShape shape;
  shape.indices = static_cast<std::int32_t>(op.indices.size());
  shape.leaves_out = op.leaves_out;
  for (std::size_t i = 0; i < op.indices.size(); ++i) {
    const int operand = op.indices[i];
    const DType dtype =
        problem.tensors[op.operands[static_cast<std::size_t>(operand)].tensor].dtype;
    const bool there = dtype != DType::kAbsent;
    shape.index[i] = static_cast<std::int8_t>(there ? operand : -1);
    if (there) shape.index_bytes[i] = static_cast<std::int8_t>(size_of(dtype));
  }
  if (op.page >= 0) shape.page = static_cast<std::int32_t>(problem.dims[op.page]);
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const RowOperandSpec& spec = op.operands[i];
    shape.second[i] = static_cast<std::int8_t>(spec.second);
    shape.headed |= static_cast<std::uint32_t>(spec.headed) << i;
    shape.gathered |= static_cast<std::uint32_t>(spec.role == RowRole::kGathered) << i;
    shape.paged |= static_cast<std::uint32_t>(spec.paged) << i;
    shape.gathered_by[i] = static_cast<std::int8_t>(spec.gathered_by);
    shape.second_only |= static_cast<std::uint32_t>(spec.second_only) << i;
  }
  if (op.op.span) shape.span = op.op.span(problem);
  shape.whole = op.op.crosses && op.op.crosses(problem) && in_place(op, problem);
  if (!op.op.heads) return shape;
  const RowHeads heads = op.op.heads(problem.dims, all_in_place(op, problem));
  // Empty tensors are never walked, but a kernel may be compiled for them.
  shape.head_width = static_cast<std::int32_t>(std::max<std::int64_t>(1, heads.width));
  shape.split = static_cast<std::int32_t>(heads.split);
  shape.shifts = static_cast<std::int32_t>(heads.shifts);
  for (int i = 0; i < 2; ++i)
    if (op.heads[i] >= 0) shape.heads[i] = static_cast<std::int32_t>(problem.dims[op.heads[i]]);
  return shape;
}

std::int64_t columns_of(const RowOperator& op, const Problem& problem) {
  if (!op.op.heads) {
    constexpr std::int64_t kAccess = 16;
    const std::int64_t width = problem.dims[op.width];
    if (!op.cuts || width <= kMaxRowWidth) return width;
    const std::int64_t ends = width | (op.group < 0 ? 0 : problem.dims[op.group]);
    return kMaxRowWidth - kAccess + (ends & (kAccess - 1));
  }
  const RowShape shape = shape_of(op, problem);
  return std::int64_t{shape.head_width} * (shape.heads[0] + shape.heads[1]);
}

void fill_call(const RowOperator& op, const RowShape& shape, const Args& args, RowCall& call,
               RowNest* nest) {
  call.rows = args.letters[op.rows];
  call.width = op.op.heads ? shape.head_width * (shape.heads[0] + shape.heads[1])
                           : static_cast<std::int32_t>(args.letters[op.width]);
  call.tiles = 1;
  call.group = group_of(op, args.letters);
  for (RowUnpack& unpack : call.unpack) unpack = {16, 0xffff0000u};
  if (nest) nest->rank = 0;
  // Leading dimensions, innermost first; one merges with the one inside it where all operands
  // allow.
  std::int64_t sizes[RowNest::kMaxRank], strides[kMaxRowOperands][RowNest::kMaxRank] = {};
  int rank = 0;
  const TensorView* leader = nullptr;
  int inner = 1;  // dimensions of a row
  for (const RowOperandSpec& spec : op.operands) {
    if (!(spec.is_row() || spec.role == RowRole::kHeads) || !given(args, spec)) continue;
    leader = &args.tensors[spec.tensor];
    inner = spec.role == RowRole::kHeads ? 2 : 1;
  }
  // `size` rows `step` rows of dimension d apart; `phases`: periodic operands have one for each.
  const auto add = [&](int d, std::int64_t size, std::int64_t step, bool phases) {
    std::int64_t mine[kMaxRowOperands] = {};
    bool joins = rank > 0;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      const RowOperandSpec& spec = op.operands[i];
      if (!given(args, spec) || !has_rows(spec.role)) continue;
      const std::int64_t* of = args.tensors[spec.tensor].strides;
      mine[i] = !spec.periodic ? of[d] * step : phases ? of[0] : 0;
      joins = joins && mine[i] == strides[i][rank - 1] * sizes[rank - 1];
    }
    if (joins) {
      sizes[rank - 1] *= size;
      return;
    }
    for (std::size_t i = 0; i < op.operands.size(); ++i) strides[i][rank] = mine[i];
    sizes[rank++] = size;
  };
  std::int64_t period = period_of(op, args.letters);
  for (int d = leader->rank - inner - 1; d >= 0; --d) {
    const std::int64_t size = leader->shape[d], phases = std::min(period, size);
    if (size == 1) continue;
    if (phases > 1) add(d, phases, 1, true);
    if (const std::int64_t others = (size + phases - 1) / std::max<std::int64_t>(1, phases);
        others > 1 || phases == 1)
      add(d, others, phases, false);
    period = 1;
  }
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const RowOperandSpec& spec = op.operands[i];
    if (!given(args, spec)) {
      call.operands[i] = {};
      continue;
    }
    const TensorView& t = args.tensors[spec.tensor];
    const int last = t.rank - 1;
    const bool single = spec.role == RowRole::kValue || spec.role == RowRole::kIndex ||
                        t.rank == 0 || t.shape[last] <= 1;
    const bool inside = spec.has_inner() || (spec.periodic && spec.written);
    call.operands[i] = {t.data, rank > 0 ? strides[i][0] : 0, single ? 1 : t.strides[last],
                        inside ? t.strides[last - 1] : 0, spec.paged ? t.strides[0] : 0};
    if (spec.role == RowRole::kGathered) call.operands[i].row = t.strides[spec.paged ? 1 : 0];
  }
  if (nest) {
    nest->rank = rank;
    for (int d = 0; d < rank; ++d) nest->sizes[d] = static_cast<std::uint32_t>(sizes[d]);
    std::memcpy(nest->strides, strides, sizeof strides);
  }
  if (op.op.fill) op.op.fill(args, call);
}

std::int64_t period_of(const RowOperator& op, const std::int64_t* letters) {
  return op.period < 0 ? 1 : std::max<std::int64_t>(1, letters[op.period]);
}

std::int64_t fold_width(const RowOperator& op, const RowCall& call) {
  if (!op.folds_groups || call.group == 0) return call.width;
  return (call.width + call.group - 1) / call.group;
}

std::int32_t group_of(const RowOperator& op, const std::int64_t* letters) {
  if (op.op.heads && op.op.reduces_groups)
    return static_cast<std::int32_t>(std::max<std::int64_t>(1, op.op.heads(letters, false).width));
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
    // A gathered operand counts one row per row of the call.
    const std::size_t begin = spec.role == RowRole::kGathered ? spec.paged ? 2 : 1 : 0;
    const std::vector<DimExpr>& dims = schema.tensors[static_cast<std::size_t>(spec.tensor)].dims;
    double elements = begin > 0 ? static_cast<double>(problem.dims[op.rows]) : 1;
    for (std::size_t i = begin; i < dims.size(); ++i) {
      const bool smaller = (problem.ones[spec.tensor] >> i & 1u) != 0;
      elements *= static_cast<double>(smaller ? dims[i].smaller(problem.dims)
                                              : dims[i].evaluate(problem.dims));
    }
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
