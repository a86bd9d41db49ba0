"""The errors of delivery."""

from foundation.kernel.errors import Invalid


class SequenceOutOfRange(Invalid):
    """An acknowledgement names a message that does not exist yet."""

    code = "sequence_out_of_range"
    title = "The chat has no message with this sequence"
