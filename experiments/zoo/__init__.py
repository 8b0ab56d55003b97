"""A zoo of public data sets on which the defaults of networks and trees were chosen."""
