# SPDX-License-Identifier: Apache-2.0
"""What travels to the window function: bytes with a small head, which hold one row or a batch of rows.

The head says all that the function has to know when an element arrives. The rest is read when the rows are due, many
elements at a time. Until then it is logged in keyed state, behind the watermark that it met.
"""

from __future__ import annotations

import struct

from pyflink.common import Types

from windrow_flink.rowtypes import BYTES

HEAD = struct.Struct("<iiq")
"""The Flink key of the bucket, the number of rows, and the earliest of their times in microseconds."""
MET = struct.Struct("<q")
"""The watermark that an element met; in the log it comes before the head."""
PACKED = Types.ROW([Types.INT(), BYTES])
"""The type of elements before they are partitioned: their Flink key, and their bytes."""
