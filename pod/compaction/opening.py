"""From a manifest and a session to the watch over the session's context."""

from collections.abc import Sequence

from pod.compaction.compactor import Compactor, Tell
from pod.compaction.limits import mode_of, thresholds_in, thresholds_of
from pod.compaction.prune import PruneLimits
from pod.compaction.settings import Settings
from pod.compaction.thresholds import Thresholds
from pod.compaction.watch import ContextWatch
from pod.entries import Mode
from pod.hooks.hooks import Hooks
from pod.maintenance import Maintenance
from pod.manifest import CompactionTable, Manifest
from pod.measured import calibration_of, last_measured
from pod.session import Session
from tools.files_in_use import FilesInUse
from tools.scope import Scope
from worker.compact.task import Budgets
from worker.items import ToolResult
from worker.model import Model
from worker.occupancy import Occupancy
from worker.permit import Permit, allow_all
from worker.turn import Setup


def open_watch(
    manifest: Manifest,
    session: Session,
    setup: Setup,
    *,
    scope: Scope,
    worker_model: Model,
    worker_permit: Permit = allow_all,
    files: FilesInUse,
    tell: Tell,
    summarizers: Sequence[Model] = (),
    hooks: Hooks | None = None,
    maintenance: Maintenance | None = None,
    asked: Setup | None = None,
) -> ContextWatch:
    """Return the watch over *session*'s context, with what its log knows of it.

    *summarizers* are the models "summarize" asks, in order; without any it is
    *worker_model*. *asked* is what they and compact workers run with, where that
    is not *setup*: so a model can make room for the one that comes next. Watches
    over one session share their *maintenance*.
    """
    table = manifest.compaction
    compactor = Compactor(
        session,
        asked or setup,
        settings_of(manifest),
        scope=scope,
        worker_model=worker_model,
        worker_permit=worker_permit,
        files=files,
        occupancy=_occupancy(session, setup),
        tell=tell,
        maintenance=maintenance,
        summarizers=summarizers,
        hooks=hooks,
    )

    def limits(window: int | None) -> Thresholds | None:
        most = setup.model.max_tokens
        if window is None or window == setup.model.window:
            return thresholds_of(table, window=window, max_tokens=most)
        return thresholds_in(table, window=window, max_tokens=most)

    return ContextWatch(compactor, derive=limits, window=setup.model.window)


def settings_of(manifest: Manifest) -> Settings:
    """Return the manifest's [compaction] and [prune] as the compactor takes them."""
    table, prune = manifest.compaction, manifest.prune
    return Settings(
        enabled=table.enabled,
        order=rungs_of(table),
        retained_tokens=table.retained_tokens,
        directive_budget=table.directive_budget,
        min_gain=table.min_gain,
        default_references=table.default_references,
        max_failures=table.max_failures,
        cooldown=table.cooldown,
        worker=Budgets(
            auto_read=table.auto_read_budget,
            overview=table.overview_tokens,
            max_input_tokens=table.compact_worker_max_input_tokens,
            max_requests=table.worker_max_requests,
            seconds=table.worker_timeout,
            summary_target=table.summary_target,
            summary_cap=table.summary_cap,
        ),
        prune=PruneLimits(prune.protect_tokens, prune.min_savings)
        if prune.enabled
        else None,
        keep_recent_tokens=table.keep_recent_tokens,
        reserve_tokens=table.reserve_tokens,
        seconds=table.summarize_timeout,
        short_summary=table.short_summary,
        remote_endpoint=table.remote_endpoint,
    )


def rungs_of(table: CompactionTable) -> tuple[Mode, ...]:
    """Return what is tried, best first: the mode, then the rest of the order."""
    first = mode_of(table)
    return (first, *(mode for mode in table.order if mode != first))


def files_of(session: Session) -> FilesInUse:
    """Return the files the session's tools used, as far as its window tells.

    Of what is behind the latest compaction it has what that one wrote down.
    """
    files = FilesInUse()
    if (before := session.window.compaction) is not None:
        files.touch(reversed([reference.path for reference in before.references]))
        files.touch(reversed([file.path for file in before.auto_read]))
        files.touch(before.details.read_files)
        files.touch(before.details.modified_files)
    for item in session.items:
        if isinstance(item, ToolResult):
            files.touch(item.referenced_files)
    return files


def _occupancy(session: Session, setup: Setup) -> Occupancy:
    model = setup.model.id
    occupancy = Occupancy(
        model=setup.model,
        system=setup.system,
        specs=setup.specs,
        counter=setup.counter,
        calibration=calibration_of(model, session.path_entries()),
    )
    if (measured := last_measured(model, session.recent_entries())) is not None:
        occupancy.measured(*measured)
    return occupancy
