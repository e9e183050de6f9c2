// Refuses a scale that values are divided by and that is 0 or below, where the host can read it.
// Used by the operators that take a scale of codes.
#pragma once

#include <cstring>

#include "core/error.hpp"
#include "core/schema.hpp"
#include "core/tensor.hpp"

namespace dlblas::quant {

/// `tensor`: f32 [], or absent. NaN and infinity go into the results.
inline void check_scale(const Args& args, int tensor) {
  const TensorView& t = args.tensors[tensor];
  if (!args.has(tensor) || t.device.type != DeviceType::kCpu || !t.data || t.numel() == 0) return;
  float scale;
  std::memcpy(&scale, t.data, sizeof scale);
  if (!(scale <= 0)) return;
  const std::string &op = args.schema->name, got = text(scale);
  const std::string& name = args.schema->tensors[static_cast<std::size_t>(tensor)].name;
  throw Error(ErrorKind::kArgument,
              text(op, ": ", name, " is not above 0; expected above 0, got ", got),
              {.op = op, .argument = name, .expected = "above 0", .got = got});
}

/// As OperatorDef::check of an operator with such scales.
template <int... kTensors>
void check_scales(const Args& args) {
  (check_scale(args, kTensors), ...);
}

}  // namespace dlblas::quant
