"""Work on many files and machines: a cluster, its files, and audits from streams of rows."""
