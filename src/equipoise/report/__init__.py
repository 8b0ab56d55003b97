"""Reports: figures and pages made of tables."""
