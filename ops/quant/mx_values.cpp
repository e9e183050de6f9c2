// Converts microscaling formats back to floats: the parts of a definition, and the CPU form, which
// looks codes up in tables. In: Problem; Args. Out: Kernel; y. Flow: call > validate > [select] >
// compile > [launch]. Read next: mx_values_ref.hpp (how exactly), mx_values_cuda.cpp.
#include "ops/quant/mx_values.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/element.hpp"
#include "core/rates.hpp"
#include "core/source_hash.hpp"
#include "ops/quant/mx_values_ref.hpp"
#include "registry/registry.hpp"

namespace dlblas::quant {
namespace {

using Codes = std::array<float, 256>;

Codes f8_codes(DType type) {
  Codes all;
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = f8_to_f32(type, static_cast<std::uint8_t>(i));
  return all;
}
const Codes& codes_of(DType type) {
  static const Codes e4m3 = f8_codes(DType::kF8E4M3), e8m0 = f8_codes(DType::kF8E8M0);
  return type == DType::kF8E4M3 ? e4m3 : e8m0;
}
const std::array<float, 16>& f4_codes() {
  static const auto all = [] {
    std::array<float, 16> made;
    for (int i = 0; i < 16; ++i)
      made[static_cast<std::size_t>(i)] = static_cast<float>(f4_value_of(i));
    return made;
  }();
  return all;
}

/// Stores f32 values into a row of y.
void store_row(const TensorView& y, std::int64_t first, const std::vector<float>& from) {
  const std::int64_t step = y.shape[y.rank - 1] > 1 ? y.strides[y.rank - 1] : 1;
  auto* to = static_cast<char*>(y.data) + first * size_of(y.dtype);
  const auto each = [&](auto convert) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto v = convert(from[i]);
      std::memcpy(to + static_cast<std::int64_t>(i * sizeof v) * step, &v, sizeof v);
    }
  };
  if (y.dtype == DType::kF32)
    each([](float v) { return v; });
  else if (y.dtype == DType::kF16)
    each(f32_to_f16);
  else
    each(f32_to_bf16);
}

struct State {
  const MxValuesOp* op;
};

int run(const Args& args, const Context& context, const Kernel& kernel, void*) {
  const MxValuesOp& op = *kernel.load<State>().op;
  const TensorView &q = args.tensors[kValuesQ], &scale = args.tensors[kValuesScale],
                   &y = args.tensors[op.y];
  const Rows q_rows = rows_of(q), scale_rows = rows_of(scale), y_rows = rows_of(y);
  const std::int64_t codes = args.letters[kValuesK], group = op.group / op.per_code;
  if (codes == 0) return 0;
  const auto last = [](const TensorView& t) {
    return t.shape[t.rank - 1] > 1 ? t.strides[t.rank - 1] : 1;
  };
  const std::int64_t q_step = last(q), scale_step = last(scale);
  const float whole =
      op.global < 0 ? 1 : static_cast<float>(load_element(args.tensors[op.global], 0));
  const Codes &scales = codes_of(scale.dtype), &bytes = codes_of(DType::kF8E4M3);
  const std::array<float, 16>& halves = f4_codes();
  context.run(0, args.letters[kValuesT], std::max<std::int64_t>(1, 65536 / codes),
              [&](std::int64_t begin, std::int64_t end) {
                std::vector<float> row(static_cast<std::size_t>(codes * op.per_code));
                for (std::int64_t t = begin; t < end; ++t) {
                  const auto* from = static_cast<const std::uint8_t*>(q.data) + q_rows.offset(t);
                  const auto* steps =
                      static_cast<const std::uint8_t*>(scale.data) + scale_rows.offset(t);
                  float* to = row.data();
                  for (std::int64_t c = 0, at = 0; c < codes; c += group, ++at) {
                    const float step = scales[steps[at * scale_step]];
                    const std::int64_t stop = std::min(codes, c + group);
                    for (std::int64_t i = c; i < stop; ++i) {
                      const std::uint8_t code = from[i * q_step];
                      if (op.per_code == 1) {
                        *to++ = bytes[code] * step * whole;
                      } else {
                        *to++ = halves[code & 15u] * step * whole;
                        *to++ = halves[code >> 4u] * step * whole;
                      }
                    }
                  }
                  store_row(y, y_rows.offset(t), row);
                }
              });
  return 0;
}

Kernel prepare(const Query& q, const Config&) {
  return make_kernel({run}, State{&q.user<MxValuesOp>()});
}

double estimate(const Query& q, const Config&) {
  const double elements =
      static_cast<double>(q.problem.dims[kValuesT]) * static_cast<double>(q.problem.dims[kValuesK]);
  const double units = std::max<double>(1, q.problem.threads);
  return 1e3 * launch_s(q.device) +
         unit_rates(q.device, Isa::kBaseline)
             .roofline_ms(units, 8 * elements, elements * 64, DType::kF32);
}

}  // namespace

OperatorDef mx_values(std::string_view schema, std::string_view formula, const MxValuesOp& op) {
  OperatorDef def;
  def.family = "quant";
  def.schema = schema;
  def.formula = formula;
  def.bound = [](const Problem& problem, int) {
    const Operator& self = Registry::process().by_id(problem.op);
    const FloatTraits out = float_traits(problem.tensors[self.schema.num_inputs].dtype);
    return Bound{.value = out.eps / 2, .absolute = out.tiny};
  };
  def.work_per_row = [](const Problem& problem) {
    return 4.0 * static_cast<double>(problem.dims[kValuesK]);
  };
  Implementation cpu;
  cpu.name = "cpu_codes";
  cpu.source_hash = source_hash<"ops/quant/mx_values.cpp">();
  cpu.flags = {.deterministic = true};
  cpu.user = &op;
  cpu.supports = [](const Query&) { return Support::yes(); };
  cpu.estimate = estimate;
  cpu.prepare = prepare;
  def.implementations = {cpu, mx_values_cuda(op)};
  return def;
}

}  // namespace dlblas::quant
