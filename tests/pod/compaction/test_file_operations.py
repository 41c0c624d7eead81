from msgspec.structs import replace

from pod.compaction.file_operations import file_details
from pod.entries import BranchSummary, FileDetails
from tests.makers import call, user
from tests.pod.compaction.histories import SUMMARY
from worker.items import Item, ToolResult


def used(
    tool: str, path: str, *, call_id: str = "", is_error: bool = False, real: str = ""
) -> list[Item]:
    id = call_id or f"{tool}-{path}"
    return [
        call(id, name=tool, arguments=f'{{"path":"{path}"}}'),
        ToolResult(
            id,
            "done",
            is_error=is_error,
            referenced_files=(real,) if real else (),
        ),
    ]


def test_reads_and_changes_are_told_apart() -> None:
    head = [
        user("a"),
        *used("read_file", "a.py", real="/w/a.py"),
        *used("read_file", "b.py", real="/w/b.py"),
        *used("edit_file", "b.py", real="/w/b.py"),
        *used("write_file", "c.py", real="/w/c.py"),
        *used("bash", "d.py"),
    ]

    assert file_details(head, None) == FileDetails(
        read_files=("/w/a.py",), modified_files=("/w/b.py", "/w/c.py")
    )


def test_calls_that_failed_or_have_no_result_do_not_count() -> None:
    head = [
        *used("read_file", "gone.py", is_error=True),
        *used("write_file", "no.py", is_error=True),
        call("open", name="read_file", arguments='{"path":"open.py"}'),
    ]

    assert file_details(head, None) == FileDetails()


def test_the_path_of_the_call_will_do_where_the_tool_names_none() -> None:
    head = [
        *used("read_file", "a.py"),
        call("bad", name="read_file", arguments='{"path":3}'),
        ToolResult("bad", "done"),
    ]

    assert file_details(head, None) == FileDetails(read_files=("a.py",))


def test_files_add_up_over_compactions_the_last_one_touched_at_the_end() -> None:
    before = FileDetails(read_files=("a", "b", "c"), modified_files=("x", "y"))
    previous = replace(SUMMARY, details=before)
    head = [
        *used("read_file", "a"),
        *used("write_file", "x"),
        *used("edit_file", "b"),
        *used("read_file", "y"),
    ]

    assert file_details(head, previous) == FileDetails(
        read_files=("c", "a"), modified_files=("y", "x", "b")
    )
    assert file_details([], previous) == before


def test_what_a_hook_made_of_it_does_not_count() -> None:
    previous = replace(SUMMARY, details=FileDetails(read_files=("a",)), from_hook=True)

    assert file_details([], previous) == FileDetails()


def test_the_files_of_branches_that_were_left_are_carried_on() -> None:
    """Unless a hook made the summary."""
    details = FileDetails(read_files=("r.py", "b.py"), modified_files=("m.py",))
    branches = [
        BranchSummary(from_id="x", summary="s", details=details),
        BranchSummary(
            from_id="x",
            summary="s",
            details=FileDetails(read_files=("hook.py",)),
            from_hook=True,
        ),
    ]

    found = file_details(used("edit_file", "b.py"), None, branches)

    assert found == FileDetails(read_files=("r.py",), modified_files=("m.py", "b.py"))


def test_the_tools_of_other_agents_count_too() -> None:
    patch = '{"command":["apply_patch","*** Update File: src/c.py\\n@@"]}'
    viewed = '{"command":"view","path":"d.py"}'
    head: list[Item] = [
        call("1", name="Read", arguments='{"file_path":"a.py"}'),
        ToolResult("1", "done"),
        call("2", name="MultiEdit", arguments='{"file_path":"b.py"}'),
        ToolResult("2", "done"),
        call("3", name="shell", arguments=patch),
        ToolResult("3", "done"),
        call("4", name="str_replace_editor", arguments=viewed),
        ToolResult("4", "done"),
        call("5", name="Bash", arguments='{"command":"ls","path":"e.py"}'),
        ToolResult("5", "done"),
    ]

    assert file_details(head, None) == FileDetails(
        read_files=("a.py", "d.py"), modified_files=("b.py", "src/c.py")
    )
