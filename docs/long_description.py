# SPDX-License-Identifier: Apache-2.0
"""README.md for a package index, where relative links lead nowhere. Hatchling calls this when it builds the package.

With a ``Source`` among the URLs of ``pyproject.toml``, relative links become links to files there. Without one, they
become plain text and pictures are left out, so that the page of the package has no broken links.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ModuleNotFoundError:  # the tests read this file without hatchling
    MetadataHookInterface = object

NOTE = "\nThe pages that this text names are in the folder `docs` of the source archive.\n"
_PICTURE = re.compile(r"^!\[([^\]]*)\]\((?!https?:)([^)]+)\)\n\n?", re.M)
_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")


class CustomMetadataHook(MetadataHookInterface):  # type: ignore[misc]
    def update(self, metadata: dict[str, Any]) -> None:
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = long_description(readme, metadata.get("urls", {}).get("Source"))
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def long_description(readme: str, source: str | None) -> str:
    """The text of the README with links that work everywhere, or none."""
    if source is None:
        return _LINK.sub(r"\1", _PICTURE.sub("", readme)).rstrip("\n") + "\n" + NOTE
    files, raw = f"{source}/blob/main", f"{source}/raw/main"
    return _LINK.sub(rf"[\1]({files}/\2)", _PICTURE.sub(rf"![\1]({raw}/\2)\n\n", readme))
