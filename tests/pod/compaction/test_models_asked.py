"""Who is asked what: the run's model goes on where a compaction's has written."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tests.pod.compaction.pods import MODEL, TABLE, FillingPod
from tests.worker.compact import summarisers
from worker.api import Request
from worker.client import Client, Delta, Response

OTHER = replace(MODEL, id="other")


class Noting(Struct):
    """A client that notes which model each request is for, and whether it has tools."""

    client: Client
    asked: list[tuple[str, bool]]

    async def ask(
        self, request: Request, on_delta: Callable[[Delta], None]
    ) -> Response:
        self.asked.append((request.model, bool(request.tools)))
        # The one that answers plays both.
        return await self.client.ask(replace(request, model=MODEL.id), on_delta)

    async def count_tokens(self, request: Request) -> int:
        return await self.client.count_tokens(request)


async def test_behind_a_summary_by_another_model_the_run_goes_on_with_its_own(
    tmp_path: Path,
) -> None:
    asked: list[tuple[str, bool]] = []
    pod = FillingPod(
        tmp_path / "s.jsonl",
        calls=8,
        table=replace(
            TABLE, mode="summarize", order=("mechanical",), keep_recent_tokens=4_000
        ),
        summariser=summarisers.careful(),
        summarizers=(OTHER,),
        wrap=lambda client: Noting(client, asked),
    )

    end = await pod.pod.run("Fetch everything.")
    pod.close()

    assert [e.receipt.attempts for e in pod.compactions] == [("summarize: used",)]
    assert end.outcome == "finished"
    assert [entry.receipt.model for entry in pod.compactions] == ["other"]
    assert set(asked) == {(MODEL.id, True), ("other", False)}
    assert asked[-1] == (MODEL.id, True)
    assert asked.count(("other", False)) == pod.compactions[0].receipt.worker_requests
