# SPDX-License-Identifier: Apache-2.0
"""As program.py: all names come by a star, too."""

from millstream import *  # noqa: F403

with context() as ctx:  # noqa: F405
    place: exec_place = exec_place.device(0)  # noqa: F405
    print(ctx, place)
