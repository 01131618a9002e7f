# SPDX-License-Identifier: Apache-2.0
"""What Millstream does for other libraries. Each is imported at the first use of its adapter."""
