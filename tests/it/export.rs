//! `export`: each format, the files that it replaces, and its errors.

use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::bad_load::assert_refused;
use crate::tool::{Place, bench, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("export::all_export_formats_contain_the_measured_values", formats),
    ("export::a_json_file_is_exported_to_the_formats_that_its_data_allows", of_a_file),
    ("export::an_existing_file_is_kept_without_force", kept),
    ("export::an_impossible_export_is_one_error_line", refused),
    ("export::a_full_or_closed_output_is_an_error", outputs),
    ("export::an_address_in_use_is_rejected", taken),
];

/// A store in which run 1 is a single measurement of 5,000 I/Os.
fn stored() -> (Place, Value) {
    let place = Place::new();
    let m = run(&mut bench(&place, "--rw nop --count 5000 --depth 4 --json --store s.db")).ok().json();
    (place, m)
}

fn formats() -> End {
    let (place, mut m) = stored();
    // The first lines of the screen are not stored.
    m.as_object_mut().and_then(|m| m.remove("head")).expect("an answer");
    let export = |args: &[&str]| run(&mut place.tool([&["export", "last", "--store", "s.db"], args].concat())).ok();
    let made = export(&["--json", "r.json", "--csv", "m.csv", "--hdr", "l.hlog", "--parquet", "p"]);
    assert_eq!(made.stdout, "");
    let told: Vec<&str> = made.stderr.lines().collect();
    assert_eq!(told[..3], ["r.json: 1 measurement", "m.csv: 1 row of measurements", "l.hlog: 1 histogram"]);
    assert!(told[3].starts_with("p: rows of measurements 1, histogram "), "{told:?}");
    let read = |name: &str| std::fs::read_to_string(place.join(name)).expect(name);
    // The output is the same for every destination.
    assert_eq!(export(&["--json", "-"]).stdout, read("r.json"));
    assert_eq!(export(&["--csv", "-"]).stdout, read("m.csv"));
    let run_record: Value = serde_json::from_str(&read("r.json")).expect("JSON");
    assert_eq!(run_record["schema"], "iotrail.run/1");
    assert_eq!(run_record["cells"][0]["measurements"][0], m);
    let csv = read("m.csv");
    let lines: Vec<Vec<&str>> = csv.split_terminator("\r\n").map(|l| l.split(',').collect()).collect();
    let column = |name: &str| lines[1][lines[0].iter().position(|n| *n == name).expect(name)];
    assert_eq!((lines.len(), column("ios"), column("load_depth"), column("load_sq_cpu")), (2, "5000", "4", ""));
    let buckets = export(&["--csv", "-", "--table", "histogram"]).stdout;
    let ios =
        buckets.lines().skip(1).map(|l| l.rsplit(',').next().expect("a last field").parse::<u64>().expect("a count"));
    assert_eq!(ios.sum::<u64>(), 5000);
    assert_eq!(read("l.hlog").lines().filter(|l| l.starts_with("Tag=cell=1;repeat=1,")).count(), 1);
    let parts: Vec<_> = place.contents().into_keys().filter(|p| p.ends_with("part.parquet")).collect();
    assert_eq!(parts.len(), 19);
    for part in parts {
        let bytes = std::fs::read(&part).expect("a file");
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{part:?}");
    }
    // The mode follows the umask.
    let mode = |name: &str| place.join(name).metadata().expect(name).permissions().mode() & 0o777;
    place.write("mine", "");
    assert_eq!((mode("m.csv"), mode("r.json")), (mode("mine"), mode("mine")));
    End::Passed
}

fn of_a_file() -> End {
    let (place, m) = stored();
    place.write("m.json", serde_json::to_string(&m).expect("JSON"));
    let mut reads = m.clone();
    (reads["load"]["rw"], reads["load"]["engine"]) = ("randread".into(), "io_uring".into());
    place.write("reads.json", reads.to_string());
    let made = run(&mut place.tool(["export", "m.json", "--parquet", "p", "--csv", "-"])).ok();
    assert_eq!(made.stdout.lines().count(), 2);
    assert!(made.stderr.contains("a JSON file has no histograms"), "{}", made.stderr);
    assert!(!place.join("p/histogram").exists() && place.join("p/measurements").exists());
    run(&mut place.tool(["export", "reads.json", "--fio", "f"])).ok();
    let file = std::fs::read(place.join("f/all/repeat-1/randread-4-1.json")).expect("fio's file");
    let fio: Value = serde_json::from_slice(&file).expect("JSON");
    assert_eq!(fio["jobs"][0]["read"]["total_ios"], 5000);
    End::Passed
}

fn kept() -> End {
    let (place, _) = stored();
    let export = |args: &[&str]| run(&mut place.tool([&["export", "1", "--store", "s.db"], args].concat()));
    place.write("there", "mine");
    export(&["--parquet", "p"]).ok();
    let before = place.contents();
    let line = "there already exists; specify another file, or replace it with --force";
    // With any other format, nothing is created.
    assert_refused(&export(&["--json", "new", "--csv", "there"]), 2, line);
    assert_refused(
        &export(&["--json", "new", "--parquet", "p"]),
        2,
        "p/measurements/host=*part.parquet already exists; specify another file, or replace it with --force",
    );
    assert_eq!(place.contents(), before);
    export(&["--csv", "there", "--parquet", "p", "--force"]).ok();
    assert!(std::fs::read_to_string(place.join("there")).expect("a file").starts_with("hostname,"));
    let names: Vec<_> = place.contents().into_keys().collect();
    assert_eq!(names.len(), before.len());
    assert!(names.iter().all(|n| !n.to_string_lossy().contains(".iotrail-")), "{names:?}");
    End::Passed
}

fn refused() -> End {
    let (place, m) = stored();
    place.write("m.json", serde_json::to_string(&m).expect("JSON"));
    place.write("other.json", r#"{"schema": "x\u001b[31m"}"#);
    let before = place.contents();
    for (args, line) in [
        (&["1"] as &[&str], "the following required arguments were not provided: *"),
        (&["1", "--csv"], "a value is required for '--csv <OUT>' but none was supplied; *"),
        (&["7", "--csv", "x"], "no run 7 in s.db; `iotrail list` shows the stored runs"),
        (&["missing", "--csv", "x"], "cannot read missing: No such file or directory (os error 2); *"),
        (&["other.json", "--csv", "x"], "other.json contains x\\u{1b}[31m, not a measurement or a run; *"),
        (&["m.json", "--hdr", "x"], "m.json has no histograms for --hdr; histograms are only in the store: *"),
        (&["m.json", "--csv", "x", "--table", "histogram"], "m.json has no histograms for --table histogram; *"),
        (&["1", "--csv", "x", "--table", "rows"], "invalid value 'rows' for '--table <TABLE>' *"),
        (&["1", "--perfetto", "x"], "run 1 has no individual I/Os for --perfetto; record them: *"),
        (&["1", "--folded", "x"], "run 1 has no samples for --folded; measure with --profile (*"),
        (&["1", "--fio", "x"], "run 1 has no load that fio's JSON can represent; *"),
        (
            &["1", "--parquet", "-"],
            "--parquet writes several files, so it cannot write to standard output; specify a directory",
        ),
        (&["1", "--csv", "-", "--json", "-"], "--json and --csv would be mixed on standard output; *"),
        (&["1", "--csv", "."], ". is a directory; specify a file with --csv"),
        (&["1", "--parquet", "m.json"], "m.json is not a directory; specify a directory"),
        (
            &["1", "--csv", "no/where"],
            "cannot create no/where: No such file or directory *; create the directory no, or specify a writable path with --csv",
        ),
    ] {
        let ended = run(&mut place.tool([&["export", "--store", "s.db"], args].concat()));
        assert_refused(&ended, 2, line);
    }
    assert_eq!(place.contents(), before);
    End::Passed
}

fn outputs() -> End {
    let (place, _) = stored();
    let export = |args: &[&str]| place.tool([&["export", "1", "--store", "s.db"], args].concat());
    for format in ["--json", "--csv", "--hdr"] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is on every Linux");
        let ended = run(export(&[format, "-"]).stdout(full));
        let line = "cannot write to standard output: No space left on device (os error 28); *";
        assert_refused(&ended, 3, line);
        // A device is written to, but never replaced.
        assert_refused(&run(&mut export(&[format, "/dev/full"])), 2, "/dev/full already exists; *");
        let ended = run(&mut export(&[format, "/dev/full", "--force"]));
        assert_refused(&ended, 3, "cannot write /dev/full: No space left on device (os error 28); *");
        let mut child = export(&[format, "-"]).spawn().expect("the tool starts");
        drop(child.stdout.take());
        let ended = crate::tool::end(child);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{format}");
    }
    End::Passed
}

fn taken() -> End {
    let there = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = there.local_addr().expect("its address").to_string();
    let place = Place::new();
    let ended = run(&mut place.tool(["trace", "--metrics", &at, "--", "touch", "x"]));
    assert_refused(
        &ended,
        2,
        &format!(
            "cannot listen on {at}: Address already in use (os error 98); specify another address or port with --metrics; *"
        ),
    );
    let ended = run(&mut place.tool(["trace", "--metrics", "nowhere", "--", "touch", "x"]));
    assert_refused(&ended, 2, "invalid value 'nowhere' for '--metrics <ADDR>': write 127.0.0.1:9464, *");
    assert_eq!(place.contents().len(), 0);
    End::Passed
}
