#!/usr/bin/env python3
"""Runs the Autobahn test suite against the server's WebSocket stack and evaluates its results.

The server is the example `echo` of crates/server. It uses the listener, handshake, reader, writer and close of a real
server, and returns every message.

    run.py ECHO WSTEST [--cases 1.*,2.*] [--report FILE]
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

# All chapters except the limits (9, which take minutes) and compression (12 and 13, which the server does not offer).
USUAL = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"]

# Accepted behaviours. NON-STRICT: correct, but later than possible. INFORMATIONAL: the protocol does not specify it.
GOOD = {"OK", "NON-STRICT", "INFORMATIONAL"}


def run_suite(wstest, url, cases, directory):
    specification = {
        "outdir": str(directory / "reports"),
        "servers": [{"agent": "bluetick", "url": url}],
        "cases": cases,
        "exclude-cases": ["12.*", "13.*"],
        "exclude-agent-cases": {},
    }
    path = directory / "fuzzingclient.json"
    path.write_text(json.dumps(specification))
    log = directory / "wstest.log"
    with log.open("wb") as output:
        command = [wstest, "-m", "fuzzingclient", "-s", path]
        ended = subprocess.run(command, cwd=directory, stdout=output, stderr=subprocess.STDOUT).returncode
    index = directory / "reports" / "index.json"
    if ended != 0 or not index.exists():
        sys.exit(f"the suite itself failed\n{log.read_text(errors='replace')[-4000:]}")
    return json.loads(index.read_text())["bluetick"]


def place(case):
    return [int(part) for part in case.split(".")]


def judge(results, reports):
    """Returns a table of the results by chapter, and a line for each unaccepted result."""
    behaviours = sorted({result["behavior"] for result in results.values()}, key=lambda name: (name not in GOOD, name))
    chapters = collections.defaultdict(collections.Counter)
    for case, result in results.items():
        chapters[place(case)[0]][result["behavior"]] += 1
    lines = ["| chapter | " + " | ".join(behaviours) + " |", "|---" * (len(behaviours) + 1) + "|"]
    for chapter in sorted(chapters):
        counts = [str(chapters[chapter][name] or "") for name in behaviours]
        lines.append(f"| {chapter} | " + " | ".join(counts) + " |")
    totals = [str(sum(counts[name] for counts in chapters.values())) for name in behaviours]
    lines.append("| all | " + " | ".join(totals) + " |")
    bad = []
    for case, result in sorted(results.items(), key=lambda found: place(found[0])):
        if result["behavior"] not in GOOD or result["behaviorClose"] not in GOOD:
            told = json.loads((reports / result["reportfile"]).read_text())
            bad.append(f"{case}: {result['behavior']}, closing {result['behaviorClose']}: {told['description']} {told['result']} {told['resultClose']}")
    return lines, bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("echo", type=pathlib.Path)
    parser.add_argument("wstest", type=pathlib.Path)
    parser.add_argument("--cases", default=",".join(USUAL))
    parser.add_argument("--report", type=pathlib.Path, help="also write the table to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        server = subprocess.Popen(
            [arguments.echo.resolve(), "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        try:
            url = server.stdout.readline().strip()
            results = run_suite(arguments.wstest.absolute(), url, arguments.cases.split(","), directory)
            still_there = server.poll() is None
        finally:
            # The server ends when its standard input is closed.
            server.stdin.close()
            try:
                ended = server.wait(timeout=60)
            except subprocess.TimeoutExpired:
                server.kill()
                ended = "a kill"
        lines, bad = judge(results, directory / "reports")
        print("\n".join(lines))
        if arguments.report:
            arguments.report.write_text("\n".join(lines) + "\n")
        if not still_there or ended != 0:
            bad.append(f"the server ended early or with an error: {ended}")
        if not results:
            bad.append("no case was run")
        for line in bad:
            print(line, file=sys.stderr)
        sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
