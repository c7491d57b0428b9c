"""Programs that nobody here wrote, alone and under `iotrail trace`: the same exit status, as many completions as bpftrace counts
beside it, and how much longer they take. Exits with 1 where one differs.

    tests/peers/run.py IOTRAIL [--liburing FOLDER] [--only NAME]... [--test PATTERN]     as root

liburing's own tests are run from FOLDER, where they are built already: one in four by name, or those of PATTERN. The other programs
are used where they are installed.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path

import blocked
import liburing
import programs
from trace import Counter, Peers

CHECKS = {"liburing": liburing.check, "blocked": blocked.check, **programs.CHECKS}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("iotrail", type=Path)
    arguments.add_argument("--liburing", type=Path, help="a folder of liburing's tests, built (*.t)")
    arguments.add_argument("--only", action="append", choices=CHECKS, default=[])
    arguments.add_argument("--test", help="of liburing's tests, those of this name (a shell pattern; default: one in four)")
    asked = arguments.parse_args()
    if os.geteuid() != 0:
        sys.exit("not run: the probes need root")
    if not shutil.which("bpftrace"):
        sys.exit("not run: bpftrace, which counts the same events, is not installed (apt-get install bpftrace)")
    # On a disk, as the programs expect: they use direct I/O.
    work = Path(__file__).resolve().parents[2] / "target" / "peers"
    work.mkdir(parents=True, exist_ok=True)
    peers = Peers(asked.iotrail.resolve(), work, Counter(), asked)
    wrong = [name for name in asked.only or CHECKS if not CHECKS[name](peers)]
    if wrong:
        sys.exit(f"differs: {', '.join(wrong)}")


main()
