"""Schema letters of matrix products; an operator's own file lists those that differ there.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "M": "rows of the product",
    "N": "columns of the product",
    "K": "terms of each sum of products",
    "B": "matrices of the batch",
    "E": "groups: experts",
    "L": "adapters",
    "R": "an adapter's rank",
    "C": "columns of x",
}
