"""Messages checked by their parts, in order: argument, rule, value, remedy."""


def says(message: str, *parts: str) -> None:
    """Check that a message has these parts, one after the other."""
    rest = message
    for part in parts:
        _, found, rest_of_it = rest.partition(part)
        assert found, f"{part!r} must stand in {rest!r}, of the message {message!r}"
        rest = rest_of_it
