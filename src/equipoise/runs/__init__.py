"""Run folders: what a fit leaves on disk, and what is done with it later."""
