// A Problem as fields of text that another process reads back: the content of a file of missed
// keys. The fields are those of the store's key, except for the machine's model: `device` is "cpu"
// or "cuda:0", `threads` the CPU's. Flow: [missed] > file > [read] > tune.  Read next:
// dispatch/key.cpp.
#pragma once

#include "dispatch/dispatch.hpp"

namespace dlblas {

/// op, schema, dims, tensors, scalars, flags, device, threads.
Fields problem_fields(const Operator& op, const Problem& problem);

/// The inverse, for fields from outside: each is checked like a call's arguments. Throws
/// Error(kUnknownOperator), Error(kArgument) that names the field, and whatever validate throws.
Problem read_problem(const Fields& fields, const Operator** op);

}  // namespace dlblas
