import subprocess

from tests.tools.processes import Marker, wait_until
from tools.offspring import Offspring, give_back, put_stamp, take_stamp


def start(command: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(["bash", "-c", command], start_new_session=True)


async def test_what_was_started_before_the_stamp_came_is_found_as_an_orphan() -> None:
    marker = Marker()
    stamp = take_stamp()
    leader = start(
        f"(trap : USR1; {marker.sleep} & {marker.sleep}) & exec {marker.sleep}"
    )
    offspring = Offspring(leader.pid, stamp)
    try:
        await wait_until(
            lambda: sum(line.startswith(marker.sleep) for line in marker.alive()) == 3
        )
        put_stamp(leader.pid, stamp)
        leader.kill()
        leader.wait()

        assert sorted(p.name for p in offspring.find()) == ["bash", "sleep", "sleep"]
        assert sorted(offspring.end(5)) == ["bash", "sleep", "sleep"]
    finally:
        offspring.kill_at_once()
        give_back(stamp)

    assert (marker.alive(), offspring.find()) == ([], [])
