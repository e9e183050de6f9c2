"""What `make docs` is made of: see ../make_docs.py."""
