// The parts of an implementation (core/nested.hpp): what serves each, whether anything does, and
// their handles for the kernel. Everything is cold except the call of a handle. Flow: call >
// validate > [select] > [compile] > launch.  Read next: dispatch/nested.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// A part and the plan that its own selection chose, owned by the whole that requested it.
struct DecidedPart {
  const Form* form;
  std::unique_ptr<Plan> plan;
};

/// The decision for each part, in order; empty if there are no parts. Throws a typed Error that
/// names the offending part: it is no operator, its arguments are wrong, nothing serves it, or it
/// depends on the whole itself.
std::vector<DecidedPart> decide_parts(const Query& q, const Config& config);

/// Yes, or which part of the default configuration cannot be served and why.
Support parts_support(const Query& q);

/// The parts with their kernels, whose workspace begins `offset` bytes into the whole's; `*most` is
/// the largest workspace that one needs there; `*capturable` becomes false if one is not
/// capturable.
std::vector<std::unique_ptr<const Nested>> prepare_parts(const Query& q, const Config& config,
                                                         void* stream, std::size_t offset,
                                                         std::size_t* most, bool* capturable);

}  // namespace dlblas
