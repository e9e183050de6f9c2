// The wording of every argument error, in one cold place; the stage that detects an error calls its
// function. Grammar: "<op>: <argument> <problem>; expected <x>, got <y>; <what to do>". Golden
// tests pin the texts. Each function throws the typed Error. Read next: dispatch/errors.cpp.
#pragma once

#include <string_view>

#include "core/tensor.hpp"
#include "dlblas/dlblas.h"
#include "registry/registry.hpp"

namespace dlblas::errors {

// call
[[noreturn]] void bad_rank(const Form& form, std::string_view name, const dlblas_tensor& from);
[[noreturn]] void unknown_dtype(const Form& form, std::string_view name, int code, int bits);
[[noreturn]] void negative_size(const Form& form, std::string_view name, std::int64_t size);
[[noreturn]] void too_large(const Form& form, std::string_view name);
/// The strides reach beyond any memory.
[[noreturn]] void too_far(const Form& form, std::string_view name);
[[noreturn]] void bad_device(const Form& form, std::string_view name, const dlblas_device& got);
[[noreturn]] void bad_scalar(const Form& form, const ScalarSpec& spec, const dlblas_value& got);
[[noreturn]] void not_a_tensor(const Form& form, const TensorSpec& spec, const dlblas_value& got);
[[noreturn]] void unknown_argument(const Form& form, std::string_view name);
[[noreturn]] void too_many_arguments(const Form& form, int given);
[[noreturn]] void wrong_outputs(const Form& form, int expected, int given);
[[noreturn]] void given_twice(const Form& form, const Param& param);
[[noreturn]] void missing_argument(const Form& form, const Param& param);

// validate; `tensor` is an index into Schema::tensors
[[noreturn]] void wrong_dtype(const Schema& schema, const Args& args, int tensor);
[[noreturn]] void wrong_rank(const Schema& schema, const Args& args, int tensor);
/// Dimension `axis` (of the schema's list) does not match the letters.
[[noreturn]] void wrong_size(const Schema& schema, const Args& args, int tensor, int axis,
                             std::uint32_t bound);
/// The letters give dimension `axis` of a result no size, or one too large for any memory.
[[noreturn]] void no_size(const Schema& schema, const Args& args, int tensor, int axis,
                          std::uint32_t bound);
[[noreturn]] void wrong_leading(const Schema& schema, const Args& args, int tensor, int like);
/// The leading dimensions `*T` multiply to `product`, and T has another size already.
[[noreturn]] void wrong_product(const Schema& schema, const Args& args, int tensor,
                                std::int64_t product, std::uint32_t bound);
[[noreturn]] void wrong_device(const Schema& schema, const Args& args, int tensor, int like);
[[noreturn]] void no_device(const Schema& schema, const Args& args, int tensor);
[[noreturn]] void self_overlap(const Schema& schema, const Args& args, int tensor);
[[noreturn]] void overlap(const Schema& schema, const Args& args, int result, int other);
[[noreturn]] void unbound_letter(const Schema& schema, const Args& args, int tensor, int letter);

// compile
/// The stream is being captured into a graph, and the kernel of this implementation is not loaded.
[[noreturn]] void cold_under_capture(const std::string& op, const std::string& implementation);

// launch
[[noreturn]] void no_data(const Schema& schema, const Args& args, int tensor);
/// Element `at` of an input that addresses memory is outside `least` … `most`; `least` is the
/// smallest integer where negative values are allowed.
[[noreturn]] void out_of_bounds(const Schema& schema, const Args& args, int tensor, std::int64_t at,
                                std::int64_t value, std::int64_t least, std::int64_t most);

/// The memory that new_output gave for result r does not match `asked`.
[[noreturn]] void other_memory(const Schema& schema, const Args& args, int r,
                               const TensorView& asked);
[[noreturn]] void no_memory(const Schema& schema, const Args& args, int r);
[[noreturn]] void no_workspace(const Schema& schema, const Args& args, std::size_t bytes);

// select
[[noreturn]] void nothing_fits(const std::string& op, const std::string& table);

}  // namespace dlblas::errors
