"""The exception that says why an estimate cannot be computed."""


class Refused(ValueError):
    """The batch does not allow this estimate. The text is a sentence for the user and says what to do."""
