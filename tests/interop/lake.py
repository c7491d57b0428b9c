"""docs/lake.md: every query of the page on DuckDB, ClickHouse and Spark, over two hosts' runs; and a summary of ten million measurements
by Spark in bounded memory. The engines' answers are one another's, and those that Python sums up itself."""

import json
import os
import re
import sqlite3
from pathlib import Path
from statistics import median

from common import WORK, differ, elsewhere, end, fresh, same, tool

PAGE = (Path(__file__).parent / "../../docs/lake.md").read_text()
BLOCKS = re.findall(r"```(\w+) ?(\w*)\n(.*?)```", PAGE, re.S)
QUERIES = [text for language, engine, text in BLOCKS if (language, engine) == ("sql", "")]
OPENING = {engine: text for _, engine, text in BLOCKS if engine}
assert len(QUERIES) == 3 and set(OPENING) == {"duckdb", "clickhouse", "spark"}

EXPERIMENT = """
name = "lake"
title = "A lake"
question = "Are the engines' answers the same?"
expect = "They are."
repeats = 3

[load]
rw = "nop"
runtime = "50ms"
warmup = "5ms"

[matrix]
depth = [1, 16]

[[arm]]
name = "default"

[[arm]]
name = "coop"
ring = "coop_taskrun"
"""

path = WORK / "lake.db"
path.unlink(missing_ok=True)
(WORK / "lake.toml").write_text(EXPERIMENT)
tool("run", WORK / "lake.toml", "--store", path)
other = elsewhere(path)
lake = fresh("lake")
for db in (path, other):
    tool("export", "1", "--store", db, "--parquet", lake)

# The same values, read from the store by Python.
rows = [
    (host, repeat, json.loads(params), json.loads(text))
    for db in (path, other)
    for host, repeat, params, text in sqlite3.connect(db).execute(
        "SELECT hostname, repeat, params, json FROM measurements JOIN cells USING (run, cell)"
    )
]
iops = {(h, p["depth"], p["arm"], r): m["iops"] for h, r, p, m in rows}
cells = sorted({(h, d) for h, d, _, _ in iops})
ratios = []
for host, depth in sorted(cells, key=lambda c: (c[0], str(c[1]))):
    pairs = [iops[host, depth, "coop", r] / iops[host, depth, "default", r] for r in (1, 2, 3)]
    ratios.append((host, str(depth), "coop", 3, median(pairs)))
came = {}
for _, _, _, m in rows:
    for v in m["vehicles"]:
        key = (m["host"]["kernel"], v["vehicle"])
        came[key] = came.get(key, 0) + v["completions"]
by_kernel = sorted(((k, v, n) for (k, v), n in came.items() if n), key=lambda r: (r[0], -r[2], r[1]))


def plain(value):
    return value if isinstance(value, str) else round(float(value), 6)


def table(found):
    return [tuple(plain(v) for v in row) for row in found]


answers = {}


def answered(engine, found):
    answers[engine] = [table(f) for f in found]
    same(f"{engine}: ratio host by host", table(ratios), answers[engine][0])
    same(f"{engine}: completions by kernel", table(by_kernel), answers[engine][1])
    first = next(iter(answers.values()))
    same(f"{engine}: tail of all, as {next(iter(answers))} has it", first[2], answers[engine][2])


try:
    import duckdb

    print(f"DuckDB {duckdb.__version__}")
    duckdb.sql(OPENING["duckdb"])
    answered("DuckDB", [duckdb.sql(q).fetchall() for q in QUERIES])
except ImportError:
    print("not installed: duckdb")

try:
    from chdb.session import Session

    session = Session()
    for statement in OPENING["clickhouse"].split(";\n"):
        if statement.strip():
            session.query(statement.replace("file('lake", f"file('{WORK}/lake"))
    found = []
    for query in QUERIES:
        lines = str(session.query(query, "JSONCompactEachRow")).splitlines()
        read = [json.loads(line) for line in lines]
        # 64-bit integers are text there.
        found.append([[int(v) if isinstance(v, str) and v.isdigit() and i > 1 else v for i, v in enumerate(r)] for r in read])
    print(f"ClickHouse {session.query('SELECT version()', 'CSV')}".strip())
    answered("ClickHouse", found)
except ImportError:
    print("not installed: chdb")

try:
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
    spark = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(f"Spark {spark.version}, with 1 GiB")
    exec(OPENING["spark"], {"spark": spark})
    answered("Spark", [[tuple(r) for r in spark.sql(q).collect()] for q in QUERIES])
    million = int(os.environ.get("LAKE_MILLIONS", "10"))
    if million and "DuckDB" in answers:
        # Real rows, repeated for a hundred hosts.
        big = fresh("big")
        (big / "measurements").mkdir(parents=True)
        each = -(-million * 1_000_000 // (len(rows) * 100))
        duckdb.sql("SET memory_limit = '1GB'; SET preserve_insertion_order = false")
        for host in range(100):
            to = big / f"measurements/host=h{host}/run=1-1"
            to.mkdir(parents=True)
            duckdb.sql(
                f"COPY (SELECT m.* EXCLUDE (host, run) REPLACE (iops * (1 + (i % 97) / 970.0) AS iops) FROM measurements AS m, range({each}) AS t(i)) "
                f"TO '{to}/part.parquet' (FORMAT parquet)"
            )
        spark.read.parquet(f"{big}/measurements").createOrReplaceTempView("measurements")
        n, hosts = spark.sql("SELECT count(*), count(DISTINCT host) FROM measurements").collect()[0]
        same("measurements of the large lake", each * len(rows) * 100, n)
        same("hosts of the large lake", 100, hosts)
        query = "SELECT params['arm'], params['depth'], count(*), avg(iops), percentile_approx(iops, 0.5) FROM measurements GROUP BY 1, 2"
        for row in sorted(map(tuple, spark.sql(query).collect())):
            print("  ", *row)
        fresh("big")
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    most = int(re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{java}/status").read_text())[1]) // 1024
    print(f"   most memory that Spark held: {most} MiB")
    same("it stayed below 2 GiB", True, most < 2048)
    spark.stop()
except ImportError:
    print("not installed: pyspark")
except Exception as e:  # Java's side
    print(f"not installed: Spark needs Java ({str(e).splitlines()[0]})")
if not answers:
    differ.append("no engine could be had")
end()
