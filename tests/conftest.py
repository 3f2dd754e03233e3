"""The plugin's own tests run pytest inside pytest; Hypothesis' profiles are in the root's conftest."""

from __future__ import annotations

pytest_plugins = ("pytester",)
