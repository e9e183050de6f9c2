"""Schema letters of the losses.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "C": "classes: elements per row of logits",
}
