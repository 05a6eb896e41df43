"""What the kernels of executed notebooks do before a notebook: no network, figures in words."""

import ipaddress
import socket

import numpy as np

_MOST_VALUES = 12


def prepare_kernel():
    """Refuse connections that leave this machine, and describe figures in words."""
    from IPython import get_ipython

    block_network()
    shell = get_ipython()
    shell.run_line_magic("matplotlib", "inline")
    plain = shell.display_formatter.formatters["text/plain"]
    plain.for_type_by_name(
        "matplotlib.figure",
        "Figure",
        lambda figure, printer, _: printer.text(describe_figure(figure)),
    )


def block_network():
    """Have every connection refused but those on loopback."""
    connect = socket.socket.connect

    def connect_here(self, address):
        if isinstance(address, tuple) and not is_loopback(str(address[0])):
            raise ConnectionRefusedError(f"notebooks are executed without a network: {address[0]}")
        return connect(self, address)

    socket.socket.connect = connect_here


def is_loopback(host):
    """Whether a host is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def describe_figure(figure):
    """Return what a matplotlib figure shows: titles, axes, units, and the values of each series."""
    lines = [line for axes in figure.axes for line in _describe_axes(axes)]
    title = figure.get_suptitle()
    return "\n".join(["Figure" + (f": {title}" if title else ""), *lines])


def _describe_axes(axes):
    names = [axes.get_title(), axes.get_title(loc="left"), axes.get_title(loc="right")]
    title = next(filter(None, names), "no title")
    yield f"  {title} | x: {axes.get_xlabel() or '-'} | y: {axes.get_ylabel() or '-'}"
    for bars in axes.containers:
        if hasattr(bars, "patches"):
            side = "get_height" if bars.orientation == "vertical" else "get_width"
            values = [float(getattr(patch, side)()) for patch in bars.patches]
            yield f"    bars {_name(bars)}: {_format_values(values)}"
    for line in axes.lines:
        yield f"    line {_name(line)}: {_format_values(line.get_ydata())}"
    for drawn in axes.collections:
        offsets = np.asarray(drawn.get_offsets())
        if len(offsets) > 1 and len(drawn.get_paths()) <= 1:
            yield f"    points {_name(drawn)}: {_format_values(offsets[:, 1])}"
        else:
            yield f"    shapes {_name(drawn)}: {len(drawn.get_paths())}"
    for image in axes.images:
        yield f"    image {image.get_array().shape}: {_format_values(image.get_array().ravel())}"


def _name(artist):
    label = str(artist.get_label())
    return "" if label.startswith("_") else repr(label)


def _format_values(values):
    """Format few values one by one, and many by their number, ends and extremes."""
    numbers = np.asarray(values, dtype=float)
    if len(numbers) <= _MOST_VALUES:
        return ", ".join(f"{number:.4g}" for number in numbers)
    return (
        f"{len(numbers)} values from {numbers[0]:.4g} to {numbers[-1]:.4g}, "
        f"least {np.nanmin(numbers):.4g}, most {np.nanmax(numbers):.4g}"
    )
