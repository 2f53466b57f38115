"""What a container is to have besides its group, after one reconcile: late, killed, undone."""

from __future__ import annotations
