"""A real Prometheus scrapes a watch that goes on: its values at the end are those of our own JSON, and every query of the dashboard
has data. promtool checks the text."""

import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

from common import BINARY, WORK, end, fresh, same

DASHBOARD = Path(__file__).parents[2] / "grafana/iotrail.json"
LOAD = f"{BINARY} bench --trace off --rw randread --file {WORK}/scraped --size 64m --depth 8 --runtime 8s"
# Afterwards the program is idle, so that the last scrape equals the JSON.
COMMAND = f"{LOAD} >/dev/null; sleep 6"


def fetch(url, accept=None):
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


trace = subprocess.Popen(
    [BINARY, "trace", "--json", "--one-in", "4", "--metrics", "0", "--", "sh", "-c", COMMAND],
    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
)
prometheus = None
try:
    url = next((m[1] for line in trace.stderr if (m := re.search(r"metrics: (http://\S+)", line))), None)
    if url is None:
        sys.exit("iotrail did not print the address of its metrics")
    time.sleep(2)
    print("The text")
    kind, text = fetch(url)
    same("content type", "text/plain; version=0.0.4; charset=utf-8", kind)
    kind, open_text = fetch(url, "application/openmetrics-text; version=1.0.0")
    same("content type", "application/openmetrics-text; version=1.0.0; charset=utf-8", kind)
    same("its end", True, open_text.endswith("# EOF\n"))
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        same("promtool check metrics", (0, ""), (done.returncode, (done.stdout + done.stderr).strip()))
    else:
        print("not installed: promtool")

    port = 0
    if shutil.which("prometheus"):
        folder = fresh("prometheus-data")
        config = WORK / "prometheus.yml"
        target = url.removeprefix("http://").removesuffix("/metrics")
        config.write_text(
            "global: {scrape_interval: 500ms, scrape_timeout: 500ms}\n"
            f"scrape_configs:\n- job_name: iotrail\n  static_configs: [{{targets: ['{target}']}}]\n"
        )
        prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}", "--web.listen-address=127.0.0.1:9099",
             "--query.lookback-delta=5s"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        port = 9099
    else:
        print("not installed: prometheus")

    record = json.loads(trace.stdout.read())
    ended = time.time()
    total = record["total"]
    if port:
        print("Prometheus")
        api = f"http://127.0.0.1:{port}/api/v1"

        def query(expression, at):
            q = urllib.parse.urlencode({"query": expression, "time": at})
            return json.loads(fetch(f"{api}/query?{q}")[1])["data"]["result"]

        def value(expression):
            # The endpoint is closed after the trace, so use its last scrape.
            expression = re.sub(r"(iotrail_\w+(?:{[^}]*})?)", r"last_over_time(\1[8s])", expression)
            found = query(expression, ended)
            return round(float(found[0]["value"][1])) if found else 0

        by_vehicle = {}
        for v in total["vehicles"]:
            by_vehicle[v["vehicle"]] = by_vehicle.get(v["vehicle"], 0) + v["completions"]
        for vehicle, completions in by_vehicle.items():
            same(f"completions by {vehicle}", completions, value(f'sum(iotrail_completions_total{{vehicle="{vehicle}"}})'))
        same("completions", total["ios"], value("sum(iotrail_completions_total)"))
        same("requests", sum(r["requests"] for r in record["rings"]), value("sum(iotrail_requests_total)"))
        same("bytes", total["bytes"], value("sum(iotrail_transferred_bytes_total)"))
        same("kicks", round((total["per_io"]["kicks"] or 0) * total["ios"]), value("iotrail_kicks_total"))
        same("IPIs", sum(i["count"] for i in total["ipis"]), value("sum(iotrail_ipis_total)"), within=0.02)
        same("followed", total["followed"]["completions"], value("iotrail_followed_total"))
        same("latencies", total["latency_ns"]["count"], value("iotrail_latency_seconds_count"))
        same("lost", total["probe"]["lost"], value("iotrail_lost_total"))

        print("The dashboard's queries")
        panels = json.loads(DASHBOARD.read_text())["panels"]
        queries = [(p["title"], t["expr"]) for p in panels for t in p["targets"]]
        without = []
        for title, expression in queries:
            expression = expression.replace("$__rate_interval", "3s").replace("$comm", ".*")
            q = urllib.parse.urlencode({"query": expression, "start": ended - 14, "end": ended, "step": 0.5})
            answer = json.loads(fetch(f"{api}/query_range?{q}")[1])
            values = [float(v) for series in answer["data"]["result"] for _, v in series["values"]]
            if not any(math.isfinite(v) for v in values):
                without.append(f"{title}: {expression}")
        same(f"of {len(queries)} queries without data", [], without)
finally:
    for process in (trace, prometheus):
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
end()
