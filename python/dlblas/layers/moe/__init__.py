"""DLBlas's expert layers: not in this version (ep_moe.py)."""
