"""DLBlas's layers of experts: not in this version (ep_moe.py)."""
