"""How close an adjuster comes to optimal transport and to error-parity, where A is discrete."""
