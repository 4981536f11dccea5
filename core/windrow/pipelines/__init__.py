# SPDX-License-Identifier: Apache-2.0
"""Dynamic pipelines: streams that people put on top of each other's streams, while data flows."""

from windrow.pipelines.changes import CHANGES, Change, Id, changes_from_table, changes_to_table
from windrow.pipelines.emissions import REPORTS, UPDATES, Emissions, Report, Update, reports_to_table
from windrow.pipelines.graph import Graph
from windrow.pipelines.joined import Joined
from windrow.pipelines.quotas import Quotas
from windrow.pipelines.runtime import Runtime
from windrow.pipelines.space import Space
from windrow.pipelines.streams import Composite, Source, matching, stream_from_dict

__all__ = [
    "CHANGES",
    "REPORTS",
    "UPDATES",
    "Change",
    "Composite",
    "Emissions",
    "Graph",
    "Id",
    "Joined",
    "Quotas",
    "Report",
    "Runtime",
    "Source",
    "Space",
    "Update",
    "changes_from_table",
    "changes_to_table",
    "matching",
    "reports_to_table",
    "stream_from_dict",
]
