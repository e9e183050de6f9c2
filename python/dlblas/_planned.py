"""Planned operators of the contracts, and what to use until they exist.

Pure data: name -> nearest equivalent. The row of an operator that exists by now has no effect. Used
by: _absent.py.
"""

NEAREST = {
    "all_reduce": "torch.distributed.all_reduce, then dlblas.add_rms_norm",
}
