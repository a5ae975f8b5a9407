"""Run the CLI. `cortex mcp` goes straight to the bridge, which loads the standard library only."""

import sys

if not __package__:  # run as a file by ./cortex, without site: make `cortex` importable
    sys.path.insert(0, __file__[: __file__.rindex("cortex") - 1])


def main() -> int:
    """Run one command and return its exit code."""
    try:
        return _run()
    except KeyboardInterrupt:
        return 130


def _run() -> int:
    arguments = sys.argv[1:]
    if arguments[:1] == ["mcp"] and not {"-h", "--help"} & set(arguments):
        from cortex.edge.bridge import main as bridge  # noqa: PLC0415  # keeps click out of it

        return bridge(arguments[1:])
    from cortex.cli.main import main as cli  # noqa: PLC0415

    return cli(arguments)


if __name__ == "__main__":
    sys.exit(main())
