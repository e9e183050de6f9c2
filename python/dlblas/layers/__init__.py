"""DLBlas's layers: experts on several GPUs, which are not in this version (moe/ep_moe.py)."""
