"""Holds an answer against a case's ``then``."""

from __future__ import annotations

from typing import Any

from contract.http_cases.case_text import ABSENT, as_list, get_path, matches, shorten
from contract.http_cases.reply import Reply


class Comparison:
    """Collects what differs, as sentences.

    Args:
        then: what the case expects, markers filled in.
        stored: the object as it was before the request, for ``$same`` and ``$changed``.
    """

    def __init__(self, then: dict[str, Any], reply: Reply, stored: dict[str, Any]) -> None:
        self.problems: list[str] = []
        self._then = then
        self._reply = reply
        self._stored = stored

    def run(self) -> list[str]:
        self._status()
        self._body()
        self._fields()
        self._headers()
        self._collections()
        self._events()
        return self.problems

    def _expect(self, what: str, want: Any, got: Any, *, same: bool | None = None) -> None:
        if not (matches(want, got) if same is None else same):
            self.problems.append(f"{what}: got {shorten(got)} expected {shorten(want)}")

    def _status(self) -> None:
        then, tree = self._then, self._reply.tree
        self._expect("status", then["status"], self._reply.status)
        if "reason" in then:
            self._expect("reason", then["reason"], tree.get("reason", ABSENT))
        if "message_exact" in then:
            self._expect("message", then["message_exact"], tree.get("message", ABSENT))
        details = tree.get("details") or {} if tree.get("kind") == "Status" else {}
        causes = details.get("causes") or []
        if "causes" in then:
            self._expect("causes", then["causes"], [[c.get("reason", ""), c.get("field", "")] for c in causes])
        if "causes_min" in then:
            self._expect("causes", then["causes_min"], len(causes), same=len(causes) >= then["causes_min"])

    def _body(self) -> None:
        then, reply = self._then, self._reply
        for part in as_list(then.get("body_contains", ())):
            self._expect("body", f"…{part}…", reply.text, same=part in reply.text)
        if "body_exact" in then:
            self._expect("body", then["body_exact"], reply.text)
        if "bytes_prefix_hex" in then:
            prefix = then["bytes_prefix_hex"]
            self._expect("bytes", prefix, reply.body[: len(prefix) // 2].hex())

    def _fields(self) -> None:
        for path, want in {**self._then.get("fields", {}), **self._then.get("decoded", {})}.items():
            got, before = get_path(self._reply.tree, path), get_path(self._stored, path)
            if want == "$same":
                self._expect(path, before, got)
            elif want == "$changed":
                self._expect(path, f"not {before}", got, same=got not in (before, ABSENT))
            else:
                self._expect(path, want, got)

    def _headers(self) -> None:
        headers = self._reply.headers
        for name, want in self._then.get("headers", {}).items():
            got = list(headers.getall(name, []))
            if isinstance(want, list):
                self._expect(name, want, got)
            else:
                self._expect(name, want, got, same=any(matches(want, value) for value in got))
        for name in self._then.get("headers_absent", ()):
            self._expect(name, ABSENT, list(headers.getall(name, [])), same=name not in headers)

    def _collections(self) -> None:
        then, tree = self._then, self._reply.tree
        if "names" in then:
            self._expect("names", then["names"], [item["metadata"]["name"] for item in tree.get("items", [])])
        if "name_matches" in then:
            self._expect("name", f"$re:{then['name_matches']}", get_path(tree, "metadata.name"))
        if "rows" in then:
            self._expect("rows", then["rows"], [row["cells"] for row in tree.get("rows", [])])
        if "columns" in then:
            columns = [[c["name"], c["type"], c["format"], c["priority"]] for c in tree.get("columnDefinitions", [])]
            self._expect("columns", then["columns"], columns)

    def _events(self) -> None:
        then, reply = self._then, self._reply
        if "events" in then:
            got = list(reply.event_names())
            # The ADDED events at the start have no defined order, and plain bookmarks come when the server likes.
            if "BOOKMARK" not in then["events"]:
                got = [event for event in got if event != "BOOKMARK"]
            lead = next((at for at, event in enumerate(got) if not event.startswith("ADDED ")), len(got))
            self._expect("events", then["events"], sorted(got[:lead]) + got[lead:])
        if "error_object" in then:
            last = reply.events[-1]["object"] if reply.events else {}
            for key, want in then["error_object"].items():
                self._expect(f"error.{key}", want, last.get(key, ABSENT))
            part, message = then.get("error_message_contains", ""), last.get("message", "")
            self._expect("error.message", part, message, same=part in message)
