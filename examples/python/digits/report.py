# SPDX-License-Identifier: Apache-2.0
"""What the job says at the end, and the picture of some digits."""

import json

from PIL import Image, ImageDraw, ImageFont

_COLUMNS, _ROWS = 10, 4
_SCALE = 8  # screen pixels per pixel of a digit
_CELL = (8 * _SCALE + 16, 8 * _SCALE + 34)
_RIGHT, _WRONG = (30, 120, 60), (190, 30, 30)


def lines(facts):
    """The facts as aligned lines of text; facts that are missing say why."""
    named = [
        ("accuracy on held-out images", _accuracy(facts)),
        ("difference to SciPy", _difference(facts)),
        ("tasks", f"{facts['tasks']:,}"),
        ("edges", f"{facts['edges']:,}" if facts["edges"] is not None else "not traced"),
        ("copies", f"{facts['copies']:,} ({size(facts['copied_bytes'])})"),
        ("time", f"{facts['seconds']:.3f} s"),
        ("same tiles one by one", _seconds(facts["sequential_seconds"])),
        ("speed", _speed(facts)),
        ("peak memory", size(facts["peak_bytes"])),
    ]
    return [f"  {name:<29}{value}" for name, value in named]


def _accuracy(facts):
    return f"{facts['accuracy']:.4f} ({facts['correct']} of {facts['held_out']})"


def _difference(facts):
    if facts["difference"] is not None:
        return f"{facts['difference']:.1e} (largest weight {facts['largest_weight']:.2f})"
    return f"not computed, {facts['reference_note']}; residual {facts['residual']:.1e}"


def _seconds(value):
    return "not run" if value is None else f"{value:.3f} s"


def _speed(facts):
    if facts["speed"] is None:
        return "not compared"
    return f"{facts['speed']:.2f} x the same tiles one by one"


def size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def save_facts(facts, path):
    path.write_text(json.dumps(facts, indent=2) + "\n")


def save_digits(digits, predicted, path):
    """A sheet of held-out digits with their predictions, all the wrong ones first."""
    wrong = [i for i, label in enumerate(digits.test_labels) if label != predicted[i]]
    right = [i for i, label in enumerate(digits.test_labels) if label == predicted[i]]
    chosen = (wrong + right)[: _COLUMNS * _ROWS]
    sheet = Image.new("RGB", (_COLUMNS * _CELL[0] + 16, _ROWS * _CELL[1] + 16), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=15)
    for position, index in enumerate(chosen):
        left = 16 + position % _COLUMNS * _CELL[0]
        top = 16 + position // _COLUMNS * _CELL[1]
        sheet.paste(_enlarged(digits.test[index]), (left, top))
        label, guess = int(digits.test_labels[index]), int(predicted[index])
        text = f"{guess}" if label == guess else f"{guess} (is {label})"
        colour = _RIGHT if label == guess else _WRONG
        pen.text((left, top + 8 * _SCALE + 4), text, fill=colour, font=font)
    sheet.save(path)


def _enlarged(pixels):
    dark = (255 - 255 * pixels.reshape(8, 8)).astype("uint8")
    return Image.fromarray(dark).resize((8 * _SCALE, 8 * _SCALE), Image.Resampling.NEAREST)
