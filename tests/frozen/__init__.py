"""What the library answered before its modules were moved; see README.md."""
