"""JSON, CSV and Parquet: counts and sums in Python, DuckDB and Spark are those of the store."""

import csv
import json
import os

from common import WORK, elsewhere, end, fresh, measurements, same, store, tool

path = store()
other = elsewhere(path)
ours = measurements(path)
sums = {
    "measurements": len(ours),
    "ios": sum(m["ios"] for m in ours),
    "completions": sum(v["completions"] for m in ours for v in m["vehicles"]),
    "interrupts": sum(i["count"] for m in ours for i in m["interrupts"]),
    "ipis": sum(i["count"] for m in ours for i in m["ipis"]),
    "latencies": sum(m["latency_ns"]["count"] for m in ours),
}

print("JSON and CSV, Python's own readers")
read = json.loads(tool("export", "1", "--store", path, "--json", "-").stdout)
same("schema", "iotrail.run/1", read["schema"])
same("measurements", len(ours), sum(len(c["measurements"]) for c in read["cells"]))
same("comparisons are there", True, bool(read["comparisons"]))
tool("export", "last", "--store", path, "--csv", WORK / "m.csv", "--force")
rows = list(csv.DictReader(open(WORK / "m.csv", newline="")))
same("rows", sums["measurements"], len(rows))
same("sum of ios", sums["ios"], sum(int(r["ios"]) for r in rows))
same("arms", ["'=default", 'coop,"taskrun"'], sorted({r["param.arm"] for r in rows if r["param.arm"] != "control"}))
tool("export", "last", "--store", path, "--csv", WORK / "v.csv", "--table", "vehicles", "--force")
rows = list(csv.DictReader(open(WORK / "v.csv", newline="")))
same("sum of completions", sums["completions"], sum(int(r["completions"]) for r in rows))

folder = fresh("parquet")
for db in (path, other):
    tool("export", "1", "--store", db, "--parquet", folder)

QUERIES = {
    "measurements": ("SELECT count(*) FROM measurements", 2 * sums["measurements"]),
    "ios": ("SELECT sum(ios) FROM measurements", 2 * sums["ios"]),
    "hosts": ("SELECT count(DISTINCT host) FROM measurements", 2),
    "ios at depth 16": (
        "SELECT sum(ios) FROM measurements WHERE params['depth'] = '16' AND load_depth = 16",
        2 * sum(m["ios"] for m in ours if m["load"]["depth"] == 16),
    ),
    "completions": ("SELECT sum(completions) FROM vehicles", 2 * sums["completions"]),
    "interrupts": ("SELECT sum(count) FROM interrupts", 2 * sums["interrupts"]),
    "ipis": ("SELECT coalesce(sum(count), 0) FROM ipis", 2 * sums["ipis"]),
    "latencies": ("SELECT sum(ios) FROM histogram", 2 * sums["latencies"]),
    "unknown is null": (
        "SELECT count(*) FROM measurements WHERE load_count_ios IS NULL",
        2 * sum(m["load"]["count"] is None for m in ours),
    ),
    "joined": (
        "SELECT sum(v.completions) FROM measurements m JOIN vehicles v "
        "ON v.host = m.host AND v.run = m.run AND v.cell = m.cell AND v.`repeat` = m.`repeat`",
        2 * sums["completions"],
    ),
}
TABLES = ["measurements", "vehicles", "interrupts", "ipis", "histogram"]

try:
    import duckdb

    print(f"Parquet, DuckDB {duckdb.__version__}")
    for table in TABLES:
        duckdb.sql(
            f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{folder}/{table}/**/*.parquet', hive_partitioning = true)"
        )
    for what, (query, expected) in QUERIES.items():
        [(value,)] = duckdb.sql(query.replace("`", '"')).fetchall()
        same(what, expected, int(value))
    same("hosts by name", ["else/where"], [h for (h,) in duckdb.sql("SELECT DISTINCT host FROM ipis UNION SELECT DISTINCT host FROM measurements").fetchall() if "else" in h])
except ImportError:
    print("not installed: duckdb")

try:
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    print(f"Parquet, Spark {spark.version}")
    for table in TABLES:
        spark.read.parquet(f"{folder}/{table}").createOrReplaceTempView(table)
    for what, (query, expected) in QUERIES.items():
        same(what, expected, int(spark.sql(query).collect()[0][0]))
    spark.stop()
except ImportError:
    print("not installed: pyspark")
except Exception as e:  # Java's side
    print(f"not installed: Spark needs Java ({str(e).splitlines()[0]})")
end()
