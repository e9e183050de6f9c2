"""The letters of matrix products; an operator says in its own file what counts otherwise there.

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
