"""Trees of what was measured, and the file that holds one: hatchet's literal format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Node", "document", "read_document"]


class Node:
    """A scope, a frame or a kernel, with the metrics that are its own.

    >>> root = Node("ROOT")
    >>> root.at(("layer", "add")).count({"count": 1, "bytes": 8.0})
    >>> document(root, {})[0]["children"][0]["children"][0]["metrics"]
    {'count': 1, 'bytes': 8.0}
    """

    __slots__ = ("children", "metrics", "name")

    def __init__(self, name: str):
        self.name = name
        self.metrics: dict[str, Any] = {}
        self.children: dict[str, Node] = {}

    def at(self, path: tuple[str, ...]) -> Node:
        """The node at a path below, made where it is missing."""
        node = self
        for name in path:
            node = node.children.get(name) or node.children.setdefault(name, Node(name))
        return node

    def count(self, metrics: dict[str, Any]) -> None:
        """Add to metrics; a text takes the place of the one before."""
        own = self.metrics
        for name, value in metrics.items():
            own[name] = value if isinstance(value, str) else own.get(name, 0) + value

    def walk(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()


def document(root: Node, devices: dict[str, Any]) -> list[Any]:
    """What is written as JSON: the tree, whose root names all metrics, and the devices."""
    known = {name: 0 for node in root.walk() for name, value in node.metrics.items() if not isinstance(value, str)}
    tree = _written(root)
    tree["metrics"] = {**known, **root.metrics}
    return [tree, devices]


def _written(node: Node) -> dict[str, Any]:
    return {"frame": {"name": node.name, "type": "function"}, "metrics": dict(node.metrics),
            "children": [_written(child) for child in node.children.values()]}  # fmt: skip


def read_document(data: Any) -> tuple[Node, dict[str, Any]]:
    """The tree and the devices of a file's content.

    >>> read_document(document(Node("ROOT"), {"CPU": {}}))[1]
    {'CPU': {}}
    """
    if not isinstance(data, list) or not data or not isinstance(data[0], dict) or "frame" not in data[0]:
        raise ValueError("it holds no profile: the first element of the list has no frame")
    devices = data[1] if len(data) > 1 and isinstance(data[1], dict) else {}
    return _parsed(data[0]), devices


def _parsed(data: dict[str, Any]) -> Node:
    node = Node(str(data["frame"].get("name", "")))
    node.metrics = dict(data.get("metrics") or {})
    for child in data.get("children") or ():
        made = _parsed(child)
        while made.name in node.children:  # a file may have two of a name
            made.name += "'"
        node.children[made.name] = made
    return node
