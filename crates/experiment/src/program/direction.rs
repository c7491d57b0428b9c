//! Guesses from a metric's name whether more or less is better. The guess is printed before the measurement, and
//! `:less` or `:more` overrides it.

/// Words for which less is better, in total and per second.
const BAD: &str = "err errs miss misses missed retry retries retried drop drops dropped stall stalls stalled timeout timeouts abort \
    aborts aborted lost loss losses rejected conflicts collisions faults";

/// Rates: more is better.
const RATES: &str = "tps qps rps iops ops pps bps mbps gbps fps throughput bandwidth bw rate speed score";

/// Times, their spread, and used resources: less is better.
const COSTS: &str = "times elapsed duration delay delays rtt ttfb wall wait waits jitter stddev percentile quantile s sec secs \
    second seconds ms msec msecs us usec usecs ns nsec nsecs minutes hours rss pss mem memory heap cost";

/// Suffixes meaning "per second": `mb_s`.
const SECONDS: &str = "s sec secs second seconds";

/// Units that are counted per second, including plurals.
const COUNTED: &str = "b kb mb gb tb kib mib gib tib bit kbit mbit gbit byte op io req tx txn msg row";

/// Units of work: a value per unit of work is a cost.
const WORK: &str = "op ops io ios req reqs request requests call tx txn transaction query msg message row packet byte item event \
    instruction iteration";

fn is_of(list: &str, word: &str) -> bool {
    list.split(' ').any(|of| of == word)
}

/// Handles the naming styles of common programs.
pub fn less_is_better(name: &str) -> bool {
    let words = words(name);
    let per = words.iter().position(|word| word == "per");
    let of = &words[..per.unwrap_or(words.len())];
    if of.iter().any(|word| is_bad(word)) || per.is_some_and(|at| words.get(at + 1).is_some_and(|w| is_of(WORK, w))) {
        return true;
    }
    match of {
        // The maximum of a waiting time.
        [only] if only == "max" => true,
        [.., counted, last] if is_of(SECONDS, last) && is_counted(counted) => false,
        // The last word decides; the others qualify it: max_tps, tps_latency.
        _ => of.iter().rev().find_map(|word| costs(word)).unwrap_or(false),
    }
}

fn is_bad(word: &str) -> bool {
    is_of(BAD, word) || word.starts_with("error") || word.starts_with("fail")
}

/// `None` if the word is inconclusive.
fn costs(word: &str) -> Option<bool> {
    // p99, p99us.
    let of_quantile = word.strip_prefix('p').map(|rest| rest.trim_end_matches(|c: char| c.is_ascii_alphabetic()));
    let is_quantile = of_quantile.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let begins = stem.starts_with("lat") || stem.starts_with("cpu");
    let ends = stem.ends_with("lat") || stem.ends_with("latency") || stem.ends_with("time");
    if is_quantile || begins || ends || is_of(COSTS, stem) {
        return Some(true);
    }
    is_of(RATES, stem).then_some(false)
}

fn is_counted(word: &str) -> bool {
    let is_plural = word.len() > 2 && word.ends_with('s') && !word.ends_with("ss");
    is_of(COUNTED, word) || is_plural && costs(word) != Some(true)
}

/// Splits into lower-case words, with `/` as `per`: `p99Latency` has two words.
fn words(name: &str) -> Vec<String> {
    let mut parted = String::new();
    let mut before = ' ';
    for c in name.chars() {
        if c == '/' {
            parted.push_str(" per ");
        } else {
            if c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
                parted.push(' ');
            }
            parted.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    parted.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metric_names_imply_the_direction() {
        let more = [
            "tps",
            "qps",
            "bandwidth",
            "req_per_s",
            "mb_per_sec",
            "mb_s",
            "gib_s",
            "req_s",
            "ops_s",
            "MB/s",
            "max_tps",
            "p99_iops",
            "iops_per_cpu",
            "translations",
            "simulations_per_s",
            "simulations_s",
            "hit_rate",
            "instructions_per_cycle",
            "ioPerCpu",
            "reqPerSec",
            "score",
            "riops",
            "x",
        ];
        let less = [
            "lat_avg",
            "elapsed_s",
            "wall_s",
            "build_s",
            "seconds",
            "secs",
            "ns_per_op",
            "us_per_req",
            "ns/op",
            "allocs/op",
            "cpu_per_io",
            "kicks_per_io",
            "p75",
            "p99",
            "p99.9",
            "p95_ms",
            "delay",
            "rtt",
            "misses",
            "retries",
            "dropped",
            "errors_per_s",
            "errors_s",
            "error_rate",
            "max",
            "mean_ns",
            "bench_time",
            "walltime",
            "avgLatency",
            "readLatencyUs",
            "clat_ns",
            "lat99",
            "avglat",
            "p99us",
            "failed_requests",
            "cpupct",
            "rss_mb",
            "cpu",
            "cpu%",
            "access_s",
            "tps_latency",
        ];
        let wrong: Vec<&str> = more.into_iter().filter(|name| less_is_better(name)).collect();
        assert_eq!(wrong, [""; 0], "more is better of these");
        let wrong: Vec<&str> = less.into_iter().filter(|name| !less_is_better(name)).collect();
        assert_eq!(wrong, [""; 0], "less is better of these");
    }
}
