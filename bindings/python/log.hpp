// Delivers the library's log to Python: lines wait in a queue, and Python's logging receives them
// as soon as the interpreter runs its own code. In: lines from any thread, with locks held. Out:
// calls of python/dlblas/_log.py. Read next: core/log.hpp.
#pragma once

#include "bindings/python/cpython.hpp"

namespace dlblas::py {

/// (handler or None) -> None: sets the handler of (level, line); None: standard error again.
Object* set_log(Object*, Object* const* args, Size, Object*);
/// Delivers the queued lines; needs the interpreter's lock. A Ctrl-C meanwhile is not lost.
void tell_log();

}  // namespace dlblas::py
