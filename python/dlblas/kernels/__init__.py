"""The names of DLBlas: thin calls of the operators, with its argument orders."""
