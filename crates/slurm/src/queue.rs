//! Of sbatch's options those that say in which queue a job waits and on whose account it runs: what is fetched later needs them too.

/// An option's name, its letter, and how many characters of the name are enough for sbatch.
const OPTIONS: [(&str, Option<char>, usize); 4] =
    [("partition", Some('p'), 4), ("account", Some('A'), 4), ("qos", Some('q'), 2), ("reservation", None, 3)];

/// As srun takes them, from the environment and from options for sbatch, which win.
pub fn options(more: &[String], variable: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let given = |(name, ..): &(&str, _, _)| {
        variable(&format!("SBATCH_{}", name.to_uppercase())).map(|value| format!("--{name}={value}"))
    };
    let mut found: Vec<String> = OPTIONS.iter().filter_map(given).collect();
    let mut words = more.iter();
    while let Some(word) = words.next() {
        if let Some((name, value)) = option(word) {
            let value = value.map(str::to_owned).or_else(|| words.next().cloned());
            found.extend(value.map(|value| format!("--{name}={value}")));
        }
    }
    found
}

/// Those that still hold when a reservation has ended.
pub fn without_reservation(options: &[String]) -> Vec<String> {
    options.iter().filter(|option| !option.starts_with("--reservation=")).cloned().collect()
}

/// The option that a word is; `None` as its value: that is the next word.
fn option(word: &str) -> Option<(&'static str, Option<&str>)> {
    if let Some(long) = word.strip_prefix("--") {
        let (begins, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let (name, ..) = OPTIONS.iter().find(|(name, _, least)| name.starts_with(begins) && begins.len() >= *least)?;
        return Some((name, value));
    }
    let mut short = word.strip_prefix('-')?.chars();
    let letter = short.next()?;
    let (name, ..) = OPTIONS.iter().find(|(_, l, _)| *l == Some(letter))?;
    Some((name, Some(short.as_str()).filter(|value| !value.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(more: &[&str]) -> Vec<String> {
        options(&more.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), &|_| None)
    }

    #[test]
    fn however_an_option_is_written_it_is_found() {
        for more in [&["--partition=a"][..], &["--partition", "a"], &["-pa"], &["-p", "a"], &["--part=a"]] {
            assert_eq!(of(more), ["--partition=a"], "{more:?}");
        }
        let more =
            ["--time=30", "-A", "me", "--comment=p", "--qos=high", "--reservation=r", "-t", "3", "--par=x", "-p"];
        let found = of(&more);
        assert_eq!(found, ["--account=me", "--qos=high", "--reservation=r"]);
        assert_eq!(without_reservation(&found), ["--account=me", "--qos=high"]);
        assert_eq!(of(&[]), [""; 0]);
    }

    #[test]
    fn the_environment_comes_before_what_is_given() {
        let variable = |name: &str| (name == "SBATCH_PARTITION").then(|| "b".to_owned());
        assert_eq!(options(&["-pa".to_owned()], &variable), ["--partition=b", "--partition=a"]);
    }
}
