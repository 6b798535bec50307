"""Workspace tools that run for real, confined to a folder: `Workspace(root).tools` and `Workspace(root).run`."""

from __future__ import annotations

from harness.kit.workspace.toolkit import Workspace

__all__ = ["Workspace"]
