"""What tests must know of gated_delta_rule_packed. Read next: tests/rooms.py."""

from batch_parts import sequences

TESTS = {
    "gated_delta_rule_packed": {
        # The sizes of its terms cancel, and the error that old tokens' roundings leave in a state
        # is bounded as a vector's length, of which q may pick up less.
        "hidden": {"f32": 12},
        # Keys that are not normalised multiply a state's error by beta |k|² per token, so after a
        # few tokens no digit of it is right in f32.
        "scalars": {"qk_l2norm": True},
        "parts": sequences("S", T="cu_seqlens"),
    },
}
