"""Run the loopback server by itself: ``python -P -m worker.loopback``.

The first line on stdout is the port; the server runs until it is stopped.
"""

import argparse
import signal
import sys

import trio

from worker.loopback.faults import Faults, parse_faults
from worker.loopback.server import serve
from worker.policy import Echo, Policy, Script, say


def main(arguments: list[str] | None = None) -> int:
    """Parse *arguments* and serve until SIGINT or SIGTERM. Returns the exit code."""
    parser = _parser()
    told = parser.parse_args(arguments)
    try:
        faults = parse_faults(told.faults)
    except ValueError as error:
        parser.error(str(error))
    try:
        return trio.run(_run, told, faults)
    except OSError as error:
        sys.stderr.write(f"cannot listen on port {told.port}: {error.strerror}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -P -m worker.loopback",
        description="Speak the Anthropic Messages API on loopback, without a model.",
    )
    add = parser.add_argument
    add("--policy", choices=("echo", "say"), default="echo", help="what answers")
    add("--tool", default="bash", help="echo: the tool it calls (default bash)")
    add("--times", type=int, default=3, help="echo: how often (default 3)")
    add("--arguments", default='{"command": "true"}', help="echo: the call's JSON")
    add("--text", default="Hello.", help="say: the answer")
    add("--port", type=int, default=0, help="0 takes a free one")
    add("--window", type=int, default=200_000, help="tokens (default 200000)")
    add("--api-key", default="loopback", help="the key to accept (default loopback)")
    add("--faults", default="", help="NUMBER:FAULT,…, for example 3:529,5:cut")
    add("--interleave", action="store_true", help="mix the blocks of parallel calls")
    return parser


def _policy(told: argparse.Namespace) -> Policy:
    if told.policy == "say":
        return Script([], then=say(told.text))
    return Echo(told.tool, times=told.times, arguments=told.arguments)


async def _run(told: argparse.Namespace, faults: Faults) -> int:
    serving = serve(
        _policy(told),
        window=told.window,
        api_key=told.api_key,
        faults=faults,
        interleave=told.interleave,
        port=told.port,
    )
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with serving as server:
            sys.stdout.write(f"{server.base_url.rpartition(':')[2]}\n")
            sys.stdout.flush()
            async for _ in signals:
                break
    return 0


if __name__ == "__main__":
    sys.exit(main())
