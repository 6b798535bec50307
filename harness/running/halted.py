"""The end of a run, for cells that are under way."""


class Halted(BaseException):
    """The run has ended while this cell was played. Nothing is to be said of the cell."""
