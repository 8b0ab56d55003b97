"""Fair boosting on the rows of the paper, and the page that compares it with its peers."""
