"""XML of qstat and qhost, an element at a time, so that a long answer is not also kept as a tree.

Input is the output of a command; outputs are elements. Characters that XML forbids are replaced: names of jobs are
the users' own. After a restart the qmaster calls the tasks of a job as its spool does (`JATASK:       1.`), which is
no name in XML, and is shortened. An answer that ends too early, as that of a qstat that was killed, raises
AnswerError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from subord.services.batch.faults import AnswerError

_FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")
_SPOOLED: Final = re.compile(r"<(/?\w+):[^<>=]*>")
"""Text has no such character, because it is escaped; the names of attributes stand behind a space."""
_CHARS: Final = 1 << 20


def elements(text: str, *tags: str) -> Iterator[Element]:
    """The elements with these names, each as soon as it is whole, and then emptied. Raises AnswerError."""
    text = readable(text)
    parser: XMLPullParser[Element] = XMLPullParser(("end",))
    try:
        for begin in range(0, len(text), _CHARS):
            parser.feed(text[begin : begin + _CHARS])
            yield from _whole(parser, tags)
        parser.close()
        yield from _whole(parser, tags)
    except ParseError as error:
        raise AnswerError(f"the answer is not whole, or no XML: {error}") from None


def readable(text: str) -> str:
    """For a parser of XML. Raises AnswerError."""
    if "<!" in text:  # a document type, which may define entities; names of jobs have no such character
        raise AnswerError("the answer declares a document type, which the batch system does not do")
    return _SPOOLED.sub(r"<\1>", _FORBIDDEN.sub("?", text))


def _whole(parser: XMLPullParser[Element], tags: tuple[str, ...]) -> Iterator[Element]:
    events: Iterator[tuple[str, Element]] = iter(parser.read_events())  # type: ignore[arg-type]
    for _, element in events:
        if element.tag in tags:
            yield element
            element.clear()


def text_in(element: Element, tag: str) -> str:
    """That of its first child with this name; "": it has none."""
    return (element.findtext(tag) or "").strip()
