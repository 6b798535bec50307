"""The deck: plays and records the exchanges of one test of somebody's application, whatever they are.

There is no scenario and no adapter: the recording is all that is known of what should be sent.
"""

from harness.tape.deck.playing import Playing
from harness.tape.deck.recording import Recording
from harness.tape.deck.storing import Taken

__all__ = ["Playing", "Recording", "Taken"]
