# SPDX-License-Identifier: Apache-2.0
"""``python -m windrow`` is the command ``windrow``, with the Python that is named."""

from windrow.cli import main

if __name__ == "__main__":
    main()
