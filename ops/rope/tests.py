"""What tests must know of rotations. Read next: tests/rooms.py."""

# Values have at most as many channels as heads, which the check asks for.
NARROW = {"at_most": {"Dv": "Dn"}}

TESTS = {
    "partial_rotary_heads": NARROW,
    "partial_rotary_heads_backward": NARROW,
    # With all inputs positive, a rotation computes |x1| cos - |x2| sin; the size of its terms is
    # its result for -sin.
    "partial_rotary_heads_sum": {"negated": "sin"},
    "rms_norm_rope": {"largest": {"H": 16384}},
    # A place in the table is looked up before anything is written.
    "rope": {"bounded": ("positions",)},
    "qk_norm_rope": {"bounded": ("positions",)},
    "mrope_heads": {"bounded": ("time",)},
}
