"""Arguments that the norms with a weight share; each operator's own words stand in its room.

Pure data: no imports, nothing computed. Read next: ops/norm/rms_norm/rms_norm.py.
"""

# Argument -> what it is, in which unit; one name means one thing in all of the family.
ARGUMENTS: dict[str, str] = {
    "x": "rows to normalise; of the gradients, what the forward call normalised",
    "weight": "a factor for each column; none: 1",
    "bias": "added to what the weight has multiplied",
    "eps": "added to the mean square: x's unit squared",
    "weight_offset": "added to every weight, in its unit",
    "cast_before_weight": "round to x's dtype before the weight is applied",
}
