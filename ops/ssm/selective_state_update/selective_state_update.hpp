// What the parts of selective_state_update share. Read next: selective_state_update.cpp.
#pragma once

#include <vector>

#include "ops/ssm/selective_state_update/selective_state_update_ref.hpp"
#include "registry/operator.hpp"

namespace dlblas::ssm::update {

std::vector<Implementation> cpu();
Implementation cuda();

}  // namespace dlblas::ssm::update
