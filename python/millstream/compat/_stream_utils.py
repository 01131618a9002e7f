# SPDX-License-Identifier: Apache-2.0
"""What `cuda.stf._experimental._stream_utils` offers."""

from millstream._stream import _stream_number as get_stream_pointer

__all__ = ["get_stream_pointer"]
