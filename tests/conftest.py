"""The plugin's own tests run pytest inside pytest; Hypothesis' profiles: the root's conftest."""

from __future__ import annotations

pytest_plugins = ("pytester",)
