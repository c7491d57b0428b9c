"""A PostgreSQL server's start, with io_method=io_uring; a table that is larger than its buffers written and read thrice; and its end.
What it answered stands in FOLDER/answer.

    postgres_session.py SERVER FOLDER     FOLDER/data is prepared; not as root, which the server refuses
"""

import subprocess
import sys
import time
from pathlib import Path

ROWS = 200000
READS = 3

server, folder = sys.argv[1], Path(sys.argv[2])


def client(sql):
    command = ["psql", "-X", "-h", folder, "-U", "peers", "-At", "-c", sql, "postgres"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "io_method": "io_uring", "shared_buffers": "16MB"}
process = subprocess.Popen([server, "-D", folder / "data", *(f"--{name}={value}" for name, value in settings.items())])
status = folder / "data/postmaster.pid"
while process.poll() is None and not (status.exists() and status.read_text().rstrip().endswith("ready")):
    time.sleep(0.1)
client(f"create table t as select i, repeat(i::text, 50) as v from generate_series(1, {ROWS}) as i")
answers = {client("select count(*), sum(length(v)) from t") for _ in range(READS)}
(folder / "answer").write_text(" ".join(sorted(answers)))
process.send_signal(2)
sys.exit(process.wait())
