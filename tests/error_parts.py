"""What an error says, by its parts: argument, rule, value, remedy."""


def says(message: object, *parts: str) -> bool:
    """Whether a message holds these parts in this order; the words between them are free."""
    place, text = 0, str(message)
    for part in parts:
        found = text.find(part, place)
        assert found >= 0, f"{part!r} is not (in this order) in {text!r}"
        place = found + len(part)
    return True
