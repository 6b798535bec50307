"""Where a cell's requests go: a cassette, the reference server, a provider.

Each mode is the class of one module, and makes a stage for each cell: the far end, which answers. How the adapter
reaches it, by its `Route`, is the same for all modes, and stands in `routes`.
"""

from harness.running.stages.live import Live
from harness.running.stages.reference import Reference
from harness.running.stages.replay import Replay
from harness.running.stages.stage import Cell, Stage, Stages

__all__ = ["Cell", "Live", "Reference", "Replay", "Stage", "Stages"]
