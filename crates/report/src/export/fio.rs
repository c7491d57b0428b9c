//! fio's JSON, as `fio --output-format=json+ --lat_percentiles=1 --disable_slat=1 --disable_clat=1` writes it: one file per
//! measurement, named as fio-plot expects. fio-plot treats the jobs of a file, and the files of a directory with the same
//! depth and number of jobs, as parts of one load; other parameters and repeats therefore have separate directories.
//!
//! Latency is fio's `lat`, from before submission until after reaping. Its parts `slat` and `clat` are not measured;
//! they are 0, as in fio if disabled. Percentiles with too few samples are omitted. fio separates reads and writes, a
//! measurement does not, so a mixed load has no file.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::rows::Row;
use iotrail_schema::measurement::{Engine, Rw};
use iotrail_schema::measurement::{Measurement, Throughput};
use iotrail_schema::run_record::value_text;
use iotrail_stats::quantile::quantile;

/// Path of a measurement's file relative to the output directory: `arm=coop/repeat-1/randread-16-1.json`.
pub fn place(row: &Row<'_>) -> String {
    let load = &row.measurement.load;
    let others = row.params.iter().filter(|(name, _)| !matches!(name.as_str(), "depth" | "jobs"));
    let others: Vec<String> =
        others.map(|(name, v)| format!("{}={}", super::file_name(name), super::file_name(&value_text(v)))).collect();
    let folder = if others.is_empty() { "all".into() } else { others.join(",") };
    format!("{folder}/repeat-{}/{}-{}-{}.json", row.repeat, super::file_name(load.rw.name()), load.depth, load.jobs)
}

/// The direction of the load in fio's terms; `None` if it has both or neither.
fn direction(rw: &Rw) -> Option<&'static str> {
    match rw {
        Rw::Read | Rw::RandRead => Some("read"),
        Rw::Write | Rw::RandWrite => Some("write"),
        _ => None,
    }
}

/// Whether fio can express the load.
pub fn is_told(row: &Row<'_>) -> bool {
    direction(&row.measurement.load.rw).is_some()
}

/// The file's content; `None` if fio cannot express the load.
pub fn file(row: &Row<'_>, latency: Option<&Histogram<u64>>) -> Option<Value> {
    let m = row.measurement;
    let direction = direction(&m.load.rw)?;
    let mut job = json!({
        "jobname": super::hdr::tag(row),
        "groupid": 0,
        "error": 0,
        "elapsed": m.elapsed_ns.div_ceil(1_000_000_000),
        "job options": options(m),
        "read": nothing(),
        "write": nothing(),
        "trim": nothing(),
        "job_runtime": job_runtime_ms(m),
        "latency_depth": m.load.depth,
        "latency_target": 0,
        "latency_percentile": 100.0,
        "latency_window": 0,
    });
    job[direction] = moved(m, latency);
    let total_ns = m.phases.as_ref().map_or(0, |p| p.total_ns);
    let share = |ns: u64| if total_ns > 0 { 100.0 * ns as f64 / total_ns as f64 } else { 0.0 };
    for (name, ns) in [("usr_cpu", m.cpu.user_ns), ("sys_cpu", m.cpu.system_ns)] {
        if let Some(ns) = ns {
            job[name] = share(ns).into();
        }
    }
    if let Some(c) = &m.circumstances {
        for (name, count) in [("majf", c.major_faults), ("minf", c.minor_faults)] {
            job[name] = count.into();
        }
    }
    if let Some((per_io, ios)) = m.per_io.context_switches.zip(m.ios) {
        job["ctx"] = ((per_io * ios as f64).round() as u64).into();
    }
    if let Some(latency) = latency {
        for (name, unit_ns, is_last) in DISTRIBUTION {
            job[name] = distribution(latency, unit_ns, is_last);
        }
    }
    let mut file = json!({
        // The layout follows this fio version; the job name identifies iotrail.
        "fio version": "fio-3.33",
        "timestamp": m.started_unix_s,
        "timestamp_ms": m.started_unix_s * 1000,
        "jobs": [job],
    });
    file["global options"] = json!({ "generated_by": concat!("iotrail ", env!("CARGO_PKG_VERSION")) });
    Some(file)
}

/// fio sums the run time of the jobs.
fn job_runtime_ms(m: &Measurement) -> u64 {
    m.elapsed_ns / 1_000_000 * u64::from(m.load.jobs)
}

/// fio prints numbers as strings here, as in a job file.
fn options(m: &Measurement) -> Value {
    let load = &m.load;
    let engine = match &load.engine {
        Engine::PosixAio => "posixaio",
        Engine::Sync => "psync",
        other => other.name(),
    };
    let mut options = Map::new();
    let mut set = |name: &str, value: String| options.insert(name.into(), value.into());
    set("rw", load.rw.to_string());
    set("bs", block_size(load.bs));
    set("iodepth", load.depth.to_string());
    set("numjobs", load.jobs.to_string());
    set("ioengine", engine.into());
    set("direct", u8::from(load.direct).to_string());
    if let Some(file) = &load.file {
        set("filename", file.clone());
    }
    if let Some(size) = load.size {
        set("size", size.to_string());
    }
    if let Some(ns) = load.runtime_ns {
        set("runtime", format!("{}ms", ns / 1_000_000));
    }
    Value::Object(options)
}

/// The size as written in job files; fio-plot prints it unmodified.
fn block_size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{}m", b >> 20),
        b if b >= 1 << 10 && b % (1 << 10) == 0 => format!("{}k", b >> 10),
        b => b.to_string(),
    }
}

fn no_latency() -> Value {
    json!({ "min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0 })
}

/// fio's output for an unused direction.
fn nothing() -> Value {
    json!({
        "io_bytes": 0, "io_kbytes": 0, "bw_bytes": 0, "bw": 0, "iops": 0.0, "runtime": 0, "total_ios": 0,
        "short_ios": 0, "drop_ios": 0,
        "slat_ns": no_latency(), "clat_ns": no_latency(), "lat_ns": no_latency(),
        "bw_min": 0, "bw_max": 0, "bw_agg": 0.0, "bw_mean": 0.0, "bw_dev": 0.0, "bw_samples": 0,
        "iops_min": 0, "iops_max": 0, "iops_mean": 0.0, "iops_stddev": 0.0, "iops_samples": 0
    })
}

fn moved(m: &Measurement, latency: Option<&Histogram<u64>>) -> Value {
    let seconds = m.elapsed_ns as f64 / 1e9;
    let bytes_per_s = m.bytes.map(|n| if seconds > 0.0 { n as f64 / seconds } else { 0.0 });
    let mut out = nothing();
    let known = json!({
        "io_bytes": m.bytes,
        "io_kbytes": m.bytes.map(|n| n >> 10),
        "bw_bytes": bytes_per_s.map(|x| x.round() as u64),
        "bw": bytes_per_s.map(|x| (x / 1024.0).round() as u64),
        "iops": m.iops,
        "runtime": m.elapsed_ns / 1_000_000,
        "total_ios": m.ios,
        "short_ios": m.short_ios,
        "lat_ns": of_latencies(m, latency),
    });
    if let (Value::Object(out), Value::Object(known)) = (&mut out, known) {
        out.extend(known);
    }
    if let Some(series) = m.circumstances.as_ref().and_then(|c| c.throughput.as_ref()) {
        over_time(series, m, &mut out);
    }
    out
}

fn of_latencies(m: &Measurement, latency: Option<&Histogram<u64>>) -> Value {
    let l = &m.latency_ns;
    let mut out = json!({ "N": l.count });
    for (name, value) in
        [("min", l.min.map(Value::from)), ("max", l.max.map(Value::from)), ("mean", l.mean.map(Value::from))]
    {
        if let Some(value) = value {
            out[name] = value;
        }
    }
    let mut percentiles = Map::new();
    match latency {
        Some(latency) => {
            out["stddev"] = latency.stdev().into();
            let known = PERCENTILES.iter().filter_map(|p| Some((p, quantile(latency, p / 100.0)?)));
            percentiles.extend(known.map(|(p, ns)| (format!("{p:.6}"), ns.into())));
            out["bins"] = bins(latency);
        }
        None => {
            let known =
                [(50.0, l.p50), (90.0, l.p90), (95.0, l.p95), (99.0, l.p99), (99.9, l.p99_9), (99.99, l.p99_99)];
            percentiles.extend(known.iter().filter_map(|(p, ns)| Some((format!("{p:.6}"), (*ns)?.into()))));
        }
    }
    out["percentile"] = Value::Object(percentiles);
    out
}

/// fio's default list.
const PERCENTILES: &[f64] =
    &[1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

/// Based on completions per interval; the intervals are shorter than fio's 500 ms.
fn over_time(series: &Throughput, m: &Measurement, out: &mut Value) {
    let per_s = 1e9 / series.interval_ns as f64;
    let iops: Vec<f64> = series.ios.iter().map(|n| *n as f64 * per_s).collect();
    let kib = m.load.bs as f64 / 1024.0;
    let n = iops.len() as f64;
    let mean = iops.iter().sum::<f64>() / n;
    let deviation =
        if n > 1.0 { (iops.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt() } else { 0.0 };
    let (min, max) = iops.iter().fold((f64::INFINITY, 0.0_f64), |(lo, hi), x| (lo.min(*x), hi.max(*x)));
    if !mean.is_finite() || iops.is_empty() {
        return;
    }
    for (name, unit) in [("iops", 1.0), ("bw", kib)] {
        out[format!("{name}_min")] = ((min * unit).round() as u64).into();
        out[format!("{name}_max")] = ((max * unit).round() as u64).into();
        out[format!("{name}_mean")] = (mean * unit).into();
        out[format!("{name}_samples")] = iops.len().into();
    }
    out["iops_stddev"] = deviation.into();
    out["bw_dev"] = (deviation * kib).into();
    out["bw_agg"] = 100.0.into();
}

/// fio's bins: 64 per power of two, named by their midpoint.
const GROUP_BITS: u32 = 6;

fn bins(latency: &Histogram<u64>) -> Value {
    let mut bins: Vec<(u64, u64)> = vec![];
    for bucket in latency.iter_recorded() {
        let bin = middle(latency.median_equivalent(bucket.value_iterated_to()));
        match bins.last_mut() {
            Some((last, n)) if *last == bin => *n += bucket.count_at_value(),
            _ => bins.push((bin, bucket.count_at_value())),
        }
    }
    bins.into_iter().map(|(bin, n)| (bin.to_string(), Value::from(n))).collect::<Map<_, _>>().into()
}

/// Combines `plat_val_to_idx` and `plat_idx_to_val` from fio's stat.c.
fn middle(ns: u64) -> u64 {
    let top = ns.max(1).ilog2();
    if top <= GROUP_BITS {
        return ns;
    }
    let width_bits = top - GROUP_BITS;
    let from = ns >> width_bits << width_bits;
    from + (1 << width_bits) / 2
}

/// fio's three lists, the nanoseconds per unit, and whether the list has an unbounded last bucket.
const DISTRIBUTION: [(&str, u64, bool); 3] =
    [("latency_ns", 1, false), ("latency_us", 1000, false), ("latency_ms", 1_000_000, true)];

/// Upper bounds of each list's buckets, in its unit.
const BELOW: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];
/// Name of the bucket above these bounds.
const LONGEST: u64 = 2000;

/// Share of all latencies per bucket, from the previous bound (inclusive) to its own bound (exclusive).
fn distribution(latency: &Histogram<u64>, unit_ns: u64, is_last: bool) -> Value {
    let mut bounds = BELOW.to_vec();
    let mut names: Vec<String> = BELOW.iter().map(u64::to_string).collect();
    if is_last {
        bounds.push(LONGEST);
        names.extend([LONGEST.to_string(), format!(">={LONGEST}")]);
    }
    let mut counts = vec![0; bounds.len() + 1];
    // The first bucket starts where the list of the smaller unit ends.
    let from_ns = if unit_ns == 1 { 0 } else { unit_ns };
    for bucket in latency.iter_recorded() {
        let ns = latency.median_equivalent(bucket.value_iterated_to());
        if ns >= from_ns {
            counts[bounds.partition_point(|bound| bound * unit_ns <= ns)] += bucket.count_at_value();
        }
    }
    let share = |n: u64| if latency.is_empty() { 0.0 } else { 100.0 * n as f64 / latency.len() as f64 };
    names.into_iter().zip(counts).map(|(name, n)| (name, Value::from(share(n)))).collect::<Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::rows::{Order, Run};
    use crate::export::sample::{cells, run};

    /// Type of each field in the output of fio 3.33 for `--rw=randread --output-format=json+`.
    const READ: &[&str] = &[
        "io_bytes",
        "io_kbytes",
        "bw_bytes",
        "bw",
        "iops",
        "runtime",
        "total_ios",
        "short_ios",
        "drop_ios",
        "slat_ns",
        "clat_ns",
        "lat_ns",
        "bw_min",
        "bw_max",
        "bw_agg",
        "bw_mean",
        "bw_dev",
        "bw_samples",
        "iops_min",
        "iops_max",
        "iops_mean",
        "iops_stddev",
        "iops_samples",
    ];

    /// Path and content of each row's file.
    fn files(run: &Run<'_>) -> Vec<(String, Option<Value>)> {
        let mut all = vec![];
        run.rows(Order::Cell, &mut |row| {
            all.push((place(row), file(row, run.latency(row)?.as_ref())));
            Ok(())
        })
        .unwrap();
        all
    }

    #[test]
    fn an_exported_job_has_fio_fields_with_the_measured_values() {
        let file = files(&run()).remove(0).1.unwrap();
        let job = &file["jobs"][0];
        assert_eq!(job["job options"]["iodepth"], "16");
        assert_eq!(job["job options"]["bs"], "4k");
        for direction in ["read", "write", "trim"] {
            let names: Vec<&str> = job[direction].as_object().unwrap().keys().map(String::as_str).collect();
            let mut expected = READ.to_vec();
            expected.sort_unstable();
            assert_eq!(names, expected, "{direction}");
        }
        let read = &job["read"];
        assert_eq!(
            (read["total_ios"].as_u64(), read["iops"].as_f64(), read["runtime"].as_u64()),
            (Some(500), Some(250.0), Some(2000))
        );
        assert_eq!((read["io_bytes"].as_u64(), read["bw"].as_u64()), (Some(500 * 4096), Some(1000)));
        assert_eq!(read["iops_mean"], 250.0);
        assert_eq!((read["clat_ns"]["N"].as_u64(), read["slat_ns"]["N"].as_u64()), (Some(0), Some(0)));
        let lat = &read["lat_ns"];
        assert_eq!((lat["N"].as_u64(), lat["max"].as_u64()), (Some(500), Some(4_100_000)));
        let bins = lat["bins"].as_object().unwrap();
        assert_eq!(bins.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 10_000);
        // Of 10,000 samples, five exceed p99.95, but too few exceed p99.99.
        let percentiles = lat["percentile"].as_object().unwrap();
        assert!(percentiles.contains_key("99.950000") && !percentiles.contains_key("99.990000"));
        let total: f64 = ["latency_ns", "latency_us", "latency_ms"]
            .iter()
            .flat_map(|list| job[list].as_object().unwrap().values())
            .map(|share| share.as_f64().unwrap())
            .sum();
        assert!((total - 100.0).abs() < 1e-6, "{total}");
        assert_eq!(job["latency_us"]["1000"].as_f64().map(f64::round), Some(25.0));
    }

    #[test]
    fn paths_depend_only_on_parameters_and_repeats() {
        let places: Vec<String> = files(&run()).into_iter().map(|(place, _)| place).collect();
        assert_eq!(places[0], "arm=a%2C%22b%22%0D%0Ac%3Bd%3De%20%25/repeat-1/randread-16-1.json");
        assert_eq!(places[3], "arm=%27already/repeat-2/randread-32-1.json");
    }

    #[test]
    fn loads_that_fio_cannot_represent_have_no_file() {
        let mut m = cells().remove(0).measurements.open().remove(0);
        for rw in ["randrw", "nop", "echo"] {
            m.load.rw = rw.into();
            assert_eq!(files(&m.clone().into())[0].1, None);
        }
        // Without a histogram, the file contains the measurement's quantiles.
        m.load.rw = "write".into();
        let file = files(&m.into()).remove(0).1.unwrap();
        let lat = &file["jobs"][0]["write"]["lat_ns"];
        assert_eq!(lat["percentile"]["50.000000"], 3_999_743);
        assert!(lat.get("stddev").is_none() && file["jobs"][0].get("latency_us").is_none());
    }

    #[test]
    fn latency_bins_match_those_of_fio() {
        // fio 3.33 names bins of 64 ns and more by their midpoint.
        assert_eq!([0, 1, 63, 64, 127].map(middle), [0, 1, 63, 64, 127]);
        assert_eq!([128, 131, 256, 27_918_336].map(middle), [129, 131, 258, 27_918_336]);
    }
}
