"""Session files of several agents grow while they are searched; daemons die meanwhile."""

import threading

import pytest

from growing import Searcher, Writer, counted, growing_files
from harness import CORTEX, PATIENCE_S, Sandbox, eventually
from soaking import soak

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def test_everything_that_is_appended_by_several_agents_is_found(box: Sandbox) -> None:
    files = growing_files(box.root, 2)
    for file in files:
        file.grow()
    stop = threading.Event()
    threads = [Writer([file], 0.05, stop) for file in files]
    searcher = Searcher(box, files, stop)
    for thread in (*threads, searcher):
        thread.start()
    eventually(lambda: len(searcher.waits_s) > 8, "searches while files grow")
    stop.set()
    for thread in (*threads, searcher):
        thread.join(PATIENCE_S)
    assert searcher.failures == []
    wanted = {file.session: file.lines for file in files}
    eventually(lambda: counted(box) == wanted, "every line")
    with box.client([*CORTEX, "mcp"]) as client:
        client.handshake()
        for file in files:
            for name in (file.words[0], file.words[len(file.words) // 2], file.words[-1]):
                found = client.call("search", query=name, verbosity="full")["result"]
                hits = found["structuredContent"]["hits"]
                assert [hit["session_id"] for hit in hits] == [file.session], name


@pytest.mark.parametrize("seconds", [3.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_daemons_killed_ready_and_starting_lose_nothing_and_double_nothing(
    box: Sandbox, seconds: float
) -> None:
    told = soak(box, seconds, kill_every_s=2, sample=int(seconds))
    assert told["ok"], told
    assert told["kills_while_starting"]
