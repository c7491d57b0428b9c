#!/bin/sh
# Where the CPU goes, by `bench --profile` and by bpftrace in the same run: shares of the load's thread side by side, with
# our 95 % intervals. bpftrace's own sampling error is as large again.  usage: profile.sh IOTRAIL [FILE]
set -eu
bin=${1:?usage: profile.sh IOTRAIL [FILE]}
command -v bpftrace >/dev/null || { echo "bpftrace is not installed"; exit 0; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
file=${2:-$dir/target}
$bin bench --file "$file" --size 64m --rw read --bs 64k --buffered --count 1024 --warmup 0 --trace off >/dev/null

compare() {
    name=$1; shift
    bpftrace -f json -o "$dir/peer" -c "$bin bench --json --trace off --warmup 0 --runtime 4s --profile --force --folded $dir/ours $*" \
        -e 'profile:hz:997 /comm == "load-0"/ { @[kstack(perf)] = count(); }' >"$dir/json" 2>"$dir/err" || { cat "$dir/err"; exit 1; }
    echo "$name"
    python3 - "$dir" <<'PY'
import collections, json, math, sys
d = sys.argv[1]
text = open(d + "/json").read()
m = json.loads(text[text.index("{\n"):text.rindex("}") + 1])
ours, peer = collections.Counter(), collections.Counter()
for line in open(d + "/ours"):
    stack, n = line.rsplit(" ", 1)
    comm, *frames = stack.split(";")
    if comm == "load-0":
        ours[tuple(f for f in reversed(frames) if f != "[user]")] += int(n)
for line in open(d + "/peer"):
    try: record = json.loads(line)
    except ValueError: continue
    if record.get("type") == "map":
        for stack, n in record["data"]["@"].items():
            peer[tuple(f.split(" ", 1)[1].split("+")[0] for f in stack.strip().splitlines())] += n
n, k = sum(ours.values()), sum(peer.values())
how = m["cpu_samples"]
print(f"  of {how['expected']} samples of all CPUs {how['lost']} lost")
print(f"  samples of the thread: {n} ours, {k} bpftrace's; CPU time {(m['cpu']['user_ns'] + m['cpu']['system_ns']) / 1e6:.0f} ms"
      f" (user {m['cpu']['user_ns'] / (m['cpu']['user_ns'] + m['cpu']['system_ns']):.3f} by its accounting)")
questions = {
    "user": lambda s: not s,
    "copy": lambda s: bool(s) and s[0] in ("_copy_to_iter", "copy_page_to_iter", "rep_movs_alternative"),
    "submission": lambda s: "io_submit_sqes" in s,
    "task work": lambda s: "task_work_run" in s or "__io_run_local_work" in s,
    "block layer flush": lambda s: "blk_mq_flush_plug_list" in s,
    "waiting": lambda s: "io_cqring_wait" in s,
}
for name, holds in questions.items():
    a, b = sum(c for s, c in ours.items() if holds(s)), sum(c for s, c in peer.items() if holds(s))
    p, q = a / n, b / k
    error = 1.96 * math.sqrt((a + b) / (n + k) * (1 - (a + b) / (n + k)) * (1 / n + 1 / k))
    print(f"  {name:18} {p:7.4f} ours {q:7.4f} bpftrace's  difference {p - q:+.4f}, 95 % of chance ±{error:.4f}" + ("" if abs(p - q) <= error else "  *"))
PY
}
compare "nop, depth 32, batch 32" --rw nop --depth 32 --batch 32 --cpus 0
compare "buffered reads of 64 KiB from the page cache" --file "$file" --buffered --bs 64k --depth 4 --cpus 0
compare "direct reads, depth 16" --file "$file" --depth 16 --cpus 0
compare "direct reads, depth 1, --wait peek" --file "$file" --depth 1 --wait peek --cpus 0
