"""What jobs in a transfer queue need: `qstat -j NUMBERS -xml`.

Input is its text; outputs are specs, or why a job cannot run elsewhere. The text of a script is not in it: the
starter method has that. Requests are in the words of this cell; that which keeps a job at home is left out. After
qalter the elements of lists have other names than after qsub.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final
from xml.etree.ElementTree import Element, ParseError, fromstring

import msgspec

from subord.services.batch.faults import AnswerError
from subord.services.batch.gridengine.xml import readable, text_in
from subord.services.batch.records import Refused
from subord.services.transfer.jobs import Spec, key_of

_INTERACTIVE, _BINARY, _ARRAY = 0x1E, 0x40, 0x80
_OWN: Final = "__SGE_PREFIX__"
_ONLY_HERE: Final = {
    "JB_checkpoint_name": "a checkpointing environment",
    "JB_master_hard_queue_list": "a queue for its master task",
}
_STAYS: Final = "nothing was changed: it can run in its own cluster only"


def specs_in(text: str, transfer: Sequence[str], remote: str) -> dict[str, Spec | Refused]:
    """By the number of the job. `transfer`: the transfer queues. `remote`: the complex of jobs that may leave. Raises
    AnswerError."""
    return {text_in(job, "JB_job_number"): _described(job, transfer, remote) for job in jobs_in(text)}


def jobs_in(text: str) -> list[Element]:
    """Raises AnswerError."""
    try:
        found = fromstring(readable(text)).findall("djob_info/element")  # noqa: S314 - no document type, so no entities
    except ParseError as error:
        raise AnswerError(f"the answer is not whole, or no XML: {error}") from None
    return [each for each in found if text_in(each, "JB_job_number")]


def requests_in(job: Element, kind: str) -> tuple[tuple[str, str], ...]:
    """`kind`: hard or soft. Raises AnswerError: what was requested is not to be lost."""
    found = [
        (text_in(each, "CE_name"), text_in(each, "CE_stringval"))
        for each in job.findall(f"JB_{kind}_resource_list/*")
    ]
    if not all(name for name, _ in found):
        raise AnswerError("a request has no name")
    return tuple(found)


def _described(job: Element, transfer: Sequence[str], remote: str) -> Spec | Refused:
    """What is wrong with one job is not the fault of the others."""
    number = text_in(job, "JB_job_number")
    try:
        kind = int(text_in(job, "JB_type") or 0)
        if (reason := _only_here(job, kind)) is not None:
            return Refused(f"job {number} has {reason}; {_STAYS}")
        spec = _spec(job, kind, transfer, remote)
        msgspec.json.decode(msgspec.json.encode(spec), type=Spec)
    except msgspec.ValidationError as error:
        return Refused(f"job {number} has more than another cluster can be told of ({error}); {_STAYS}")
    except (ValueError, AnswerError) as error:
        return Refused(f"job {number} cannot be described ({error}); {_STAYS}")
    return spec


def _only_here(job: Element, kind: int) -> str | None:
    if kind & _INTERACTIVE:
        return "a terminal"
    if key_of(text_in(job, "JB_account")) is not None:
        return "the mark of a job of another cluster"
    if text_in(job, "JB_ar") not in ("", "0"):
        return "an advance reservation"
    for tag, what in _ONLY_HERE.items():
        found = job.find(tag)
        if found is not None and ((found.text or "").strip() or len(found)):
            return what
    return None


def _spec(job: Element, kind: int, transfer: Sequence[str], remote: str) -> Spec:
    """Raises ValueError."""
    command = text_in(job, "JB_script_file")
    tasks = job.find("JB_ja_structure/*") if kind & _ARRAY else None
    return Spec(
        user=text_in(job, "JB_owner"),
        name=text_in(job, "JB_job_name"),
        script=f'exec {shlex.quote(command)} "$@"\n' if kind & _BINARY else "",
        arguments=tuple(_texts(job, "JB_job_args/*/ST_name")),
        environment=tuple(_variables(job)),
        directory=text_in(job, "JB_cwd"),
        shell=next(_texts(job, "JB_shell_list/*/PN_path"), ""),
        output=next(_texts(job, "JB_stdout_path_list/*/PN_path"), ""),
        errors=next(_texts(job, "JB_stderr_path_list/*/PN_path"), ""),
        is_merged=text_in(job, "JB_merge_stderr") == "true",
        requests=tuple(each for each in requests_in(job, "hard") if each[0] != remote),
        wishes=tuple(each for each in requests_in(job, "soft") if each[0] != remote),
        queue=",".join(each for each in _texts(job, "JB_hard_queue_list/*/QR_name") if each not in transfer),
        parallel=text_in(job, "JB_pe"),
        slots=int(next(_texts(job, "JB_pe_range/*/RN_min"), "1")) if text_in(job, "JB_pe") else 1,
        project=text_in(job, "JB_project"),
        first=0 if tasks is None else int(text_in(tasks, "RN_min")),
        last=0 if tasks is None else int(text_in(tasks, "RN_max")),
        step=1 if tasks is None else int(text_in(tasks, "RN_step")),
        may_rerun=text_in(job, "JB_restart") == "1",
    )


def _texts(job: Element, path: str) -> Iterator[str]:
    return ((each.text or "").strip() for each in job.findall(path))


def _variables(job: Element) -> Iterator[tuple[str, str]]:
    """Those that the user has chosen."""
    for each in job.findall("JB_env_list/*"):
        name, value = text_in(each, "VA_variable"), each.findtext("VA_value")
        if value is not None and not name.startswith(_OWN):
            yield name, value
