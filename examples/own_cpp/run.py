"""Loads own_norm.so and lets it compete. Build it first: see own_norm.cpp, or CMakeLists.txt."""

import sys

import dlblas
import numpy as np

dlblas.own.load(sys.argv[1] if len(sys.argv) > 1 else "own_norm.so")
x = np.random.default_rng(0).standard_normal((256, 1024)).astype(np.float32)
w = np.ones(1024, np.float32)
op = dlblas.get_op("rms_norm", (x, w), seconds=3)
print(op.explain())
with dlblas.pinned("rms_norm", "own_cpp"):
    print("verified" if dlblas.verify("rms_norm", (x, w), dlblas.rms_norm(x, w)).ok else "wrong")
