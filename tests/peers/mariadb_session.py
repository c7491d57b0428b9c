"""A MariaDB server's start, some thousand rows written and read, and its end. What it answered stands in FOLDER/answer.

    mariadb_session.py SERVER FOLDER     FOLDER/data is prepared
"""

import subprocess
import sys
import time
from pathlib import Path

ROWS = 20000

server, folder = sys.argv[1], Path(sys.argv[2])
socket = folder / "socket"


def client(sql):
    command = ["mariadb", "--no-defaults", f"--socket={socket}", "-uroot", "-N", "-e", sql]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


# Few pages in memory, and none in the page cache, so that it must read what it wrote.
process = subprocess.Popen(
    [server, "--no-defaults", f"--datadir={folder}/data", f"--socket={socket}", "--skip-networking", "--user=root",
     "--innodb-buffer-pool-size=8M", "--innodb-flush-method=O_DIRECT"])
while process.poll() is None and not socket.exists():
    time.sleep(0.1)
client("create database peers; create table peers.t (id int primary key, v varchar(200))")
for start in range(0, ROWS, 1000):
    # Not in the order of the key: 7919 is prime.
    values = ",".join(f"({i * 7919 % ROWS}, repeat('{i % 10}', 200))" for i in range(start, start + 1000))
    client(f"insert into peers.t values {values}")
answer = client("select count(*), sum(length(v)) from peers.t")
(folder / "answer").write_text(answer)
process.terminate()
sys.exit(process.wait())
