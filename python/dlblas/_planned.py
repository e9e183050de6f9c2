"""Operators of the contracts that are planned, and what to use until they are here.

Pure data: name -> what comes nearest. Where one exists by now, its row says nothing to anybody.
Used by: _absent.py.
"""

NEAREST = {
    "all_reduce": "torch.distributed.all_reduce, then dlblas.add_rms_norm",
}
