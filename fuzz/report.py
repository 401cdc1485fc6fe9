#!/usr/bin/env python3
"""Summarizes the output of a fuzzer run in one line."""

import re
import sys

said = sys.stdin.read()


def last(pattern):
    found = re.findall(pattern, said)
    return int(found[-1]) if found else 0


print(
    f"{sys.argv[1]:16}{last('number_of_executed_units: ([0-9]+)'):>12,} inputs, "
    f"{last('average_exec_per_sec: +([0-9]+)'):,} a second, {last(' cov: ([0-9]+)'):,} locations covered, "
    f"{last(' corp: ([0-9]+)')} inputs kept, {last('peak_rss_mb: +([0-9]+)')} MB at most"
)
