"""``dlblas.layers.moe.ep_moe`` of DLBlas (``build_deepep_moe``, ``rebalance_experts``): not in this
version; asking for it says what comes nearest."""

from ... import _absent

__getattr__ = _absent.whole(__name__)
