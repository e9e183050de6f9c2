"""Schema letters of matrix products; an operator's own file lists those that differ there.

Pure data: no imports, nothing computed.
"""

# Letter of the schemas -> what it counts.
LETTERS: dict[str, str] = {
    "M": "rows of the product",
    "N": "columns of the product",
    "K": "terms of each dot product",
    "B": "matrices in the batch",
    "E": "groups (experts)",
    "L": "adapters",
    "R": "rank of an adapter",
    "C": "columns of x",
}
