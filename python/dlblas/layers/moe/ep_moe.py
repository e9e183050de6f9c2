"""``dlblas.layers.moe.ep_moe`` of DLBlas (``build_deepep_moe``, ``rebalance_experts``): not in this
version; the ImportError names the nearest function."""

from ... import _absent

__getattr__ = _absent.whole(__name__)
