# SPDX-License-Identifier: Apache-2.0
"""Millstream under the names of other packages, for programs that were written for those."""
