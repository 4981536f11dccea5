# SPDX-License-Identifier: Apache-2.0
"""Check that Flink starts here and runs Python: `python -m windrow_flink.probe` says so, or fails."""

from __future__ import annotations

from windrow_flink import environment


def main() -> None:
    from pyflink.common import Types

    flink = environment()
    numbers = flink.from_collection([1, 2, 3], type_info=Types.LONG())
    with numbers.map(lambda x: x + 1, output_type=Types.LONG()).execute_and_collect() as found:
        assert sorted(found) == [2, 3, 4]
    print("Flink starts and runs Python")


if __name__ == "__main__":
    main()
