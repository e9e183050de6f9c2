"""``dlblas.triton_ops.api``: everything that ``kernels`` exports, in one place.

Read next: kernels/.
"""

from .. import _absent
from .kernels import *  # noqa: F403
from .kernels import __all__ as __all__

__getattr__ = _absent.some(__name__)
