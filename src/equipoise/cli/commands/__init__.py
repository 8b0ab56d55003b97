"""One module for each command: read options, call one function of ``runs``, answer."""
