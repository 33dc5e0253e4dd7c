"""The JSON Schemas of docs/schemas/, from the definitions that the daemon and the commands use themselves.

Draft 2020-12 (json-schema.org). A property that is not listed is not allowed, so an undocumented field fails
tests/cli/test_json.py. Old names are marked as deprecated.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from subord import SCHEMA_VERSION
from subord.api.models import (
    blobs,
    coverage,
    document,
    fields,
    members,
    metrics,
    operators,
    orders,
    orders_under_way,
    sets,
)
from subord.api.models.shares import SharesPastDocument
from subord.cli import position, speedup
from subord.config.load import dotted, load
from subord.services import live
from subord.services.account import core as account_core
from subord.services.account import reporting
from subord.services.elastic.past.documents import ElasticPastDocument
from subord.services.elastic.telling import documents as elastic
from subord.services.elastic.telling import steps
from subord.services.exec import core as exec_core
from subord.services.exec import earlier, showing
from subord.services.files import core as files_core
from subord.services.files import pushing
from subord.services.files.sets import showing as showing_sets
from subord.services.hosts import documents as hosts
from subord.services.machines.shown.documents import MachinesShownDocument
from subord.services.machines.telling import documents as machines
from subord.services.transfer.telling import documents as transfer
from subord.services.metrics.branches import document as branches
from subord.services.metrics.past import document as past
from subord.services.metrics.plan import carried
from subord.services.shares.simulation.measures import Shares
from subord.services.shares.telling import documents as shares

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


class EventLine(members.ChangeDocument, frozen=True, kw_only=True):
    """A line of `subord events --json`: one change of the tree. `time`: by the clock of the node that saw it."""

    schema_version: int


class Forgotten(fields.StatementDocument, frozen=True, kw_only=True):
    """`confirmed`: the nodes are on the list no more."""

    confirmed: bool


class KeyChange(fields.RotatedDocument, frozen=True, kw_only=True):
    """A change of keys. `confirmed`: all nodes have it. `coverage`: which nodes have which ring; null: not known.

    `principal`: the operator, as the file of the asked node names the key of the signature.
    """

    principal: str
    confirmed: bool
    coverage: fields.AllKeysDocument | None
    everybody: bool
    nodes: fields.AllKeysDocument | None


class CheckedOperator(msgspec.Struct, frozen=True, kw_only=True):
    """A line of an operators file; as in `subord operator who`."""

    line: int
    principals: tuple[str, ...]
    key_type: str
    fingerprint: str
    authority: bool
    powers: tuple[str, ...]
    valid_after: document.Time | None
    valid_before: document.Time | None
    valid: bool


class CheckedOperators(document.Document, frozen=True, kw_only=True):
    """An operators file. `ok`: it has no faults. `doubts`: what may not be meant. Line 0: the file as a whole."""

    file: str
    ok: bool
    operators: tuple[CheckedOperator, ...]
    faults: tuple[operators.FaultDocument, ...]
    doubts: tuple[operators.FaultDocument, ...]


class OwnKey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key of the caller. `known`: it is in the operators file. `fingerprint` null: it is no public key."""

    file: str
    fingerprint: str | None
    known: bool


class Who(operators.OperatorsDocument, frozen=True, kw_only=True):
    """The operators of a node, and the keys of the caller."""

    own: tuple[OwnKey, ...]


class DryRun(document.Document, frozen=True, kw_only=True):
    """The verdicts on test orders. `accepted`: on all of them."""

    accepted: bool
    orders: tuple[orders.JudgedOrder, ...]


class Revoked(document.Document, frozen=True, kw_only=True):
    """What was revoked, or (`revoked` false) is no longer. `principal`: the operator that signed."""

    kind: Literal["operator", "node"]
    what: str
    revoked: bool
    principal: str


class Strict(document.Document, frozen=True, kw_only=True):
    """Whether nodes without identity are refused from now on. `principal`: the operator that signed."""

    strict: bool
    principal: str


class Revocations(document.Document, frozen=True, kw_only=True):
    """All that is revoked in the cluster."""

    revocations: tuple[operators.RevocationDocument, ...]


class NodeSet(document.Document, frozen=True, kw_only=True):
    """The nodes of a set, in order."""

    addresses: tuple[str, ...]


class Missing(coverage.MissingDocument, frozen=True, kw_only=True):
    """`nodes`: a set in the notation of ClusterShell."""

    nodes: str


class Pinged(coverage.PingDocument, frozen=True, kw_only=True):
    """The answer to `subord ping`."""

    missing: tuple[Missing, ...]


class Metrics(metrics.MetricsDocument, frozen=True, kw_only=True):
    """The answer to `subord metrics`."""

    missing: tuple[Missing, ...]


class MetricsByBranch(branches.BranchesDocument, frozen=True, kw_only=True):
    """The answer to `subord metrics NAME --by branch`."""

    missing: tuple[Missing, ...]


class MetricsHistory(past.HistoryDocument, frozen=True, kw_only=True):
    """The answer to `subord metrics --history TIME`."""

    missing: tuple[Missing, ...]


class Executed(exec_core.ExecDocument, frozen=True, kw_only=True):
    """The last line of `subord exec --json`. `not_begun`: nodes of the waves after one that failed."""

    not_begun: tuple[str, ...]


class ExecLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the answer: either new results, msgpack in Base64, with their nodes; or the document, in the last."""

    results: tuple[live.LiveResult, ...] | msgspec.UnsetType = msgspec.UNSET
    document: exec_core.ExecDocument | msgspec.UnsetType = msgspec.UNSET


class Pushed(files_core.FilesDocument, frozen=True, kw_only=True):
    """The answer to `subord files push`. `nodes`: by what came of it."""

    nodes: tuple[pushing.NodesDocument, ...]


class Published(files_core.FilesDocument, frozen=True, kw_only=True):
    """The answer to `subord files publish`, `rollback` and `status`. `nodes`: by set and state."""

    sets: tuple[showing_sets.SetShown, ...]
    nodes: tuple[showing_sets.StateShown, ...]


class Differing(files_core.FilesDocument, frozen=True, kw_only=True):
    """The answer to `subord files diff`. `left_out`: further paths."""

    state: showing_sets.StateShown
    paths: tuple[showing_sets.PathShown, ...]
    left_out: int


class Collected(files_core.FilesDocument, frozen=True, kw_only=True):
    """The answer to `subord files gc`. `freed`: by what nodes have deleted."""

    freed: tuple[showing_sets.FreedShown, ...]


class FilesLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the answer: either new results, msgpack in Base64, with their nodes; or the document, in the last."""

    results: tuple[live.LiveResult, ...] | msgspec.UnsetType = msgspec.UNSET
    document: files_core.FilesDocument | msgspec.UnsetType = msgspec.UNSET


class AccountStatus(account_core.AccountDocument, frozen=True, kw_only=True):
    """The answer to `subord account status`."""

    missing: tuple[Missing, ...]


class SharesStatus(shares.SharesDocument, frozen=True, kw_only=True):
    """The answer to `subord shares status`."""

    missing: tuple[Missing, ...]


class SharesWhy(shares.WhyDocument, frozen=True, kw_only=True):
    """The answer to `subord shares why`."""

    missing: tuple[Missing, ...]


class HostsStatus(hosts.HostsDocument, frozen=True, kw_only=True):
    """The answer to `subord hosts status`."""

    missing: tuple[Missing, ...]


class Elastic(elastic.ElasticDocument, frozen=True, kw_only=True):
    """The answer to `subord elastic status`, `why` and `nodes`."""

    missing: tuple[Missing, ...]


class Transfer(transfer.TransferDocument, frozen=True, kw_only=True):
    """The answer to `subord transfer status` and `jobs`."""

    missing: tuple[Missing, ...]


class MachinesStatus(machines.MachinesDocument, frozen=True, kw_only=True):
    """The answer to `subord machines status`."""

    missing: tuple[Missing, ...]


class MachinesList(machines.ListDocument, frozen=True, kw_only=True):
    """The answer to `subord machines list`."""

    missing: tuple[Missing, ...]


class MachinesWhy(machines.WhyDocument, frozen=True, kw_only=True):
    """The answer to `subord machines why`."""

    missing: tuple[Missing, ...]


class MachinesDrain(machines.OrderedDocument, frozen=True, kw_only=True):
    """The answer to `subord machines drain`."""

    missing: tuple[Missing, ...]


class MachinesCheck(machines.CheckDocument, frozen=True, kw_only=True):
    """The answer to `subord machines policy check`."""

    missing: tuple[Missing, ...]


class Waited(document.Document, frozen=True, kw_only=True):
    """`missing`: why the state is not reached; null: it is."""

    state: str
    reached: bool
    waited_s: float
    missing: str | None


class Campaign(document.Document, frozen=True, kw_only=True):
    """The result of a campaign of the simulator. `version` is that of subord."""

    version: str
    seeds: int
    first: int
    options: str
    failed: int
    failures: tuple[dict[str, int | str], ...]
    nodes_min: int
    nodes_max: int
    events: int
    lasted_s: float
    cpu_s: float
    jobs: int
    settled_s: dict[str, float]
    settled_share: dict[str, float]
    tight_shares: dict[str, dict[str, float]]
    machine: dict[str, str | int | None]


OLD_NAMES: dict[str, dict[str, str]] = {
    "ChangeDocument": {"time": "wall"},
    "EventLine": {"time": "wall"},
    "ErrorsDocument": {"complete": "is_whole"},
    "KeyChange": {"confirmed": "everybody", "coverage": "nodes"},
}
"""What `OLD_NAMES` of the definitions does not say: new values, and what a command adds."""

COMMANDS: dict[str, tuple[Any, str]] = {
    "status": (fields.StatusDocument, "/v1/status"),
    "tree": (members.TreeDocument, "/v1/tree"),
    "members": (members.MembersDocument, "/v1/members"),
    "ping": (Pinged, ""),
    "exec": (Executed, ""),
    "files push": (Pushed, ""),
    "files publish": (Published, ""),
    "files status": (Published, ""),
    "files diff": (Differing, ""),
    "files history": (showing_sets.HistoryDocument, ""),
    "files rollback": (Published, ""),
    "files gc": (Collected, ""),
    "metrics": (Metrics, ""),
    "account report": (reporting.ReportDocument, ""),
    "account status": (AccountStatus, ""),
    "shares set": (shares.SetDocument, ""),
    "shares status": (SharesStatus, ""),
    "shares why": (SharesWhy, ""),
    "shares off": (shares.PlanDocument, "/v1/shares/plan"),
    "hosts": (hosts.TableDocument, "/v1/hosts/table"),
    "hosts status": (HostsStatus, ""),
    "hosts off": (hosts.TableDocument, "/v1/hosts/table"),
    "elastic set": (elastic.SetDocument, ""),
    "elastic off": (elastic.PlanDocument, "/v1/elastic/plan"),
    "elastic status": (Elastic, ""),
    "elastic why": (Elastic, ""),
    "elastic nodes": (Elastic, ""),
    "elastic poll": (elastic.PollingDocument, "POST /v1/elastic/poll"),
    "elastic statistics": (elastic.PollsDocument, "/v1/elastic/polls"),
    "machines plan": (machines.PublishedDocument, ""),
    "machines off": (machines.PlanDocument, "/v1/machines/plan"),
    "machines list": (MachinesList, ""),
    "machines status": (MachinesStatus, ""),
    "machines why": (MachinesWhy, ""),
    "machines drain": (MachinesDrain, ""),
    "machines policy check": (MachinesCheck, ""),
    "transfer key": (transfer.KeyDocument, ""),
    "transfer plan": (transfer.PublishedDocument, ""),
    "transfer off": (transfer.PublishedDocument, ""),
    "transfer setup": (transfer.SetupDocument, ""),
    "transfer status": (Transfer, ""),
    "transfer jobs": (Transfer, ""),
    "errors": (fields.ErrorsDocument, "/v1/errors"),
    "events": (EventLine, ""),
    "why": (fields.WhyDocument, "/v1/why"),
    "wait": (Waited, ""),
    "forget": (Forgotten, ""),
    "maintain": (fields.StatementDocument, ""),
    "nodeset": (NodeSet, ""),
    "key list": (fields.AllKeysDocument, "/v1/keys"),
    "key install": (KeyChange, ""),
    "key use": (KeyChange, ""),
    "key remove": (KeyChange, ""),
    "operator check": (CheckedOperators, ""),
    "operator who": (Who, ""),
    "operator sign": (DryRun, ""),
    "operator revoke": (Revoked, ""),
    "operator revoked": (Revocations, ""),
    "operator strict": (Strict, ""),
    "log-level": (fields.LogDocument, "/v1/log-level"),
    "position": (position.Answer, ""),
    "speedup": (speedup.Answer, ""),
    "config check": (None, ""),
    "simulate": (Campaign, ""),
}
"""The commands with `--json`: the definition, and the paths of the HTTP API that answer the same."""
OTHERS: dict[str, tuple[Any, str]] = {
    "tree-rows": (members.TreeDocument, "/v1/tree?form=rows"),
    "changes": (members.ChangesDocument, "/v1/changes"),
    "counters": (fields.CountersDocument, "/v1/counters"),
    "names": (fields.NamesDocument, "/v1/names"),
    "job-done": (fields.JobsDocument, "/v1/job-done"),
    "records": (fields.RecordsDocument, "/v1/records"),
    "operators": (operators.OperatorsDocument, "/v1/operators"),
    "metrics-asked": (metrics.MetricsDocument, "/v1/metrics"),
    "metrics-figures": (metrics.MetricsDocument, "/v1/metrics/figures"),
    "metrics-classes": (metrics.ClassesDocument, "/v1/metrics/classes?name=NAME"),
    "metrics-branch": (MetricsByBranch, "subord metrics NAME --by branch --json"),
    "metrics-branch-asked": (branches.BranchesDocument, "/v1/metrics/branches"),
    "metrics-history": (MetricsHistory, "subord metrics --history TIME --json"),
    "metrics-history-asked": (past.HistoryDocument, "/v1/metrics/history"),
    "metrics-plan": (carried.PlanDocument, "/v1/metrics/plan"),
    "shares-past": (SharesPastDocument, "/v1/shares/past"),
    "simulate-shares": (Shares, "subord simulate shares --json"),
    "account-asked": (account_core.AccountDocument, "/v1/account"),
    "shares-asked": (shares.SharesDocument, "/v1/shares"),
    "shares-why-asked": (shares.WhyDocument, "/v1/shares/why?node=ADDRESS"),
    "hosts-asked": (hosts.HostsDocument, "/v1/hosts"),
    "elastic-asked": (elastic.ElasticDocument, "/v1/elastic"),
    "elastic-manager": (elastic.ElasticDocument, "/v1/elastic/manager"),
    "elastic-past": (ElasticPastDocument, "/v1/elastic/past"),
    "elastic-steps": (steps.StepsDocument, "POST /v1/elastic"),
    "machines-asked": (machines.MachinesDocument, "/v1/machines"),
    "machines-manager": (machines.MachinesDocument, "/v1/machines/manager"),
    "machines-servers": (machines.ListDocument, "/v1/machines/servers"),
    "machines-why-asked": (machines.WhyDocument, "/v1/machines/why?job=ID"),
    "machines-shown": (MachinesShownDocument, "/v1/machines/shown"),
    "machines-where": (machines.WhereDocument, "/v1/machines/where"),
    "transfer-asked": (transfer.TransferDocument, "/v1/transfer"),
    "transfer-published": (transfer.PlanDocument, "/v1/transfer/plan"),
    "transfer-listed": (transfer.TransferDocument, "/v1/transfer/jobs"),
    "transfer-site": (transfer.SiteDocument, "/v1/transfer/site"),
    "machines-ordered": (machines.OrderedDocument, "POST /v1/machines"),
    "ping-asked": (coverage.PingDocument, "/v1/ping"),
    "exec-node": (showing.NodeLine, "subord exec --json: each node"),
    "exec-running": (earlier.RunningLine, "subord exec --list --json: each command"),
    "exec-asked": (ExecLine, "POST /v1/exec"),
    "files-asked": (FilesLine, "POST /v1/files"),
    "sets": (sets.SetsDocument, "/v1/sets"),
    "blobs-prune": (blobs.PrunedDocument, "POST /v1/blobs/prune"),
    "blobs-chunk": (blobs.ChunkDocument, "POST /v1/blobs/chunk"),
    "blobs": (blobs.BlobDocument, "POST /v1/blobs"),
    "blobs-fetch": (blobs.FetchedDocument, "POST /v1/blobs/fetch"),
    "statements": (orders.StatementsDocument, "/v1/statements"),
    "orders-prepared": (orders.PreparedDocument, "/v1/orders/prepare"),
    "orders": (orders.JudgedDocument, "POST /v1/orders"),
    "orders-under-way": (orders_under_way.OrdersDocument, "/v1/orders"),
}
"""Answers of the HTTP API that no command prints."""


def schema(name: str) -> Schema:
    """The schema of a command or an answer, by its name in the tables above."""
    definition = (COMMANDS | OTHERS)[name][0]
    found = _of_settings() if definition is None else msgspec.json.schema(definition)
    for title, each in found.get("$defs", {}).items():
        _finish(title, each)
    if name == "tree":
        _nest(found)
    for each in (found, *found.get("$defs", {}).values()):
        if "properties" in each:
            each["additionalProperties"] = False
    if definition in (position.Answer, speedup.Answer):
        found["$defs"]["Answer"]["properties"]["schema_version"] = {"type": "integer"}
    head = {"$schema": DIALECT, "$id": f"urn:subord:{SCHEMA_VERSION}:{_file(name)}"}
    return head | _with_plain_patterns(found)


def _finish(title: str, definition: Schema) -> None:
    """Mark the old names."""
    known = (*vars(fields).values(), EventLine, KeyChange)
    of_type = next((each for each in known if isinstance(each, type) and each.__name__ == title), None)
    names = {**getattr(of_type, "OLD_NAMES", {}), **OLD_NAMES.get(title, {})}
    for new, old in names.items():
        definition["properties"][old] |= {"deprecated": True, "$comment": f"now `{new}`"}


def _nest(found: Schema) -> None:
    """`subord tree --json` has the rows as `roots`, each with its `subordinates`."""
    tree, row = found["$defs"]["TreeDocument"], found["$defs"]["TreeRow"]
    rows = tree["properties"].pop("rows")
    tree["required"] = ["roots" if name == "rows" else name for name in tree["required"]]
    tree["properties"] |= {
        "roots": rows,
        "never_came": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
    }
    row["properties"]["subordinates"] = rows


def _of_settings() -> Schema:
    """Of `config check`: all settings by their dotted names."""
    settings = dotted(load(None, ["cluster.network=10.0.0.0/24", "cluster.insecure=true"]))
    head = {"schema_version": {"type": "integer"}, "file": {"type": "string"}, "positions": {"type": "integer"}}
    properties = {**head, **{name: {} for name in settings}}
    checked = {"type": "object", "additionalProperties": {"type": "string"}}
    return {"type": "object", "properties": {**properties, "here": checked}, "required": list(properties)}


def _with_plain_patterns(value: Any) -> Any:
    r"""`$` in place of Python's `\Z`."""
    if isinstance(value, dict):
        return {
            key: each.replace("\\Z", "$")
            if key == "pattern" and isinstance(each, str)
            else _with_plain_patterns(each)
            for key, each in value.items()
        }
    return [_with_plain_patterns(each) for each in value] if isinstance(value, list) else value


def _file(name: str) -> str:
    return name.replace(" ", "-")


def _text(name: str) -> str:
    return json.dumps(schema(name), indent=1) + "\n"


def index() -> str:
    """The table of all schemas."""
    lines = ["| command | path | schema |", "|---|---|---|"]
    for name, (_, path) in (COMMANDS | OTHERS).items():
        command = f"`subord {name} --json`" if name in COMMANDS else ""
        link = f"[{_file(name)}.json](schemas/{_file(name)}.json)"
        lines.append(f"| {command} | {f'`{path}`' if path else ''} | {link} |")
    return "\n".join(lines) + "\n"


def old_names() -> str:
    """The table of old names."""
    lines = ["| old name | new name | in |", "|---|---|---|"]
    seen: dict[tuple[str, str], set[str]] = {}
    for name in COMMANDS | OTHERS:
        for each in schema(name).get("$defs", {}).values():
            for old, field in each.get("properties", {}).items():
                if field.get("deprecated"):
                    new = field["$comment"].removeprefix("now ")
                    seen.setdefault((old, new), set()).add(_file(name))
    rows = (f"| `{old}` | {new} | {', '.join(sorted(files))} |" for (old, new), files in sorted(seen.items()))
    return "\n".join([*lines, *rows]) + "\n"


FILES: dict[str, Callable[[], str]] = {
    f"docs/schemas/{_file(name)}.json": partial(_text, name) for name in COMMANDS | OTHERS
}
PARTS: dict[str, Callable[[], str]] = {"schemas": index, "old-names": old_names}
