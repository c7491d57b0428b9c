//! Objectives and constraints of a search, in command-line syntax.

use iotrail_answer::compare::Metric;
use iotrail_answer::figure::Unit;
use iotrail_answer::search::CPUS;
use iotrail_base::units::Span;
use iotrail_schema::search_record::Constraint;

/// A metric by name or alias. `own`: the program's metrics, which take precedence. `cpu`: the metric that `cpu` stands
/// for.
pub fn metric(text: &str, own: &[String], cpu: Metric) -> Result<String, String> {
    if own.iter().any(|name| name == text) || text == CPUS {
        return Ok(text.to_owned());
    }
    let is_of_program = cpu == Metric::CpuTime;
    let found = Metric::named(text, is_of_program).map_err(|why| match own {
        [] => why,
        own => format!("{why}; the program's metrics are {}", own.join(", ")),
    })?;
    match found {
        Metric::Elapsed | Metric::CpuTime | Metric::Own(_) => Ok(found.to_string()),
        _ if is_of_program => Err(not_seen(text)),
        _ => Ok(found.to_string()),
    }
}

/// Timed runs of a program are not traced, so metrics from probes are unavailable.
fn not_seen(text: &str) -> String {
    // iotrail's names are reserved.
    let name =
        if Metric::ALL.iter().any(|metric| metric.name() == text) { format!("own_{text}") } else { text.to_owned() };
    format!(
        "{text} is not measured in a program's timed runs: read it from the program's output with --metric '{name}=REGEX'"
    )
}

/// One metric, or two separated by a comma.
pub fn objectives(text: &str, own: &[String], cpu: Metric) -> Result<(String, Option<String>), String> {
    let Some((first, second)) = text.split_once(',').filter(|_| !own.iter().any(|name| name == text)) else {
        return Ok((metric(text, own, cpu)?, None));
    };
    if second.contains(',') {
        return Err(format!("--objective {text}: at most two objectives"));
    }
    let [first, second] = [metric(first.trim(), own, cpu)?, metric(second.trim(), own, cpu)?];
    if first == second {
        return Err(format!("--objective {text} names the same metric twice"));
    }
    Ok((first, Some(second)))
}

/// `p99<2ms`, `cpus<=1`, `tps>1000`.
pub fn constraint(text: &str, own: &[String], cpu: Metric) -> Result<Constraint, String> {
    let wrong = || format!("'{text}' is not NAME<LIMIT or NAME>LIMIT, such as p99<2ms");
    let at = text.find(['<', '>']).ok_or_else(wrong)?;
    let (name, rest) = text.split_at(at);
    let below = rest.starts_with('<');
    let (inclusive, limit) = rest[1..].strip_prefix('=').map_or((false, &rest[1..]), |limit| (true, limit));
    let limit = limit.trim();
    let metric = metric(name.trim(), own, cpu)?;
    let figure = metric.parse::<Metric>().ok().filter(|_| !own.contains(&metric)).and_then(Metric::figure);
    let is_time = figure.is_some_and(|f| f.unit == Unit::Time);
    let limit = match (limit.parse::<f64>(), limit.parse::<Span>()) {
        (_, Ok(span)) if is_time => span.0.as_nanos() as f64,
        (Ok(_), _) if is_time => return Err(format!("'{limit}' in '{text}' has no unit: write 2ms or 50us")),
        (Ok(number), _) if number.is_finite() => number,
        _ => return Err(wrong()),
    };
    Ok(Constraint { metric, below, limit, inclusive, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_a_built_in_metric_or_one_of_the_program() {
        let own = ["tps".to_owned(), "p99".to_owned()];
        let of = |text: &str, own: &[String]| metric(text, own, Metric::CpuTime);
        assert_eq!(metric("p99", &[], Metric::CpuPerIo), Ok("latency_p99".into()));
        assert_eq!(of("p99", &own), Ok("p99".into()), "the program's metric takes precedence");
        assert_eq!(of("cpu", &own), Ok("cpu_time".into()));
        assert_eq!(of("cpus", &[]), Ok("cpus".into()));
        assert!(of("speed", &own).unwrap_err().ends_with("the program's metrics are tps, p99"));
    }

    #[test]
    fn only_time_and_printed_metrics_of_a_program_are_accepted() {
        let of = |text: &str| metric(text, &["tps".to_owned()], Metric::CpuTime);
        for known in ["elapsed", "cpu", "cpu_time", "cpus", "tps"] {
            assert!(of(known).is_ok(), "{known}");
        }
        let said = "p99 is not measured in a program's timed runs: read it from the program's output with --metric 'p99=REGEX'";
        assert_eq!(of("p99").unwrap_err(), said);
        assert_eq!(constraint("p99<2ms", &[], Metric::CpuTime).unwrap_err(), said);
        assert!(of("iops").unwrap_err().ends_with("--metric 'own_iops=REGEX'"));
        for unseen in ["mean", "latency_p99", "cpu_per_io", "kicks_per_io"] {
            assert!(of(unseen).is_err(), "{unseen}");
        }
        assert!(objectives("elapsed,p99", &[], Metric::CpuTime).is_err());
    }

    #[test]
    fn two_objectives_are_separated_by_a_comma() {
        let own = ["tps".to_owned(), "a,b".to_owned()];
        let of = |text: &str| objectives(text, &own, Metric::CpuPerIo);
        assert_eq!(of("p99, cpu"), Ok(("latency_p99".into(), Some("cpu_per_io".into()))));
        assert_eq!(of("tps"), Ok(("tps".into(), None)));
        assert_eq!(of("a,b"), Ok(("a,b".into(), None)), "the program's metric takes precedence");
        assert_eq!(of("cpu,cpu_per_io").unwrap_err(), "--objective cpu,cpu_per_io names the same metric twice");
        assert_eq!(of("p50,p99,cpu").unwrap_err(), "--objective p50,p99,cpu: at most two objectives");
        assert!(of("p99,").is_err() && of("p99,speed").is_err());
    }

    #[test]
    fn a_constraint_has_a_comparison_and_a_limit() {
        let of = |text: &str| constraint(text, &["tps".to_owned()], Metric::CpuPerIo);
        let p99 = of("p99<=2ms").unwrap();
        assert_eq!((p99.metric.as_str(), p99.below, p99.limit, p99.inclusive), ("latency_p99", true, 2e6, true));
        let tps = of("tps > 1000").unwrap();
        assert_eq!((tps.metric.as_str(), tps.below, tps.limit), ("tps", false, 1000.0));
        assert_eq!(of("cpus<1").map(|c| (c.limit, c.inclusive)), Ok((1.0, false)));
        assert!(of("p99<2").unwrap_err().contains("has no unit"));
        assert!(of("p99=2ms").is_err() && of("cpus<").is_err() && of("tps<nan").is_err());
    }
}
