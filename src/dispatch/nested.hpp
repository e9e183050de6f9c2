// The parts of an implementation (core/nested.hpp): what serves each, whether something does, and
// their handles for the kernel. All of it is cold but for the call of a handle. Flow: call >
// validate > [select] > [compile] > launch.  Read next: dispatch/nested.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// A part and its own selection's choice, which belongs to the whole that asked.
struct DecidedPart {
  const Form* form;
  std::unique_ptr<Plan> plan;
};

/// Of each part, in order; none where there are none. Throws a typed Error that names the part
/// which cannot be: it is no operator, its arguments are wrong, nothing serves it, or it is made of
/// the whole itself.
std::vector<DecidedPart> decide_parts(const Query& q, const Config& config);

/// Yes, or which part of the default configuration cannot be served and why.
Support parts_support(const Query& q);

/// The parts with their kernels, which find their workspace `offset` bytes into the whole's;
/// `*most` is what the hungriest needs there; `*capturable` turns false where one is not.
std::vector<std::unique_ptr<const Nested>> prepare_parts(const Query& q, const Config& config,
                                                         void* stream, std::size_t offset,
                                                         std::size_t* most, bool* capturable);

}  // namespace dlblas
