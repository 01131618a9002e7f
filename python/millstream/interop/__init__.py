# SPDX-License-Identifier: Apache-2.0
"""What Millstream does for other libraries. Nothing here imports one that the program has not."""
