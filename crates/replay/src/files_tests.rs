use super::*;

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("scratch")).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn prepare(&self, file: ProgramFile, maps: &[(PathBuf, PathBuf)], allow_write: bool) -> Result<Files> {
        let program = Program { files: vec![ProgramFile { uses: 1, ..file }], ..Program::default() };
        let scratch = |_| Ok(self.path("scratch"));
        Files::prepare(&program, &Places { maps, allow_write, scratch: &scratch }, &AtomicBool::new(false))
    }

    fn scratch_files(&self) -> usize {
        std::fs::read_dir(self.path("scratch")).unwrap().count()
    }
}

fn written(path: PathBuf) -> ProgramFile {
    ProgramFile { path, size: 8192, written_to: Some(8192), ..ProgramFile::default() }
}

#[test]
fn a_written_file_is_copied_and_the_copy_is_removed() {
    let bench = Bench::new();
    std::fs::write(bench.path("data"), vec![7; 8192]).unwrap();
    let files = bench.prepare(written(bench.path("data")), &[], false).unwrap();
    assert_eq!(bench.scratch_files(), 1);
    let copy = files.open[0].as_ref().unwrap();
    rustix::io::pwrite(copy, &[9; 12288], 0).unwrap();
    files.reset().unwrap();
    assert_eq!(copy.metadata().unwrap().len(), 8192);
    drop(files);
    assert_eq!(bench.scratch_files(), 0);
    assert_eq!(std::fs::read(bench.path("data")).unwrap(), vec![7; 8192]);
}

#[test]
fn a_recorded_file_is_never_opened_for_writing() {
    let bench = Bench::new();
    std::fs::write(bench.path("data"), vec![7; 8192]).unwrap();
    let read = ProgramFile { read_to: 8192, size: 8192, path: bench.path("data"), ..ProgramFile::default() };
    let files = bench.prepare(read, &[], true).unwrap();
    assert!(rustix::io::pwrite(files.open[0].as_ref().unwrap(), &[9], 0).is_err());
    // Neither by its own name nor by a hard link.
    std::fs::hard_link(bench.path("data"), bench.path("link")).unwrap();
    for new in ["data", "link"] {
        let maps = [(bench.path("data"), bench.path(new))];
        let e = bench.prepare(written(bench.path("data")), &maps, true).err().unwrap().to_string();
        assert!(e.contains("is a recorded file, and a replay never writes to recorded files"), "{e}");
    }
}

#[test]
fn an_existing_file_is_overwritten_only_with_permission() {
    let bench = Bench::new();
    ["data", "other"].iter().for_each(|name| std::fs::write(bench.path(name), vec![7; 8192]).unwrap());
    let maps = [(bench.dir.path().to_owned(), bench.dir.path().to_owned()), (bench.path("data"), bench.path("other"))];
    let e = bench.prepare(written(bench.path("data")), &maps, false).err().unwrap().to_string();
    assert!(e.contains("other, which exists; add --allow-write"), "{e}");
    assert!(!bench.prepare(written(bench.path("data")), &maps, true).unwrap().has_copies());
    assert!(bench.path("other").exists());
    let unused = [(bench.path("nothing"), bench.path("other"))];
    let e = bench.prepare(written(bench.path("data")), &unused, true).err().unwrap().to_string();
    assert!(
        e.contains("nothing=…: the recording does not use this file; specify one of these: ") && e.contains("data"),
        "{e}"
    );
    // A missing NEW is created as a copy.
    let maps = [(bench.path("data"), bench.path("new"))];
    let files = bench.prepare(written(bench.path("data")), &maps, false).unwrap();
    assert!(files.has_copies() && bench.path("new").exists());
    drop(files);
    assert!(!bench.path("new").exists());
}

#[test]
fn missing_and_truncated_files_are_reported_together() {
    let bench = Bench::new();
    std::fs::write(bench.path("short"), vec![0; 100]).unwrap();
    let read = |name: &str| ProgramFile {
        path: bench.path(name),
        size: 8192,
        read_to: 8192,
        uses: 1,
        ..ProgramFile::default()
    };
    let program = Program { files: vec![read("gone"), read("short")], ..Program::default() };
    let scratch = |_| panic!("nothing is copied");
    let places = Places { maps: &[], allow_write: false, scratch: &scratch };
    let e = Files::prepare(&program, &places, &AtomicBool::new(false)).err().unwrap().to_string();
    assert!(
        e.contains("gone no longer exists") && e.contains("short has 100 bytes, but the recording reads up to 8192"),
        "{e}"
    );
}

#[test]
fn a_copy_that_does_not_fit_is_rejected_before_copying() {
    let bench = Bench::new();
    std::fs::write(bench.path("data"), vec![7; 8192]).unwrap();
    let file = ProgramFile { written_to: Some(1 << 60), ..written(bench.path("data")) };
    let e = bench.prepare(file, &[], false).err().unwrap().to_string();
    assert!(e.starts_with("copies of the files that the recording writes need"), "{e}");
    assert_eq!(bench.scratch_files(), 0);
}
