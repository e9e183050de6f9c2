// The library's log in Python: lines wait in a queue, and Python's logging gets them as soon as the
// interpreter runs its own code. In: lines from any thread, with locks held. Out: calls of
// python/dlblas/_log.py. Read next: core/log.hpp.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

/// (handler or None) -> None: who is told (level, line); None: standard error again.
Object* set_log(Object*, Object* const* args, Size, Object*);
/// Tells what waits; with the interpreter's lock. A Ctrl-C meanwhile is kept.
void tell_log();

}  // namespace dlblas::py
