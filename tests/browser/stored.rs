//! Creates a store with one long run, for benches/report.sh: `stored STORE EXPERIMENT REPEATS`.

#[path = "made.rs"]
#[allow(dead_code)]
mod made;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, path, experiment, repeats] = &args[..] else {
        eprintln!("stored STORE EXPERIMENT REPEATS");
        std::process::exit(2);
    };
    let repeats = repeats.parse().expect("a number of repeats");
    made::store(path.as_ref(), &made::built_in(experiment), repeats);
}
