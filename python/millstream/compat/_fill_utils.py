# SPDX-License-Identifier: Apache-2.0
"""What `cuda.stf._experimental.fill_utils` offers."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import millstream

__all__ = ["init_logical_data"]


def init_logical_data(
    ctx: millstream.context,
    ld: millstream.logical_data,
    value: object,
    data_place: millstream.data_place | None = None,
    exec_place: millstream.exec_place | None = None,
) -> None:
    """Overwrites all elements of `ld` with a scalar, as a task of `ctx`.

    `data_place`: memory of the copy that is written. `exec_place`: the device that fills.

    ValueError for a value that the dtype of `ld` cannot hold, data of a different context and
    read-only data, TypeError for a token, NotImplementedError for `exec_place.host()`.
    """
    from millstream._core import fill_data

    fill_data(ctx, ld, value, data_place, exec_place)
