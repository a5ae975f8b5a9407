from pathlib import Path

from cortex.toolsets.operations.services.output import Logs


def test_a_log_is_emptied_in_place_so_that_its_writer_goes_on(tmp_path: Path) -> None:
    logs = Logs(tmp_path, max_bytes=10, backups=2)
    with logs.path("web").open("a") as service:
        for text in ("one" * 4, "two" * 4, "six" * 4, "end"):
            service.write(text)
            service.flush()
            logs.rotate("web")
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    # Of what is longer than a file may be, the end is kept.
    assert kept == {"web.log": "end", "web.log.1": "x" + "six" * 3, "web.log.2": "o" + "two" * 3}


def test_without_backups_a_long_log_is_only_emptied(tmp_path: Path) -> None:
    logs = Logs(tmp_path, max_bytes=3, backups=0)
    logs.path("web").write_text("long")
    assert logs.rotate("web")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"web.log": ""}


def test_a_short_log_and_a_missing_one_stay_as_they_are(tmp_path: Path) -> None:
    logs = Logs(tmp_path, max_bytes=10, backups=1)
    logs.path("web").write_text("short")
    assert not logs.rotate("web")
    assert not logs.rotate("none")


def test_what_a_crash_left_of_a_copy_is_written_over(tmp_path: Path) -> None:
    logs = Logs(tmp_path, max_bytes=2, backups=1)
    (tmp_path / "web.log.new").write_text("half a co")
    logs.path("web").write_text("ab")
    assert logs.rotate("web")
    assert (tmp_path / "web.log.1").read_text() == "ab"
    assert not (tmp_path / "web.log.new").exists()
