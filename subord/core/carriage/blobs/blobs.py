"""The blobs at one node: fetches what it needs, and gives chunks to nodes that ask.

Inputs are events (interface.py) and bodies of other nodes; outputs are bodies and actions. A chunk that is asked for
and not here is asked for above, once, however many ask. Every chunk is checked against its name before it is kept or
passed on; a wrong one is counted, and asked of another node. Invariants: at most WINDOW chunks are under way to this
node, the cache keeps its bound, and no chunk of a blob in use gives way.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from math import inf

import msgspec

from subord.core.carriage.blobs import bodies, bounds, manifests
from subord.core.carriage.blobs.bodies import Body, Lacks, Piece, Waits, Want, pieces
from subord.core.carriage.blobs.cache import Cache
from subord.core.carriage.blobs.given import Given
from subord.core.carriage.blobs.interface import (
    Check,
    Checked,
    Evict,
    Fetch,
    Fetched,
    Held,
    Read,
    ReadEnded,
    Release,
    Wrong,
)
from subord.core.carriage.blobs.manifests import ManifestError, Name
from subord.core.carriage.blobs.used import Used
from subord.core.carriage.blobs.wants import Wanted
from subord.core.carriage.engine.interface import Opened, PartEvent, Role
from subord.core.carriage.engine.links import Links, LinkState
from subord.core.carriage.engine.tree import Tree
from subord.core.view import Position

NO_ROOM = "the cache of blobs has no room: raise its bound, or release other blobs"
NO_MANIFEST = "the name is that of no blob"
TOO_MANY = "too many blobs are fetched at once: try again later"
BlobEvent = Held | Fetch | Release | Checked | ReadEnded


class Blobs:
    """A part (core/carriage/engine/parts.py) of the engine of one node."""

    numbers = bodies.NUMBERS
    events: tuple[type[PartEvent], ...] = (Held, Fetch, Release, Checked, ReadEnded)

    def __init__(self, tree: Tree, bytes_max: int = bounds.CACHE_BYTES_MAX) -> None:
        self._tree = tree
        self._links: Links
        self.cache = Cache(bytes_max)
        self.dropped: Counter[str] = Counter()
        self._wants: dict[Name, Wanted] = {}
        self._reading: dict[Name, dict[LinkState, int]] = {}
        """Chunks that are read from the disk, and for which links, from which offset."""
        self._given = Given()
        self._used: dict[Name, Used] = {}
        self._calls: dict[Position, LinkState] = {}
        self._lost: Position | None = None  # whose edge has ended; a leader whose edge is still to open is called
        self._idle_since: dict[Position, float] = {}
        self._numbers = count(1)

    def join(self, links: Links) -> None:
        self._links = links

    @property
    def deadline(self) -> float:
        if not self._wants and not self._idle_since:
            return inf
        looks = min((each.look_at for each in self._wants.values()), default=inf)
        return min(looks, min(self._idle_since.values(), default=inf) + bounds.LINGER_S)

    @property
    def sizes(self) -> dict[str, int]:
        return {
            "blob wants": len(self._wants),
            "blob reading": len(self._reading),
            "blob fetches": len(self._used),
            "blob chunks": len(self.cache),
            "blob cache bytes": self.cache.used_bytes,
            "blob calls": len(self._calls),
        }

    @staticmethod
    def decode(body: msgspec.Raw) -> Body:
        return bodies.decode(body)

    # -- events -------------------------------------------------------------------------------------------

    def opened(self, link: LinkState, now: float) -> None:
        """A new leader may have what no other had."""
        if link.role is Role.LEADER:
            for each in self._wants.values():
                if each.asked is None:
                    each.begin_anew()
                    each.look_at = min(each.look_at, now)

    def closed(self, link: LinkState, now: float) -> None:
        if link.role is Role.LEADER:
            self._lost = link.peer
        if self._calls.get(link.peer) is link:
            del self._calls[link.peer]
            self._idle_since.pop(link.peer, None)
        self._given.close(link)
        for reading in self._reading.values():
            reading.pop(link, None)
        for each in list(self._wants.values()):
            each.askers.pop(link, None)
            if each.asked is link and not each.is_checking:
                self._ask_another(each, now)
            self._drop_unwanted(each, now)

    def heard(self, link: LinkState, body: Body, now: float) -> None:
        match body:
            case Want():
                self._wanted(link, body, now)
            case Piece():
                self._take_piece(link, body, now)
            case Lacks():
                wanted = self._asked_of(link, body.name)
                if wanted is not None:
                    self._ask_another(wanted, now, has_failed=True)
            case Waits():
                wanted = self._asked_of(link, body.name)
                if wanted is not None:
                    self._await(wanted, now)

    def take(self, event: BlobEvent, now: float) -> None:
        match event:
            case Held():
                self._held(event)
            case Fetch():
                self._fetch(event, now)
            case Release():
                self._release(event.blob, now)
            case Checked():
                self._checked(event, now)
            case ReadEnded():
                self._read_ended(event, now)

    def wake(self, now: float) -> None:
        for each in [each for each in self._wants.values() if each.look_at <= now]:
            self._look(each, now)
        for peer in [peer for peer, since in self._idle_since.items() if since + bounds.LINGER_S <= now]:
            del self._idle_since[peer]
            self._links.hang_up(self._calls.pop(peer))

    # -- what others ask ----------------------------------------------------------------------------------

    def _wanted(self, link: LinkState, want: Want, now: float) -> None:
        name, wanted = want.name, self._wants.get(want.name)
        is_given = self._given.take(link, name)
        if want.again and is_given:
            self._links.send(link, Waits(name))
        elif want.source == self._tree.position and name not in self.cache:
            self._links.send(link, Lacks(name))  # to ask above would be a circle: those above ask the source
        elif wanted is not None and wanted.is_hopeless:
            self._links.send(link, Lacks(name))  # all were asked in vain
        elif wanted is not None:
            wanted.askers[link] = want.offset
            self._links.send(link, Waits(name))
        elif self._sent_to(link) >= bounds.WINDOW and link not in self._reading.get(name, ()):
            self.dropped["blob asked too much"] += 1
        elif name in self.cache:
            self._read(name, link, want.offset)
        elif len(self._wants) >= bounds.WANTS_MAX:
            self.dropped["blob busy"] += 1
            self._links.send(link, Lacks(name))
        else:
            self._want(name, want.source).askers[link] = want.offset
            if name in self._wants:
                self._links.send(link, Waits(name))
                self._ask_next(now)

    def _sent_to(self, link: LinkState) -> int:
        """Chunks that a node has asked for and not got."""
        wanted = sum(link in each.askers for each in self._wants.values())
        return wanted + sum(link in each for each in self._reading.values())

    def _read(self, name: Name, link: LinkState | None, offset: int = 0) -> None:
        """Read a chunk for a link, or for this node."""
        self.cache.use(name)
        is_new = name not in self._reading
        if is_new and link is not None and len(self._reading) >= bounds.READING_MAX:
            self.dropped["blob busy"] += 1
            return
        reading = self._reading.setdefault(name, {})
        if link is not None:
            reading[link] = offset
        if is_new:
            self._links.actions.append(Read(name))

    def _read_ended(self, event: ReadEnded, now: float) -> None:
        links, name = self._reading.pop(event.name, {}), event.name
        if event.chunk is None:
            self.cache.remove(name)
            self._links.actions.append(Evict(name))  # what is left of it takes room
            self.dropped["blob unreadable"] += 1
            for link in links:
                self._links.send(link, Lacks(name))
        else:
            self._give(name, event.chunk, links)
        self._came(name, event.chunk, now)

    def _give(self, name: Name, chunk: bytes, links: dict[LinkState, int]) -> None:
        for link, offset in links.items():
            self._given.add(link, name)
            for each in pieces(name, chunk, offset):
                self._links.send(link, each)

    # -- what this node wants -----------------------------------------------------------------------------

    def _want(self, name: Name, source: Position) -> Wanted:
        if name not in self._wants:
            self._wants[name] = Wanted(name, source)
        return self._wants[name]

    def _asked_of(self, link: LinkState, name: Name) -> Wanted | None:
        """The chunk that was asked of this node; None: it was not."""
        wanted = self._wants.get(name)
        if wanted is not None and wanted.asked is link and not wanted.is_checking:
            return wanted
        self.dropped["blob not asked"] += 1
        return None

    def _ask_next(self, now: float) -> None:
        """Ask for chunks, the oldest first, as many as may be under way."""
        under_way = sum(each.asked is not None or each.is_checking for each in self._wants.values())
        for each in list(self._wants.values()):
            if under_way >= bounds.WINDOW:
                break
            if each.asked is None and not each.is_checking and each.look_at == inf:
                under_way += self._ask(each, now)

    def _ask(self, wanted: Wanted, now: float) -> bool:
        """Ask the next node; False: there is none."""
        while (peer := wanted.next_peer(self._tree)) is not None:
            wanted.tried.add(peer)
            link = self._link_to(peer, wanted)
            if link is not None:
                wanted.asked, wanted.is_doubted = link, False
                if self._calls.get(peer) is link:  # else a former call to a new leader stays idle
                    self._idle_since.pop(peer, None)
                self._await(wanted, now)
                return True
        self._give_up(wanted, now)
        return False

    def _link_to(self, peer: Position, wanted: Wanted) -> LinkState | None:
        """Send the question on the edge to the leader, or on a stream of its own."""
        want = Want(wanted.name, wanted.source, len(wanted.got))
        edge = self._links.edge_to(peer, climbs=True)
        if edge is not None and not edge.knows_orders:
            return None
        link = edge or self._calls.get(peer)
        if link is not None:
            if link in wanted.askers:
                return None
            self._links.send(link, want)
            return link
        if peer == self._lost and peer == self._tree.leader:
            return None  # it may be dead: the edge opens again, or another leader comes
        link = self._links.open(Opened(("blob", next(self._numbers)), peer, Role.CALLED))
        if link is not None:
            self._calls[peer] = link
            self._links.call(link, want)
        return link

    def _await(self, wanted: Wanted, now: float) -> None:
        wanted.is_doubted, wanted.look_at = False, now + bounds.SILENCE_S

    def _look(self, wanted: Wanted, now: float) -> None:
        """Nothing has come for some time; or a pause is over."""
        wanted.look_at = inf
        if wanted.asked is None:
            wanted.begin_anew()
            self._ask_next(now)
        elif wanted.is_doubted:
            self._ask_another(wanted, now, has_failed=True)
        else:
            wanted.is_doubted, wanted.look_at = True, now + bounds.DOUBT_S
            self._links.send(wanted.asked, Want(wanted.name, wanted.source, len(wanted.got), again=True))

    def _ask_another(self, wanted: Wanted, now: float, *, has_failed: bool = False) -> None:
        self._end_asking(wanted, now)
        wanted.has_failed |= has_failed
        wanted.look_at = inf
        wanted.got.clear()  # so a wrong chunk is of one node
        self._ask(wanted, now)
        self._ask_next(now)

    def _end_asking(self, wanted: Wanted, now: float) -> None:
        link, wanted.asked = wanted.asked, None
        if link is not None and self._calls.get(link.peer) is link and not self._is_used(link):
            self._idle_since[link.peer] = now

    def _is_used(self, link: LinkState) -> bool:
        return any(each.asked is link for each in self._wants.values())

    def _give_up(self, wanted: Wanted, now: float) -> None:
        """No node has given it: try again later, and tell those that ask if they should not wait."""
        for link in wanted.given_up():
            self._links.send(link, Lacks(wanted.name))
        wanted.pause_s = min(max(bounds.RETRY_S, 2 * wanted.pause_s), bounds.RETRY_S_MAX)
        wanted.look_at = now + wanted.pause_s
        self._drop_unwanted(wanted, now)

    def _drop_unwanted(self, wanted: Wanted, now: float) -> None:
        if not wanted.askers and not wanted.is_own and not wanted.is_checking:
            self._wants.pop(wanted.name, None)
            self._end_asking(wanted, now)

    def _take_piece(self, link: LinkState, piece: Piece, now: float) -> None:
        wanted = self._asked_of(link, piece.name)
        if wanted is None:
            return
        if not wanted.take(piece):
            self.dropped["blob not next"] += 1
            return
        self._await(wanted, now)
        if len(wanted.got) == piece.size:
            wanted.is_checking, wanted.look_at = True, inf
            self._links.actions.append(Check(wanted.name, bytes(wanted.got)))

    def _checked(self, event: Checked, now: float) -> None:
        wanted = self._wants.get(event.name)
        if wanted is None or not wanted.is_checking:
            return
        wanted.is_checking = False
        if not event.ok:
            self.dropped["blob wrong chunk"] += 1
            if wanted.asked is not None:
                self._links.actions.append(Wrong(wanted.name, wanted.asked.peer))
            self._ask_another(wanted, now)
            self._drop_unwanted(wanted, now)
            return
        del self._wants[wanted.name]
        self._end_asking(wanted, now)
        chunk = bytes(wanted.got)
        self._give(wanted.name, chunk, wanted.askers)
        gone = self.cache.add(wanted.name, len(chunk))
        if gone is None:
            self._links.actions.append(Evict(wanted.name))
        for each in gone or ():
            self._links.actions.append(Evict(each))
        self._came(wanted.name, chunk, now)
        self._ask_next(now)

    # -- blobs of this node -------------------------------------------------------------------------------

    def _held(self, held: Held) -> None:
        names = tuple(name for name, _ in held.chunks)
        if held.blob:
            self.cache.pin(names)
        has_room = True
        for name, size in held.chunks:
            gone = self.cache.add(name, size)
            has_room &= gone is not None
            for each in (name,) if gone is None else gone:
                self._links.actions.append(Evict(each))
        if not held.blob:
            return
        if held.blob in self._used or not has_room:
            self.cache.unpin(names)
        else:
            used = self._used[held.blob] = Used(self._tree.position)
            used.is_over, used.pinned = True, names
        self._links.actions.append(Fetched(held.blob, "" if has_room else NO_ROOM))

    def _fetch(self, fetch: Fetch, now: float) -> None:
        if fetch.blob in self._used:
            if self._used[fetch.blob].is_over:
                self._links.actions.append(Fetched(fetch.blob))
            return
        if len(self._used) >= bounds.FETCHES_MAX:
            self._links.actions.append(Fetched(fetch.blob, TOO_MANY))
            return
        used = self._used[fetch.blob] = Used(fetch.source)
        used.pinned, used.missing = (fetch.blob,), {fetch.blob: None}
        self.cache.pin(used.pinned)
        self._fill(used, now)

    def _fill(self, used: Used, now: float) -> None:
        """Want the next chunks of a blob."""
        for name in list(used.missing)[: bounds.WINDOW]:
            if name in self.cache:
                self._read(name, None)  # the manifest
            elif len(self._wants) < bounds.WANTS_MAX or name in self._wants:
                self._want(name, used.source).is_own = True
        self._ask_next(now)

    def _came(self, name: Name, chunk: bytes | None, now: float) -> None:
        """A chunk is here, or cannot be read: then each blob that needs it gets it anew."""
        for blob, used in list(self._used.items()):
            if chunk is None and name in used.pinned:
                used.missing[name], used.is_over = None, False
                self._fill(used, now)
            if chunk is None or name not in used.missing:
                continue
            if name not in self.cache:
                self._end(blob, NO_ROOM, now)
                continue
            del used.missing[name]
            if used.manifest is None and not self._open_manifest(blob, used, chunk, now):
                continue
            if used.missing:
                self._fill(used, now)
            else:
                used.is_over = True
                self._links.actions.append(Fetched(blob))

    def _open_manifest(self, blob: Name, used: Used, chunk: bytes, now: float) -> bool:
        """The manifest is here: the chunks are known. False: it is over."""
        try:
            used.manifest = manifests.decode(chunk)
        except ManifestError:
            self._end(blob, NO_MANIFEST, now)
            return False
        chunks = tuple(dict.fromkeys(used.manifest.chunks))
        if used.manifest.size + len(chunk) > self.cache.bytes_max:
            self._end(blob, NO_ROOM, now)
            return False
        self.cache.pin(chunks)
        used.pinned += chunks
        used.missing = {each: None for each in chunks if each not in self.cache}
        return True

    def _end(self, blob: Name, reason: str, now: float) -> None:
        self._release(blob, now)
        self._links.actions.append(Fetched(blob, reason))

    def _release(self, blob: Name, now: float) -> None:
        used = self._used.pop(blob, None)
        if used is None:
            return
        self.cache.unpin(used.pinned)
        needed = {name for each in self._used.values() for name in each.missing}
        for name in used.missing:
            wanted = self._wants.get(name)
            if wanted is not None and name not in needed:
                wanted.is_own = False
                self._drop_unwanted(wanted, now)
        self._ask_next(now)
